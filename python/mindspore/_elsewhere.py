"""Modules and names that MindSpore has in more places than we do: `mindspore.nn.layer.basic` is our `mindspore.nn`."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Sequence

from ._missing import missing, near, public_names

# Which names stand where else: a module, where its names come from, and which of them (all, if none is said).
_PLACES = {
    "common": ("", "JitConfig Symbol get_seed jit lazy_inline ms_function mutable set_seed"),
    "common.api": ("", "jit ms_function"),
    "common.jit_config": ("", "JitConfig"),
    "common.lazy_inline": ("", "lazy_inline"),
    "common.mutable": ("", "mutable"),
    "common.seed": ("", "get_seed set_seed"),
    "dataset.engine": ("dataset", ""),
    "dataset.engine.datasets": ("dataset", ""),
    "dataset.engine.samplers": ("dataset.samplers", ""),
    "dataset.transforms.c_transforms": ("dataset.transforms.transforms", ""),
    "dataset.transforms.py_transforms": ("dataset.transforms.transforms", ""),
    "dataset.vision.c_transforms": ("dataset.vision.transforms", ""),
    "dataset.vision.py_transforms": ("dataset.vision.transforms", ""),
    "dataset.vision.utils": ("dataset.vision.transforms", "Inter"),
    "mint.distributed.distributed": ("mint.distributed", ""),
    "nn.layer": ("nn", ""),
    **{f"nn.layer.{kind}": ("nn", "") for kind in (
        "activation", "basic", "container", "conv", "embedding", "normalization", "pooling")},
    "nn.wrap.grad_reducer": ("nn", "DistributedGradReducer PipelineGradReducer"),
    "ops.auto_generate": ("ops", ""),
    "ops.function": ("ops.functional", ""),
    **{f"ops.function.{kind}_func": ("ops.functional", "") for kind in ("array", "math", "nn")},
    **{f"ops.operations.{kind}_ops": ("ops.operations", "") for kind in (
        "_inner", "array", "comm", "inner", "math", "nn", "other", "random")},
    "parallel.algo_parameter_config": ("parallel", "get_algo_parameters reset_algo_parameters set_algo_parameters"),
    "train.amp": ("amp", ""),
    "train.metrics": ("nn.metrics", ""),
    "train.callback._callback": ("train.callback.base", ""),
    "train.callback._lr_scheduler_callback": ("train.callback", "LearningRateScheduler"),
    "train.summary": ("train.callback", "SummaryCollector"),
}


def _full(path: str) -> str:
    return f"mindspore.{path}" if path else "mindspore"


def _put(path: str, source: str, names: Sequence[str]) -> None:
    whole, holder, name = _full(path), *_full(path).rpartition(".")[::2]
    found = vars(sys.modules[_full(source)])
    module = sys.modules.get(whole)
    if module is None:
        module = sys.modules[whole] = ModuleType(whole, f"Names of `{_full(source)}`.")
        module.__path__ = []
        module.__getattr__ = missing(whole, vars(module))
        if name not in vars(sys.modules[holder]):  # a function of that name stays
            setattr(sys.modules[holder], name, module)
    vars(module).update({n: found[n] for n in names or public_names(_full(source), found)})


class _Missing:
    """The last of the finders: what it is asked for is not there."""

    @staticmethod
    def find_spec(name: str, path=None, target=None) -> None:
        holder, _, last = name.rpartition(".")
        if name.startswith("mindspore.") and not last.startswith("__"):
            there = sorted(m[len(holder) + 1:] for m in sys.modules if m.rpartition(".")[0] == holder and "._" not in m)
            raise ModuleNotFoundError(f"'{name}' is not in this front end{near(last, there)}; {holder} has "
                                      + (", ".join(there) or "no modules in it"), name=name)


def put_in_place() -> None:
    """After everything of ours is imported."""
    for path, (source, names) in _PLACES.items():
        _put(path, source, names.split())
    if _Missing not in sys.meta_path:
        sys.meta_path.append(_Missing)

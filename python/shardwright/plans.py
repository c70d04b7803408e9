"""Plans for people: how a step is split over devices and what it takes."""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any, Mapping, Sequence

from . import _core
from .optim import Optimizer

__all__ = ["Advice", "Plan", "Spec", "advise", "import_plan", "plan"]


class Spec:
    """Shape and type of an array that need not exist: what `plan` of a step may be asked about."""

    def __init__(self, shape: Sequence[int], dtype: str = "float32"):
        self.shape, self.dtype = tuple(shape), dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __repr__(self) -> str:
        return f"Spec({list(self.shape)}, '{self.dtype}')"


class Plan:
    """How a step is split over devices, and what it takes. In a notebook it shows itself as the page of `plan --html`."""

    def __init__(self, planned: _core.PlannedStep, call: str = ""):
        self._planned = planned
        self._call = call
        self.json: str = planned.plan_json()
        """As `shardwright train --plan` takes it."""
        self.table: str = planned.explain()
        self.step_seconds: float = planned.step_seconds
        """Predicted for the cluster that it is for."""
        self.memory_bytes: int = planned.arena_bytes
        """Of the device that takes most."""
        self.memory: dict[str, int] = planned.memory
        """What the bytes are for, by kind."""
        self.collectives: dict[str, int] = planned.collectives
        """How many of each kind a step runs."""

    @cached_property
    def _bound(self) -> dict[str, Any]:
        return json.loads(self._planned.bound_json()) or {}

    @property
    def binding(self) -> str | None:
        """What keeps it from being faster: `time`, `memory` or `fixed`; None of a plan that was a file.

        This and the three below have the keys of `shardwright plan --json`. The first that is asked for makes a few programs.
        """
        return self._bound.get("binding")

    @property
    def binding_by(self) -> dict[str, Any] | None:
        """What is known of that: the plan that is faster and does not fit, or what was fixed."""
        return self._bound.get("binding_by")

    @property
    def alternatives(self) -> list[dict[str, Any]]:
        """What lost with its price, those that fit first."""
        return self._bound.get("alternatives", [])

    @property
    def dropped(self) -> list[dict[str, Any]]:
        """What lost and needed no price: how many for each reason, and of these the first."""
        return self._bound.get("dropped", [])

    def save(self, path: str) -> None:
        """Writes the plan, or with a path that ends with .html its page for people. Raises: OSError if it cannot."""
        if not path.endswith(".html"):
            self._planned.save(path)
            return
        self._planned.require_writable(path)
        self._planned.write_page(path, self._page)

    def emit(self, to: str, path: str) -> None:
        """Writes what every device does as a package for another engine, as `shardwright emit --to` does.

        to: `torch`, `jax`, `jax:constraints`, or `shardy`, which is one file. `train.py` of it takes `--data`.
        Raises: ShardwrightError that names what the engine cannot have; OSError if it cannot be written.
        """
        self._planned.emit(to, path, self._call)

    def export(self, to: str, path: str = "") -> str:
        """The plan as what others train with are configured, as `shardwright export --to` has it; written to `path`, too.

        to: `megatron`, `torchtitan`, `dtensor`, `jax`, `deepspeed`, `huggingface`, `mindspore`, `yaml`, ... What such a file
        does not carry is told on standard error.
        Raises: ShardwrightError that says why the format cannot say this plan; OSError if it cannot be written.
        """
        return self._planned.export(to, path)

    @cached_property
    def _page(self) -> str:
        from . import __version__
        return self._planned.page(self._call, f"shardwright {__version__}")

    def __repr__(self) -> str:
        return self.table

    def _repr_html_(self) -> str:
        # A frame of its own: a notebook that shows several has no name or style twice.
        return self._planned.framed(self._page, self.table.partition("\n")[0])


def plan(model: str, optimizer: Optimizer | None = None, *, devices: int | None = None,
         **options: Any) -> Plan:
    """How a named model (or a graph or ONNX file) would be trained; memory is taken for none of it.

    options: as those of `train_step`, with `cluster="h100:64"` and the like for machines that are elsewhere, which
    say how many devices there are. On accelerators what is not said is as the command has it there: mixed precision,
    AdamW, the batch that the model was published with. Of a function: `train_step(...).plan(*batch)`.
    """
    said = options_text({"devices": devices, **options})
    call = call_text("plan", [repr(model), *([optimizer_text(optimizer)] if optimizer else [])], said)
    if optimizer is None:
        return Plan(_core.PlannedStep(model, "", {}, 0.0, said), call)
    return Plan(_core.PlannedStep(model, optimizer.name, optimizer.settings, optimizer.clip_norm, said), call)


def import_plan(path: str, *, cluster: str, from_format: str = "", model: str = "") -> Plan:
    """The plan that a file is which others train by: Megatron's flags, torchtitan's recipes, DeepSpeed's JSON and the like.

    cluster: the machine, `h100:8`. from_format: as `Plan.export` calls them; by default the file is taken for what it looks
    like. model: the network, where the file does not say it. What of the file has no effect is told on standard error.
    Raises: ShardwrightError that begins with the path; OSError if it cannot be read.
    """
    said = {"cluster": cluster, **({"model": model} if model else {})}
    return Plan(_core.import_plan(path, cluster, from_format, model), call_text("import_plan", [repr(path)], said))


class Advice:
    """What a recipe takes on a machine, and what would be better. Printed, it is the page of `shardwright advise`."""

    def __init__(self, text: str, document: str, recipe: Plan, better: Plan | None):
        self._text = text
        self.json: dict[str, Any] = json.loads(document)
        """As `shardwright advise --json` prints it."""
        self.recipe = recipe
        """The plan that the file is."""
        self.better = better
        """What a search finds for the same network and batch; None if that is no better."""
        self.fits: bool = self.json["fits"]
        """By the memory of the framework that the recipe is of."""

    def __repr__(self) -> str:
        return self._text


def advise(path: str, *, cluster: str, from_format: str = "", model: str = "") -> Advice:
    """What the recipe in the file at `path` takes on `cluster`, what binds it, and what a search would change.

    Arguments and errors are those of `import_plan`.
    """
    text, document, recipe, better = _core.advise(path, cluster, from_format, model)
    said = {"cluster": cluster, **({"model": model} if model else {})}
    call = call_text("advise", [repr(path)], said)
    return Advice(text, document, Plan(recipe, call), None if better is None else Plan(better, call))


def optimizer_text(optimizer: Optimizer) -> str:
    """How somebody has said it: `shardwright.optim.sgd(lr=0.1)`."""
    settings = {"lr" if name == "rate" else name: value for name, value in optimizer.settings.items()}
    if optimizer.clip_norm:
        settings["clip_norm"] = optimizer.clip_norm
    return f"shardwright.optim.{optimizer.name}({', '.join(f'{name}={value!r}' for name, value in settings.items())})"


def call_text(function: str, arguments: Sequence[str], options: Mapping[str, str]) -> str:
    """How somebody has said it: `shardwright.plan('ffn', devices='8')`."""
    return f"shardwright.{function}({', '.join([*arguments, *(f'{name}={value!r}' for name, value in options.items())])})"


def options_text(options: dict[str, Any]) -> dict[str, str]:
    """As the table of settings reads them; dicts are what a file would hold.

    Raises: ShardwrightError if there is no such option, or a value is none.
    """
    out: dict[str, str] = {}
    for name, value in options.items():
        if isinstance(value, Mapping):
            out[name] = json.dumps(strategy_file(value) if name == "strategy" else value)
        elif value is not None:
            out[name] = ("1" if value else "0") if isinstance(value, bool) else str(value)
    _core.check_options(out)
    return out


def strategy_file(said: Mapping[str, Any]) -> Mapping[str, Any]:
    """A strategy file's content: as it is, or of operators by name, for each input the parts of its dims."""
    if any(key in said for key in ("parallel_strategy_item", "parallel_layout_item", "parallel_layout_value_item")):
        return said
    return {"parallel_strategy_item": {name: {"stage": 0, "parallel_strategy": parts} for name, parts in said.items()}}

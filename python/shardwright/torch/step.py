"""Steps and plans of modules of PyTorch."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Callable, Iterable, Mapping

import numpy as np
import torch

from .. import _core, optim
from .._aten.program import Program
from .._aten.walk import Constants, Walk, counted
from .._core import Parameter, Tensor
from .._errors import ShardwrightError
from .._programs import Call, Programs
from ..optim import Optimizer
from ..plans import Plan
from ..step import TrainStep
from ._export import Batch, batch_of, exported, names_of
from ._optimizers import check_tables, optimizer_of, rates_of

__all__ = ["TorchStep", "emit", "export", "plan", "train_step"]

_precisions = {torch.float64: "f64", torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "fp16"}


class _Network:
    """A module and its loss as a function of traced tensors."""

    def __init__(self, module: torch.nn.Module, loss: Callable | None, own_settings: Mapping[str, dict[str, Any]]):
        """own_settings: what parameters have instead of the optimizer's, by name."""
        if not isinstance(module, torch.nn.Module):
            raise TypeError(f"module: {module!r} should be a torch.nn.Module")
        self.module, self.loss = module, loss
        self.name = type(module).__name__
        self._own_settings = own_settings
        self._frozen = self._frozen_now()
        self._programs: dict[tuple, Program] = {}
        self._constants = Constants()
        self.params: dict[str, Parameter] = {}
        self.counts: dict[str, int] = {}
        """Buffers that count steps, with where they began."""

    def batch(self, arguments: tuple, keywords: Mapping[str, Any]) -> Batch:
        if self.loss is not None:
            return Batch(arguments, keywords, names_of(self.loss)[1:])
        return Batch(arguments, keywords, names_of(self.module.forward))

    def program(self, batch: Batch, rows: int) -> Program:
        """For so many rows of such a batch. Raises: ShardwrightError if other parameters are trained than at first."""
        for name in self._frozen ^ self._frozen_now():
            raise ShardwrightError(f"requires_grad of '{name}' is another than when the step was made; make a new one")
        key = tuple((name, t.dtype, t.shape[1:]) for name, t in zip(batch.names, batch.tensors))
        for fitting in (key, (key, rows)):
            if fitting in self._programs:
                return self._programs[fitting]
        made = exported(self.module, batch, self.loss, rows)
        if not self.params:
            self._take(made)
        self._programs[(key, rows) if made.is_fixed else key] = made
        return made

    def _frozen_now(self) -> set[str]:
        return {name for name, p in self.module.named_parameters() if not p.requires_grad}

    def _take(self, program: Program) -> None:
        """Weights, and the buffers that a step changes."""
        normed, sparse = _of_norms(program), _sparse_tables(program)
        for name, p in self.module.named_parameters():
            self.params[name] = Parameter(_array(p), name=name, is_state=not p.is_floating_point())
            self.params[name].is_full = name in normed
            self.params[name].is_sparse = name in sparse
            self.params[name].is_frozen = not p.requires_grad
            if name in self._own_settings:
                self.params[name].set_own_settings(self._own_settings[name])
        buffers = dict(self.module.named_buffers())
        for out in program.outputs:
            if out["kind"] != "buffer":
                continue
            if counted(program, out):
                self.counts[out["name"]] = int(buffers[out["name"]])
            else:
                self.params[out["name"]] = Parameter(_array(buffers[out["name"]]), name=out["name"], is_state=True)

    def traced(self, batch: Batch, ignores: bool) -> Callable[..., Tensor]:
        """The loss, as `train_step` traces it."""
        def fn(params: Mapping[str, Parameter], *inputs: Tensor) -> Tensor:
            rows = next((x.shape[0] for x in inputs if x.ndim), 1)
            program = self.program(batch, rows)
            buffers = {name: _array(b) for name, b in self.module.named_buffers() if name not in params}
            walk = Walk(program, params, buffers, self._constants, ignores)
            return walk.run(dict(zip(batch.names, inputs)))[0]

        return fn

    def ignored_labels(self) -> set[int]:
        """What labels say that do not count, as the programs have it."""
        return {node.args.get("ignore_index", -100) for program in self._programs.values() for node in program.nodes
                if "cross_entropy_loss" in node.op or "nll_loss" in node.op}

    def precision(self) -> str:
        """That of the weights."""
        found = next((p.dtype for p in self.module.parameters() if p.is_floating_point()), torch.float32)
        return _precisions[found]


def _sparse_tables(program: Program) -> set[str]:
    """Weights of embeddings that say `sparse=True`: updates touch the rows of the batch."""
    by_node = {e["node"]: e["name"] for e in program.inputs if e["kind"] == "parameter"}
    return {by_node[node.args["weight"]] for node in program.nodes
            if "embedding" in node.op and node.args.get("sparse") and node.args.get("weight") in by_node}


def _of_norms(program: Program) -> set[str]:
    """Weights of norms, which are kept in full precision."""
    by_node = {e["node"]: e["name"] for e in program.inputs if e["kind"] == "parameter"}
    out = set()
    for node in program.nodes:
        if "norm" in node.op or (node.op == "aten.mul.Tensor" and len(node.shape or []) > 1):
            for name in ("weight", "bias") if "norm" in node.op else ("self", "other"):
                ref = node.args.get(name)
                entry = next((e for e in program.inputs if e["node"] == ref), None)
                if entry is not None and entry["kind"] == "parameter" and len(entry["shape"]) == 1:
                    out.add(by_node[entry["node"]])
    return out


def _array(t: torch.Tensor) -> np.ndarray:
    """A copy: training changes neither the module nor what is read from it."""
    t = t.detach().cpu()
    return (t.float() if t.dtype == torch.bfloat16 else t).numpy().copy()


class TorchStep(TrainStep):
    """What `train_step` returns: call it with a batch, as the module or the loss takes it; it trains and returns the loss."""

    def __init__(self, module: torch.nn.Module, optimizer: Any, loss: Callable | None, precision: str | None,
                 micro_batches: int, clip_norm: float, options: dict[str, Any]):
        ours, own_settings = optimizer_of(optimizer, module)
        if clip_norm:
            ours = dataclasses.replace(ours, clip_norm=clip_norm)
        self._network = _Network(module, loss, own_settings)
        self._theirs = optimizer if isinstance(optimizer, torch.optim.Optimizer) else None
        self._rates = rates_of(self._theirs) if self._theirs is not None else []
        self._batch: Batch | None = None
        self._ignores = False
        super().__init__(self._loss_of, {}, ours, precision or self._network.precision(),
                         micro_batches, options)
        self._name = self._network.name
        # Those for batches with labels that are left out are others.
        self._all_programs = {ignores: Programs(self._loss_of, self._program_of, skip=1) for ignores in (False, True)}

    def _loss_of(self, params: Mapping[str, Parameter], *batch: Tensor) -> Tensor:
        return self._network.traced(self._batch, self._ignores)(self._network.params, *batch)  # type: ignore[arg-type]

    def _prepared(self, arguments: tuple, keywords: Mapping[str, Any]) -> list[np.ndarray]:
        """The batch's arrays, when the program that it needs is there."""
        self._batch = self._network.batch(arguments, keywords)
        rows = self._batch.rows // self._batch_parts
        self._network.program(self._batch, rows)
        if not self.params:
            self.params = self._network.params
            check_tables(self._theirs, self.params)
            self.parameters = list(self.params.values())
        arrays = [_array(t) for t in self._batch.tensors]
        self._ignores = self._has_ignored(dict(zip(self._batch.names, arrays)))
        self._programs = self._all_programs[self._ignores]
        self._programs.names = self._batch.names
        return arrays

    def _retrace(self, call: Call) -> Callable[[int], tuple[_core.Trace, list[Tensor]]]:
        """Of the batch of now, also when it is asked for later."""
        batch, ignores, again = self._batch, self._ignores, super()._retrace(call)

        def of_batch(batch_parts: int) -> tuple[_core.Trace, list[Tensor]]:
            self._batch, self._ignores = batch, ignores
            return again(batch_parts)

        return of_batch

    def _has_ignored(self, arrays: Mapping[str, np.ndarray]) -> bool:
        """Raises: ShardwrightError if micro-batches have different counts of labels, of which no mean of means is right."""
        found = False
        for name, array in arrays.items():
            if array.dtype.kind != "i":
                continue
            for label in self._network.ignored_labels():
                out = array == label
                if not out.any():
                    continue
                found = True
                counts = {int(part.sum()) for part in np.split(out, self._batch_parts)} if array.ndim else set()
                if len(counts) > 1:
                    raise ShardwrightError(f"'{name}' has different numbers of labels {label} in its {self._batch_parts} "
                                           "micro-batches, so the mean of their losses is not that of the batch; "
                                           "say micro_batches=1")
        return found

    def __call__(self, *batch: Any, **named: Any) -> Tensor:  # type: ignore[override]
        """Trains on one batch. Returns the loss."""
        arrays = self._prepared(batch, named)
        if self._theirs is not None:
            self._rates = rates_of(self._theirs)
            if self._rates[0] != self._rate:
                super().set_rate(self._rates[0])
        return super().__call__(*arrays)

    def _ready(self, program: _core.Program) -> None:
        super()._ready(program)
        for group, rate in list(enumerate(self._rates))[1:]:
            program.set_rate(rate, f"optimizer.rate.{group}")

    def set_rate(self, rate: float) -> None:
        """Of the steps that follow. Raises: ShardwrightError beside an optimizer of PyTorch's, which says it."""
        if self._theirs is not None:
            raise ShardwrightError("the step reads its learning rate from the optimizer's param_groups: set it there")
        super().set_rate(rate)

    def _program_and_arrays(self, batch: Any) -> tuple[_core.Program, list[Tensor]]:
        """Of a batch of `fit`. Raises: ShardwrightError if there are several learning rates, of which it sets one."""
        if len(self._rates) > 1:
            raise ShardwrightError(f"fit sets one learning rate, but the optimizer has {len(self._rates)} groups of parameters: "
                                   "call the step with each batch")
        named = dict(batch) if isinstance(batch, Mapping) else {}
        arguments = () if named else tuple(batch) if isinstance(batch, (tuple, list)) else (batch,)
        return super()._program_and_arrays(tuple(self._prepared(arguments, named)))

    def plan(self, *batch: Any, **named: Any) -> Plan:  # type: ignore[override]
        """What a step with such a batch would be."""
        return super().plan(*self._prepared(batch, named))

    def write_back(self) -> torch.nn.Module:
        """The module with the weights and the running statistics that training has made; all processes call it."""
        module = self._network.module
        named = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        with torch.no_grad():
            for name, leaf in self.params.items():
                if leaf.is_frozen:
                    continue
                value = torch.from_numpy(np.array(leaf.gathered().numpy()))
                named[name].copy_(value.to(named[name].dtype))
            for name, start in self._network.counts.items():
                named[name].fill_(start + self.steps_done)
        return module


def train_step(module: torch.nn.Module, optimizer: Optimizer | torch.optim.Optimizer, *, loss: Callable | None = None,
               devices: int | None = None, precision: str | None = None, micro_batches: int = 1, clip_norm: float = 0.0,
               **options: Any) -> TorchStep:
    """Trains a module: `step(x, y)`, `step(**batch)`. Weights come from the module; `write_back()` gives them back.

    optimizer: one of shardwright.optim, or of torch.optim, whose learning rates are read before each step; groups of parameters
    may have settings and rates of their own.
    loss: `(module, *batch) -> scalar`; without it the module returns it: alone, as `.loss`, or first.
    precision: that of the weights, if it is not said. clip_norm: what the norm of all gradients together is scaled down to, as
    `clip_grad_norm_` does; 0: nothing. options: as those of `shardwright.train_step`.
    Raises: ShardwrightError that names the operator without a counterpart and the line of the module's code.
    """
    return TorchStep(module, optimizer, loss, precision, micro_batches, clip_norm, {"devices": devices, **options})


def plan(module: torch.nn.Module, batch: Any, optimizer: Optimizer | torch.optim.Optimizer | None = None, *,
         loss: Callable | None = None, devices: int | None = None, precision: str | None = None, micro_batches: int = 1,
         **options: Any) -> Plan:
    """How a module would be trained, without running it: `plan(module, (x, y), cluster="h100:64")`.

    batch: a tensor, a tuple of them, or a dict by name. optimizer: AdamW if none is said. options: as those of `train_step`.
    """
    step = train_step(module, optimizer or optim.adamw(), loss=loss, devices=devices, precision=precision,
                      micro_batches=micro_batches, **options)
    return step.plan(**batch) if isinstance(batch, Mapping) else \
        step.plan(*(batch if isinstance(batch, (tuple, list)) else (batch,)))


def emit(module: torch.nn.Module, batch: Any, to: str, path: str, optimizer: Optimizer | torch.optim.Optimizer | None = None,
         **options: Any) -> Plan:
    """Writes what every device does as a package for another engine, and into it the module's weights, which its `train.py`
    takes with `--init weights.safetensors`. Returns the plan. options: as those of `plan`.

    to: as `Plan.emit` takes it.
    """
    step = train_step(module, optimizer or optim.adamw(), **options)
    arguments = batch if isinstance(batch, (tuple, list)) else () if isinstance(batch, Mapping) else (batch,)
    made = step.plan(*arguments, **(batch if isinstance(batch, Mapping) else {}))
    made.emit(to, path)
    if os.path.isdir(path):
        leaves: Iterable[Parameter] = [*step.params.values(), *step._network._constants.all()]
        _core.save_safetensors(os.path.join(path, "weights.safetensors"), {leaf.name: leaf for leaf in leaves})
    return made


def export(module: torch.nn.Module, batch: Any, loss: Callable | None = None) -> Program:
    """The module and its loss as a program of ATen operators, as plain data: `.to_json()`."""
    made = batch_of(batch, loss or module.forward, 0 if loss is None else 1)
    return exported(module, made, loss, made.rows)


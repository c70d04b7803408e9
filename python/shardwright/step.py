"""Functions that become programs: traced once for each kind of arguments, planned for devices, run there."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Iterator

from . import _core, _tree
from ._core import Parameter, Tensor
from .optim import Optimizer

__all__ = ["ModelStep", "Plan", "TrainStep", "jit", "model_step", "train_step"]


class Plan:
    """How a step is split over devices, and what it takes."""

    def __init__(self, program):
        self.json: str = program.plan_json()
        """As `shardwright train --plan` takes it."""
        self.table: str = program.explain()
        self.step_seconds: float = program.step_seconds
        """Predicted for the cluster that it is for."""
        self.memory_bytes: int = program.arena_bytes
        """Of the device that takes most."""
        self.collectives: dict[str, int] = program.collectives
        """How many of each kind a step runs."""

    def save(self, path: str) -> None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.json)

    def __repr__(self) -> str:
        return self.table

    def _repr_html_(self) -> str:
        return _html_of(self.table)


def _html_of(table: str) -> str:
    """The lines of the table that stand in columns as rows, the others around it."""
    from html import escape

    lines = table.rstrip().split("\n")
    first = next((i for i, line in enumerate(lines) if line.startswith("  ")), len(lines))
    end = next((i for i in range(first, len(lines)) if not lines[i].startswith("  ")), len(lines))
    edges = [i for i, c in enumerate(lines[first]) if c != " " and lines[first][i - 2:i] == "  "] if first < end else []
    edges = edges[:3]  # name, strategy, parts: what follows is not aligned to the left
    rows = []
    for line in lines[first:end]:
        cells = [line[a:b].strip() for a, b in zip(edges, edges[1:] + [len(line)])]
        kind = "th" if not rows else "td"
        rows.append("<tr>" + "".join(f"<{kind} style='text-align:left'>{escape(c)}</{kind}>" for c in cells) + "</tr>")
    around = "<br>".join(escape(line) for line in lines[:first]), "<br>".join(escape(line) for line in lines[end:])
    return f"<div>{around[0]}</div><table>{''.join(rows)}</table><div>{around[1]}</div>"


def _options(options: dict[str, Any]) -> dict[str, str]:
    """As the table of settings reads them: text."""
    out = {}
    for name, value in options.items():
        if value is not None:
            out[name] = ("1" if value else "0") if isinstance(value, bool) else str(value)
    return out


def _kind(arrays: list[Tensor]) -> tuple:
    return tuple((a.dtype, a.shape) for a in arrays)


class _Constant:
    """A result that does not depend on the arguments' elements."""

    def __init__(self, value: Any):
        self.value = value


class _Traced:
    """One trace of a function, and the program that came of it."""

    def __init__(self, program, result: Any):
        self.program = program
        self._result = result  # the tree of what the function returned, with places of outputs as leaves

    def run(self, arrays: list[Tensor]) -> Any:
        outputs = self.program.run(arrays)
        if self._result == 0:
            return outputs[0]
        return _tree.map_leaves(lambda _, place: outputs[place] if isinstance(place, int) else place.value,
                                self._result)


def _outputs_of(result: Any) -> tuple[list[Tensor], Any]:
    """The tensors of a result, and its tree with their places."""
    outputs: list[Tensor] = []

    def place(_: str, leaf: Any):
        if not isinstance(leaf, Tensor):
            return _Constant(leaf)
        outputs.append(leaf)
        return len(outputs) - 1

    tree = _tree.map_leaves(place, result)
    return outputs, tree


def _argument_names(function: Callable, count: int, skip: int = 0) -> list[str]:
    try:
        names = [p.name for p in inspect.signature(function).parameters.values()
                 if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][skip:]
    except (TypeError, ValueError):
        names = []
    return (names + [f"input{i}" for i in range(len(names), count)])[:count]


def _named_arrays(function: Callable, arguments: tuple, skip: int = 0) -> list[tuple[str, Tensor]]:
    """The arrays in the arguments, called after the function's parameters."""
    out = []
    for name, argument in zip(_argument_names(function, len(arguments), skip), arguments):
        out += [(path, _core.array_of(leaf)) for path, leaf in _tree.leaves(argument, name)]
    return out


def _with_inputs(arguments: tuple, inputs: Iterator[Tensor]) -> tuple:
    return _tree.map_leaves(lambda *_: next(inputs), arguments)


class _Step:
    """What trains: programs by kind of batch, which share parameters and states."""

    def __init__(self, optimizer: Optimizer, name: str):
        self._optimizer = optimizer
        self._name = name
        self._store = _core.Store()
        self._last = None  # program that ran
        self._rate = optimizer.settings["rate"]
        self._pending: tuple[str, bool] | None = None  # to be loaded by the first program
        self._saver = None
        self._samples = 0
        self.steps_done = 0
        """Steps done, those before a checkpoint included."""

    def _ready(self, program) -> None:
        """Before a step of `program`."""
        if self._last is not program:
            program.set_rate(self._rate)
            self._last = program
        if self._pending:
            path, weights_only = self._pending
            self._pending = None
            _core.load_checkpoint(program, path, weights_only)

    def set_rate(self, rate: float) -> None:
        """The learning rate of the steps that follow."""
        self._rate = rate
        if self._last is not None:
            self._last.set_rate(rate)

    def _program(self):
        if self._last is None:
            raise ValueError("the step has not run yet, so there is no plan: it depends on the batch's shapes")
        return self._last

    def explain(self) -> Plan:
        """The plan of the last step: a table, in a notebook too."""
        return Plan(self._program())

    def lower(self, stage: int = 0) -> str:
        """What every rank runs, as text."""
        return self._program().lower_text(stage)

    def save(self, folder: str, keep: int = 0, is_best: bool = False) -> None:
        """Begins to save a checkpoint as `train --save` does, while training goes on; `wait` ends that.

        keep: how many there may be (0: all). is_best: `folder/best` leads to it.
        Raises: OSError if the folder cannot be written, or another run saves there.
        """
        if self._saver is None or self._saver[0] != (folder, keep):
            self._saver = ((folder, keep), _core.Saver(self._program(), folder, keep))
        self._saver[1].save(self._name, self.steps_done, self._samples, is_best)

    def wait(self) -> list[dict]:
        """Waits for what is being saved. Returns what has become of each save since the last call.

        Raises: OSError if one has failed.
        """
        saved = self._saver[1].wait() if self._saver else []
        for one in saved:
            if one["failure"]:
                raise OSError(f"{one['folder']} is not saved: {one['failure']}")
        return saved

    def load(self, path: str, weights_only: bool = False) -> int:
        """Goes on from a checkpoint, of whatever plan: parameters, states and the count of steps, which is returned.

        weights_only: it starts anew with the checkpoint's parameters, or a safetensors file's.
        """
        steps = 0 if weights_only else _core.checkpoint_info(path)["step"]
        if self._last is None:
            self._pending = (path, weights_only)
        else:
            _core.load_checkpoint(self._last, path, weights_only)
        self.steps_done = steps
        return steps


class TrainStep(_Step):
    """What `train_step` returns: call it with a batch; it trains and returns the loss."""

    def __init__(self, fn: Callable, params: Any, optimizer: Optimizer, precision: str, micro_batches: int,
                 options: dict[str, Any]):
        super().__init__(optimizer, getattr(fn, "__name__", "traced network"))
        self._fn = fn
        self._precision = precision
        self._micro_batches = micro_batches
        self._options = _options({**options, "micro_batches": micro_batches if micro_batches > 1 else None})
        self.params = _tree.map_leaves(
            lambda _, leaf: Parameter(leaf) if _is_array(leaf) else leaf, params)
        """The tree that was given, with parameters for its arrays."""
        self.parameters = _tree.name_parameters(self.params)
        """All parameters inside; `p.numpy()` is what training has made of one."""
        self._programs: dict[tuple, _Traced] = {}

    def __call__(self, *batch):
        """Trains on one batch (trees of arrays; whole batches). Returns the loss, and behind it what else `fn` returns."""
        named = _named_arrays(self._fn, batch, skip=1)
        arrays = [a for _, a in named]
        kind = _kind(arrays)
        traced = self._programs.get(kind)
        if traced is None:
            traced = self._programs[kind] = self._trace(batch, named)
            self._samples = arrays[0].shape[0] if arrays and arrays[0].ndim else 1
        self._ready(traced.program)
        result = traced.run(arrays)
        self.steps_done += 1
        return result

    def _trace(self, batch: tuple, named: list[tuple[str, Tensor]]) -> _Traced:
        with _core.Trace(self._precision, training=True) as trace:
            inputs = [trace.input(name, self._of_micro_batch(name, a), a.dtype) for name, a in named]
            result = self._fn(self.params, *_with_inputs(batch, iter(inputs)))
        outputs, tree = _outputs_of(result)
        if not outputs or outputs[0].size != 1:
            raise ValueError(f"{self._name} should return a scalar loss first, not {outputs[:1]}")
        optimizer = self._optimizer
        return _Traced(_core.Program(trace, outputs, self._options, self._store, optimizer.name, optimizer.settings,
                                     optimizer.clip_norm, has_set_rate=True), tree)

    def _of_micro_batch(self, name: str, array: Tensor) -> list[int]:
        shape = list(array.shape)
        if self._micro_batches == 1:
            return shape
        if not shape or shape[0] % self._micro_batches:
            raise ValueError(f"'{name}' is {shape} and cannot be cut into {self._micro_batches} micro-batches along "
                             "dim 0")
        return [shape[0] // self._micro_batches, *shape[1:]]


class ModelStep(_Step):
    """What `model_step` returns: call it with the model's inputs by name."""

    def __init__(self, model: str, optimizer: Optimizer, options: dict[str, Any]):
        super().__init__(optimizer, model)
        self._model_program = _core.Program(model, optimizer.name, optimizer.settings, optimizer.clip_norm,
                                            _options(options), self._store)
        self.inputs: dict[str, tuple[str, list[int]]] = {
            name: self._model_program.input_type(name) for name in self._model_program.inputs}
        """Type and shape of each, by name; of one micro-batch."""
        self._last = self._model_program
        self._last.set_rate(self._rate)

    def __call__(self, **batch):
        """Trains on one batch, `step(input=..., label=...)`. Returns the loss."""
        if set(batch) != set(self.inputs):
            raise TypeError(f"the model takes {', '.join(self.inputs)}, not {', '.join(batch)}")
        self._ready(self._model_program)
        arrays = [_core.cast(_core.array_of(batch[name]), dtype) for name, (dtype, _) in self.inputs.items()]
        self._samples = arrays[0].shape[0]
        loss = self._model_program.run(arrays)[0]
        self.steps_done += 1
        return loss

    @property
    def parameters(self) -> list[Parameter]:
        """All parameters; `p.numpy()` is what training has made of one."""
        return [p for p in self._store.items().values() if not p.is_state]


def _is_array(leaf: Any) -> bool:
    return not isinstance(leaf, Parameter) and (isinstance(leaf, Tensor) or hasattr(leaf, "__array__"))


def train_step(fn: Callable, params: Any, optimizer: Optimizer, *, devices: int = 1, precision: str = "f32",
               micro_batches: int = 1, **options) -> TrainStep:
    """Makes `fn(params, *batch) -> loss` (or `(loss, ...)`) a step that trains `params` on devices.

    params: a tree of arrays, or an object with parameters (shardwright.nn). fn is traced at the first call for each
    kind of batch. options: settings by the names of the command's flags: `search="recursive"`, `stages=2`,
    `optimizer_parallel=1`, `recompute="full"`, `memory_cap="2GB"`, `annotate="FILE"`, `plan="FILE"`, ...
    Raises: ShardwrightError (a ValueError) if an option is wrong or nothing fits.
    """
    return TrainStep(fn, params, optimizer, precision, micro_batches, {"devices": devices, **options})


def model_step(model: str, optimizer: Optimizer, *, devices: int = 1, **options) -> ModelStep:
    """The same for a network with a name (`shardwright models`), a graph as text or an ONNX file.

    options: as those of `train_step`, with `precision`, `global_batch`, `loss`.
    """
    return ModelStep(model, optimizer, {"devices": devices, **options})


def jit(fn: Callable | None = None, *, devices: int = 1, precision: str = "f32", **options):
    """Makes `fn(*arguments)` a program without an optimizer: for inference, and for functions of tensors.

    Parameters that it uses are those that a train step trains: each sees what the other has made of them.
    """
    if fn is None:
        return lambda f: jit(f, devices=devices, precision=precision, **options)
    text = _options({"devices": devices, **options})
    programs: dict[tuple, _Traced] = {}

    def run(*arguments):
        named = _named_arrays(fn, arguments)
        arrays = [a for _, a in named]
        traced = programs.get(_kind(arrays))
        if traced is None:
            with _core.Trace(precision) as trace:
                inputs = [trace.input(name, list(a.shape), a.dtype) for name, a in named]
                result = fn(*_with_inputs(arguments, iter(inputs)))
            outputs, tree = _outputs_of(result)
            traced = programs[_kind(arrays)] = _Traced(_core.Program(trace, outputs, text), tree)
        run.last = traced.program
        return traced.run(arrays)

    run.__name__, run.__doc__ = getattr(fn, "__name__", "jit"), fn.__doc__
    run.last = None
    run.explain = lambda: Plan(run.last)
    return run

"""Functions that become programs: traced once for each kind of arguments, planned for devices, run there."""

from __future__ import annotations

from typing import Any, Callable

from . import _core, _tree
from ._core import Parameter, Tensor
from ._programs import Call, Programs, Runnable, Traced
from .ops import ArrayLike
from .optim import Optimizer
from .plans import Plan, call_text, optimizer_text, options_text

__all__ = ["ModelStep", "PredictStep", "TrainStep", "jit", "model_step", "predict_step", "train_step"]


class _Step:
    """What trains: programs by kind of batch, which share parameters and states."""

    def __init__(self, optimizer: Optimizer, name: str):
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"optimizer: {optimizer!r} should be one of shardwright.optim, like optim.sgd(0.1)")
        self._optimizer = optimizer
        self._name = name
        self._call = ""  # that made it, for pages
        self._store = _core.Store()
        self._last: _core.Program | None = None  # that ran
        self._rate = optimizer.settings["rate"]
        self._pending: tuple[str, bool] | None = None  # to be loaded by the first program
        self._saver: tuple[tuple[str, int], _core.Saver] | None = None
        self._samples = 0
        self.steps_done = 0
        """Steps done, those before a checkpoint included."""

    def _ready(self, program: _core.Program) -> None:
        """Before a step of `program`."""
        if self._pending:  # until it has fitted: fresh weights are not what was asked for
            path, weights_only = self._pending
            self._load_into(program, path, weights_only)
            self._pending = None
        if self._last is not program:
            program.set_rate(self._rate)
            self._last = program

    def _load_into(self, program: _core.Program, path: str, weights_only: bool) -> None:
        steps = _core.load_checkpoint(program, path, "parameters" if weights_only else "all")
        self.steps_done = 0 if weights_only else steps

    def set_rate(self, rate: float) -> None:
        """The learning rate of the steps that follow. Raises: ValueError if it is none."""
        Optimizer(self._optimizer.name, {"rate": rate})
        self._rate = rate
        if self._last is not None:
            self._last.set_rate(rate)

    def _program(self) -> _core.Program:
        if self._last is None:
            raise ValueError("the step has not run yet, so there is no plan: it depends on the batch's shapes")
        return self._last

    def explain(self) -> Plan:
        """The plan of the last step: a table, in a notebook its page."""
        return Plan(self._program().planned, self._call)

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

        Before the first step it is read by that: as long as it does not fit, steps raise.
        weights_only: it starts anew with the checkpoint's parameters, or a safetensors file's.
        """
        steps = 0 if weights_only else _core.checkpoint_info(path)["step"]
        if self._last is None:
            self._pending, self.steps_done = (path, weights_only), steps
        else:
            self._load_into(self._last, path, weights_only)
        return steps


class TrainStep(_Step):
    """What `train_step` returns: call it with a batch; it trains and returns the loss."""

    def __init__(self, fn: Callable, params: Any, optimizer: Optimizer, precision: str, micro_batches: int,
                 options: dict[str, Any]):
        super().__init__(optimizer, getattr(fn, "__name__", "traced network"))
        if micro_batches < 1:
            raise ValueError(f"micro_batches={micro_batches} should be at least 1")
        self._fn = fn
        self._precision = precision
        self._options = options_text({**options, "micro_batches": micro_batches if micro_batches > 1 else None})
        self._batch_parts = micro_batches * int(self._options.get("micro_batch_interleave", 1))
        self._call = call_text("train_step", [self._name, "...", optimizer_text(optimizer)],
                               {"precision": precision, **self._options})
        self.params = _tree.map_leaves(
            lambda _, leaf: Parameter(leaf) if _is_array(leaf) else leaf, params)
        """The tree that was given, with parameters for its arrays."""
        self.parameters = _tree.name_parameters(self.params)
        """All parameters inside; `p.numpy()` is what training has made of one."""
        self._programs = Programs(fn, self._program_of, skip=1)

    def __call__(self, *batch: Any) -> Any:
        """Trains on one batch (trees of arrays; whole batches). Returns the loss, and behind it what else `fn` returns."""
        _refuse_traces(self._name)
        call = self._programs.call(batch)
        arrays = call.arrays
        found = self._programs.of(call)
        self._ready(found.program)
        self._samples = arrays[0].shape[0] if arrays and arrays[0].ndim else 1
        result = found.result_of(found.program.run(arrays))
        self.steps_done += 1
        return result

    def _program_and_arrays(self, batch: Any) -> tuple[_core.Program, list[Tensor]]:
        """Of a batch of `fit`."""
        call = self._call_of(batch)
        return self._programs.of(call).program, call.arrays

    def _call_of(self, batch: Any) -> Call:
        if isinstance(batch, dict):
            batch = tuple(_by_name(self._name, self._programs.names, batch).values())
        return self._programs.call(tuple(batch) if isinstance(batch, (tuple, list)) else (batch,))

    def _take_sizes(self, batches: list[Any]) -> None:
        """Makes one program for batches of these kinds, the largest first, over one memory."""
        calls = [self._call_of(batch) for batch in batches]
        if self._programs.have_one(calls):
            return
        made = [self._traced(call, self._batch_parts) for call in calls]
        optimizer, first = self._optimizer, made[0]
        program = _core.Program(
            first.trace, first.outputs, self._options, self._store, optimizer.name, optimizer.settings, optimizer.clip_norm,
            has_set_rate=True, retrace=self._retrace(calls[0]),
            others=[(t.trace, t.outputs, self._retrace(call)) for t, call in zip(made[1:], calls[1:])])
        for call, traced in zip(calls, made):
            self._programs.put(call, Runnable(traced, program))

    def plan(self, *batch: Any) -> Plan:
        """What a step with such a batch would be: arrays, or `Spec`s of them. Memory is taken for none of it."""
        call = self._programs.call(batch)
        traced = self._traced(call, self._batch_parts)
        optimizer = self._optimizer
        return Plan(_core.PlannedStep(traced.trace, traced.outputs, self._options, optimizer.name, optimizer.settings,
                                      optimizer.clip_norm, retrace=self._retrace(call)), self._call)

    def _traced(self, call: Call, batch_parts: int) -> Traced:
        traced = call.trace(lambda *batch: self._fn(self.params, *batch), self._precision, True, batch_parts)
        if not traced.outputs or traced.outputs[0].size != 1:
            raise ValueError(f"{self._name} should return a scalar loss first, not {traced.outputs[:1]}")
        return traced

    def _retrace(self, call: Call) -> Callable[[int], tuple[_core.Trace, list[Tensor]]]:
        """For searches that look at other numbers of micro-batches."""
        def again(batch_parts: int) -> tuple[_core.Trace, list[Tensor]]:
            traced = self._traced(call, batch_parts)
            return traced.trace, traced.outputs

        return again

    def _program_of(self, call: Call) -> Runnable:
        traced = self._traced(call, self._batch_parts)
        optimizer = self._optimizer
        return Runnable(traced, _core.Program(
            traced.trace, traced.outputs, self._options, self._store, optimizer.name, optimizer.settings,
            optimizer.clip_norm, has_set_rate=True, retrace=self._retrace(call)))


class ModelStep(_Step):
    """What `model_step` returns: call it with the model's inputs by name."""

    def __init__(self, model: str, optimizer: Optimizer, options: dict[str, Any]):
        super().__init__(optimizer, model)
        said = options_text(options)
        self._call = call_text("model_step", [repr(model), optimizer_text(optimizer)], said)
        self._model_program = _core.Program(model, optimizer.name, optimizer.settings, optimizer.clip_norm, said,
                                            self._store)
        self.inputs: dict[str, tuple[str, list[int]]] = {
            name: self._model_program.input_type(name) for name in self._model_program.inputs}
        """Type and shape of each, by name; of one micro-batch."""
        self._last = self._model_program
        self._model_program.set_rate(self._rate)

    def __call__(self, **batch: ArrayLike) -> Tensor:
        """Trains on one batch, `step(input=..., label=...)`. Returns the loss."""
        _refuse_traces(self._name)
        arrays = _inputs_of(self.inputs, batch)
        self._ready(self._model_program)
        self._samples = arrays[0].shape[0]
        loss = self._model_program.run(arrays)[0]
        self.steps_done += 1
        return loss

    def _program_and_arrays(self, batch: Any) -> tuple[_core.Program, list[Tensor]]:
        """Of a batch of `fit`."""
        if not isinstance(batch, dict):
            given = batch if isinstance(batch, (tuple, list)) else (batch,)
            if len(given) != len(self.inputs):
                raise TypeError(f"the model takes {', '.join(self.inputs)}, not {len(given)} arrays")
            batch = dict(zip(self.inputs, given))
        return self._model_program, _inputs_of(self.inputs, _by_name(self._name, list(self.inputs), batch))

    def _take_sizes(self, batches: list[Any]) -> None:
        raise ValueError(f"{self._name} is for one length; steps of functions (train_step) and `shardwright train --buckets` take several")

    @property
    def parameters(self) -> list[Parameter]:
        """All parameters; `p.numpy()` is what training has made of one."""
        return [p for p in self._store.items().values() if not p.is_state]


class PredictStep:
    """What `predict_step` returns: call it with the model's inputs by name."""

    def __init__(self, model: str, with_loss: bool, options: dict[str, Any]):
        self._store = _core.Store()
        said = options_text(options)
        self._call = call_text("predict_step", [repr(model), f"with_loss={with_loss}"], said)
        self._program = _core.Program.of_inference(model, with_loss, said, self._store)
        self._with_loss = with_loss
        self.inputs: dict[str, tuple[str, list[int]]] = {
            name: self._program.input_type(name) for name in self._program.inputs}
        """Type and shape of each, by name."""

    def __call__(self, **batch: ArrayLike) -> Any:
        """The prediction for a batch; with the loss `(loss, prediction)`."""
        outputs = self._program.run(_inputs_of(self.inputs, batch))
        return tuple(outputs) if self._with_loss else outputs[0]

    def load(self, path: str) -> None:
        """Takes the weights of a checkpoint, of whatever plan, or of a safetensors file."""
        _core.load_checkpoint(self._program, path, "network")

    def take_weights(self, step: ModelStep) -> None:
        """Takes those that a step of the same model has trained so far."""
        self._program.take_weights(step._program())

    def explain(self) -> Plan:
        return Plan(self._program.planned, self._call)


def _refuse_traces(name: str) -> None:
    if _core.tracing() is not None:
        raise ValueError(f"{name} trains when it is called; it cannot be part of a traced function")


def _inputs_of(inputs: dict[str, tuple[str, list[int]]], batch: dict[str, ArrayLike]) -> list[Tensor]:
    if set(batch) != set(inputs):
        raise TypeError(f"the model takes {', '.join(inputs)}, not {', '.join(batch)}")
    return [_core.cast(_core.array_of(batch[name]), dtype) for name, (dtype, _) in inputs.items()]


def _by_name(called: str, names: list[str], batch: dict[str, Any]) -> dict[str, Any]:
    """In the order of `names`; columns that are called otherwise stand for the names at their place."""
    if set(batch) == set(names):
        return {name: batch[name] for name in names}
    if len(batch) != len(names) or any(a in names and a != b for a, b in zip(batch, names)):
        raise TypeError(f"{called} takes {', '.join(names)}, not {', '.join(batch)}")
    return dict(zip(names, batch.values()))


def _is_array(leaf: Any) -> bool:
    return not isinstance(leaf, Parameter) and (isinstance(leaf, Tensor) or hasattr(leaf, "__array__"))


def train_step(fn: Callable, params: Any, optimizer: Optimizer, *, devices: int | None = None, precision: str = "f32",
               micro_batches: int = 1, **options: Any) -> TrainStep:
    """Makes `fn(params, *batch) -> loss` (or `(loss, ...)`) a step that trains `params` on devices.

    params: a tree of arrays, or an object with parameters (shardwright.nn). fn is traced at the first call for each
    kind of batch. options: settings by the names of the command's flags: `search="recursive"`, `stages=2`,
    `optimizer_parallel=1`, `recompute="full"`, `memory_cap="2GB"`, `annotate="FILE"` or such a file's text,
    `plan="FILE"`, ...
    Raises: ShardwrightError (a ValueError) if an option is wrong or nothing fits.
    """
    return TrainStep(fn, params, optimizer, precision, micro_batches, {"devices": devices, **options})


def model_step(model: str, optimizer: Optimizer, *, devices: int | None = None, **options: Any) -> ModelStep:
    """The same for a network with a name (`shardwright models`), a graph as text or an ONNX file.

    options: as those of `train_step`, with `precision`, `global_batch`, `loss`.
    """
    return ModelStep(model, optimizer, {"devices": devices, **options})


def predict_step(model: str, *, devices: int | None = None, with_loss: bool = False, **options: Any) -> PredictStep:
    """A named model (or a graph or ONNX file) that is only asked, outside of training: dropout keeps everything, batch
    norms take their running statistics. It starts with initial values; `load` or `take_weights` give others.

    options: as those of `model_step`.
    Raises: ShardwrightError if the model has no prediction, or an option is wrong.
    """
    return PredictStep(model, with_loss, {"devices": devices, **options})


def jit(fn: Callable | None = None, *, devices: int | None = None, precision: str = "f32", **options: Any) -> Any:
    """Makes `fn(*arguments)` a program without an optimizer: for inference, and for functions of tensors.

    Parameters that it uses are those that a train step trains: each sees what the other has made of them.
    """
    if fn is None:
        return lambda f: jit(f, devices=devices, precision=precision, **options)
    return Jitted(fn, precision, options_text({"devices": devices, **options}))


class Jitted:
    """What `jit` returns: call it as the function."""

    def __init__(self, fn: Callable, precision: str, options: dict[str, str]):
        self._fn, self._precision, self._options = fn, precision, options
        self._programs = Programs(fn, self._program_of)
        self._last: _core.Program | None = None
        self._call = call_text("jit", [getattr(fn, "__name__", "fn")], {"precision": precision, **options})
        self.__name__, self.__doc__ = getattr(fn, "__name__", "jit"), fn.__doc__

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        if _core.tracing() is not None:  # it becomes a part of what is being traced
            return self._fn(*arguments, **keywords)
        call = self._programs.call(arguments, keywords)
        arrays = call.arrays
        found = self._programs.of(call)
        self._last = found.program
        return found.result_of(found.program.run(arrays))

    def plan(self, *arguments: Any, **keywords: Any) -> Plan:
        """What a call with such arguments would be: arrays, or `Spec`s of them. Memory is taken for none of it."""
        traced = self._programs.call(arguments, keywords).trace(self._fn, self._precision, False)
        return Plan(_core.PlannedStep(traced.trace, traced.outputs, self._options), self._call)

    def explain(self) -> Plan:
        """The plan of the last call."""
        if self._last is None:
            raise ValueError(f"{self.__name__} has not run yet, so there is no plan: it depends on the arguments' shapes")
        return Plan(self._last.planned, self._call)

    def _program_of(self, call: Call) -> Runnable:
        traced = call.trace(self._fn, self._precision, False)
        return Runnable(traced, _core.Program(traced.trace, traced.outputs, self._options))

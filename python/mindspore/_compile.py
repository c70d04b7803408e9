"""Functions that become programs: traced once for each kind of call, planned for the devices, run there."""

from __future__ import annotations

import json
import os
import sys
import time
import weakref
from typing import Any, Callable

import numpy
from shardwright import ShardwrightError, _core, collectives
from shardwright._programs import argument_names
from shardwright._tree import leaves, map_leaves

from . import context
from ._feed import Feed
from ._trace import MicroBatches, Tracing, current
from .common.parameter import Parameter, is_of_each_rank, on_host
from .common.tensor import Tensor

_kept = 8  # programs of one kind of call, which differ in what was met besides its arguments
watchers: list[Callable] = []  # functions of each program that ran and its seconds
last_program: list = []  # what ran last, for who asks for its plan


class Unit:
    """A function and its programs. `is_fed`: its tensors are a batch, of which ranks read copies."""

    def __init__(self, function: Callable, is_fed: bool = True, named: Callable | None = None):
        self.function = function
        self.is_fed = is_fed
        self.argument_names = argument_names(named or function)
        self._programs: dict[tuple, list[_Compiled]] = {}

    def __call__(self, *args, **kwargs):
        if current() is not None:
            return self.function(*args, **kwargs)
        call = _Call(self.argument_names, args, kwargs)
        return self._ready(call).run(call.arrays)

    def compile(self, *args, **kwargs):
        """Without running it. Returns the program."""
        return self._ready(_Call(self.argument_names, args, kwargs)).program

    def _ready(self, call: _Call) -> _Compiled:
        """As it is kept, or compiled now."""
        key = (context.epoch(), *call.key)
        compiled = next((c for c in self._programs.get(key, []) if c.tracing.is_as_it_was()), None)
        if compiled is None:
            compiled = self._compiled(call)
            self._programs = {k: c for k, c in self._programs.items() if k[0] == context.epoch()}
            of_key = self._programs.setdefault(key, [])
            of_key.insert(0, compiled)
            del of_key[_kept:]
        last_program[:] = [compiled.program]
        return compiled

    def _compiled(self, call: _Call) -> _Compiled:
        batch_parts = interleave = 1
        while True:
            feed = Feed(call.arrays, self.is_fed, batch_parts, interleave)
            try:
                compiled = _Compiled(self, call, feed)
                _write(compiled.program)
                _placed().add(compiled.program, compiled.tracing)
                return compiled
            except MicroBatches as asked:
                batch_parts, interleave = asked.count, asked.interleave


def _placed():
    from .parallel import _placed  # which needs more than there is while this module is imported
    return _placed


def _write(program) -> None:
    """Its plan, graph and what every rank runs, in the folder that the context names."""
    folder = context.graphs_folder()
    if folder:
        os.makedirs(folder, exist_ok=True)
        number = sum(name.startswith("program_") for name in os.listdir(folder))
        with open(os.path.join(folder, f"program_{number}.txt"), "w", encoding="utf-8") as file:
            file.write("\n".join([program.planned.explain(), program.graph_text(), program.lower_text()]))


class _Call:
    """Arguments: tensors are inputs of the program, everything else is part of it."""

    def __init__(self, argument_names: list[str], args: tuple, kwargs: dict):
        self.tree = [list(args), dict(kwargs)]
        found = leaves(self.tree)
        inputs = [(path, leaf) for path, leaf in found if _is_input(leaf)]
        self.arrays = [leaf.data_now() for _, leaf in inputs]
        self.names = _unique([_input_name(argument_names, path) for path, _ in inputs])
        for path, leaf in found:
            if isinstance(leaf, numpy.ndarray):
                raise TypeError(f"{_input_name(argument_names, path)} is a numpy array of shape {leaf.shape}; a program "
                                "takes tensors: Tensor(array)")
        self.constants = [leaf for _, leaf in found if not _is_input(leaf)]
        self.key = (tuple((path, _is_input(leaf)) for path, leaf in found),
                    tuple((a.dtype, a.shape) for a in self.arrays), tuple(_identity(c) for c in self.constants))

    def with_inputs(self, inputs: list[Tensor]) -> tuple[tuple, dict]:
        """Arguments with other tensors in the places of its own."""
        fresh = iter(inputs)
        args, kwargs = map_leaves(lambda _, leaf: next(fresh) if _is_input(leaf) else leaf, self.tree)
        return tuple(args), kwargs


def _is_input(leaf) -> bool:
    return isinstance(leaf, Tensor) and not isinstance(leaf, Parameter)


def _identity(constant):
    if isinstance(constant, (bool, int, float, str, bytes, type(None))):
        return type(constant), constant
    return id(constant)


def _input_name(names: list[str], path: str) -> str:
    """As the function calls it: `inputs.image` of argument 0."""
    kind, _, rest = path.partition(".")
    first, _, inner = rest.partition(".")
    if kind == "0":
        first = names[int(first)] if int(first) < len(names) else f"input{first}"
    return "inputs." + (f"{first}.{inner}" if inner else first)


def _unique(names: list[str]) -> list[str]:
    return [name if names.count(name) == 1 else f"{name}.{i}" for i, name in enumerate(names)]


class _Compiled:
    """The program of one kind of call."""

    def __init__(self, unit: Unit, call: _Call, feed: Feed):
        self.feed = feed
        self.constants = call.constants  # they stay alive, as the key names some by identity
        with Tracing(feed.batch_parts, feed.interleave) as tracing:
            inputs = [Tensor.of(tracing.core.input(name, feed.shape(i, array), array.dtype))
                      for i, (name, array) in enumerate(zip(call.names, call.arrays))]
            args, kwargs = call.with_inputs(inputs)
            result = unit.function(*args, **kwargs)
            for parameter, value in tracing.assigned.values():
                tracing.core.assign(parameter.data_now(), value)
            self.outputs: list[Tensor] = []
            self.result = map_leaves(self._place, result)
            self.prints = [map_leaves(self._place, list(shown)) for shown in tracing.prints]
            arrays = [t.array for t in self.outputs]
        self.tracing = tracing
        if context.is_broadcasting():
            _broadcast(tracing.core.parameters)
        self.program = _program(tracing, arrays, context.plan_options(on_host(tracing.core.parameters)), feed)
        self.is_of_batch = [not isinstance(t, Parameter) and not _is_gradient(t) for t in self.outputs]
        self.is_of_network = [not isinstance(t, Parameter) and not tracing.is_behind(t.data_now()) for t in self.outputs]
        self.outputs = []

    def _place(self, path: str, leaf: Any) -> _Place | _Constant:
        if not isinstance(leaf, Tensor) or not (leaf.data_now().is_traced or isinstance(leaf, Parameter)):
            return _Constant(leaf)
        for i, known in enumerate(self.outputs):
            if known is leaf:
                return _Place(i)
        self.outputs.append(leaf)
        return _Place(len(self.outputs) - 1)

    def run(self, arrays: list) -> Any:
        for update in self.tracing.updates:
            update.before_step(self.program)
        start = time.perf_counter()
        results = self.feed.run(self.program, arrays)
        for watcher in watchers:
            watcher(self.program, time.perf_counter() - start)
        for update in self.tracing.updates:
            update.after_step()
        own = [Tensor.of(self.feed.own(a, b)) for a, b in zip(results, self.is_of_batch)]
        for shown in self.prints:
            show([leaf.of(own) for leaf in shown])
        if self.tracing.stages and context.is_before_last_stage():
            own = [_zeros_like(t) if is_of_network else t for t, is_of_network in zip(own, self.is_of_network)]
        return map_leaves(lambda _, leaf: leaf.of(own), self.result)


_broadcast_before = weakref.WeakValueDictionary()  # by id


def _broadcast(leaves_of_program: list) -> None:
    """What rank 0 begins with, on all ranks: each parameter once, when a program first has it."""
    for leaf in leaves_of_program:
        if _broadcast_before.get(id(leaf)) is not leaf and not is_of_each_rank(leaf):
            _broadcast_before[id(leaf)] = leaf
            leaf.set(collectives.broadcast(leaf.numpy()))


def _is_gradient(tensor: Tensor) -> bool:
    """Of a parameter: no part of the batch, whatever its shape."""
    return getattr(tensor, "is_gradient", False)


def _zeros_like(tensor: Tensor) -> Tensor:
    array = tensor.data_now()
    return Tensor.of(_core.Tensor(numpy.zeros(array.shape, numpy.float32), array.dtype))


def show(values: list) -> None:
    """Each on a line, tensors in their long form."""
    for value in values:
        print(repr(value) if isinstance(value, Tensor) else value, flush=True)


class _Place:
    """A tensor of a result."""

    def __init__(self, index: int):
        self.index = index

    def of(self, outputs: list[Tensor]) -> Tensor:
        return outputs[self.index]


class _Constant:
    """What a function returns besides tensors that it computes."""

    def __init__(self, value: Any):
        self.value = value

    def of(self, outputs: list[Tensor]) -> Any:
        return self.value


def _program(tracing: Tracing, outputs: list, options: dict[str, str], feed: Feed):
    try:
        return _planned(tracing, outputs, options, feed)
    except ShardwrightError as error:
        if error.key != "devices":
            raise
        wanted = int(error.wanted) * int(options.get("stages", 1))  # strategies say how many a stage has
        program = " ".join(sys.argv)
        raise ShardwrightError(f"{error}\nrun: python3 -m shardwright.run --devices {wanted} {program}\n"
                               f"or:  mpirun -n {wanted} python3 {program}") from None


def _planned(tracing: Tracing, outputs: list, options: dict[str, str], feed: Feed):
    if "stages" in options and not tracing.core.operators:  # as of an optimizer alone, which no stage computes
        options = {name: value for name, value in options.items() if name not in ("stages", "schedule")}
    if feed.is_by_rows:
        options = {**options, "dataset_strategy": "data_parallel"}
    if feed.batch_parts > 1:
        options = {**options, "micro_batches": str(feed.batch_parts // feed.interleave)}
    if feed.interleave > 1:
        options = {**options, "micro_batch_interleave": str(feed.interleave)}
    annotations = feed.annotations(tracing.core.captured)
    if "stages" in options:
        chunks = _chunks(tracing, int(options["stages"]))
        annotations.update({module: {"stage": chunk} for module, chunk in chunks.items()})
        if chunks != tracing.stages:
            if options["schedule"] != "1f1b":
                context.tell(f"mindspore: stages of several chunks take turns; pipeline_scheduler "
                             f"'{options['schedule']}' has no effect on them")
            options = {**options, "schedule": f"interleaved:{1 + max(tracing.turns.values())}"}
    if context.is_auto():
        for name, splits in _placed().loaded_splits(tracing).items():
            annotations.setdefault(name, {}).update(splits)
    if not annotations:
        return _with_states(tracing, outputs, options)
    return _with_states(tracing, outputs, {**options, "annotate": json.dumps(annotations)})


def _chunks(tracing: Tracing, stages: int) -> dict[str, int]:
    """Of modules with a stage: the stage, or with `pipeline_interleave` that of the turn in which it is met."""
    if not context.is_interleaved() or not any(tracing.turns.values()):
        return tracing.stages
    for module, stage in tracing.stages.items():
        if stage >= stages:
            raise ShardwrightError(f"stage of '{module}': it is {stage} but there are {stages} stages, from 0 on")
    return {module: tracing.turns[module] * stages + stage for module, stage in tracing.stages.items()}


def _with_states(tracing: Tracing, outputs: list, options: dict[str, str]):
    """The program, with the states of all optimizers in it, of which each gets its own."""
    updates = [update for update in tracing.updates if update.store is not None]
    if len(updates) < 2:
        return _core.Program(tracing.core, outputs, options, updates[0].store if updates else None)
    store = _core.Store()
    for update in updates:
        for name, leaf in update.store.items().items():
            store[name] = leaf
    program = _core.Program(tracing.core, outputs, options, store)
    for update in updates:
        update.take_states(store)
    return program


def jit(fn: Callable | None = None, **settings) -> Callable:
    """Makes a function, or a method of a cell, a program. Settings of another compiler have no effect."""
    if fn is None:
        return jit
    if not callable(fn):  # a mode by name, as in jit("PIJit")
        return jit
    unit = Unit(fn)

    def run(*args, **kwargs):
        return unit(*args, **kwargs)

    run.__name__, run.__doc__, run.__wrapped__ = getattr(fn, "__name__", "jit"), fn.__doc__, fn
    run.unit = unit
    return run

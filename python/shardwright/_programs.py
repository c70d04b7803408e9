"""Functions of tensors as programs: traced once for each kind of arguments."""

from __future__ import annotations

import inspect
import sys
from typing import Any, Callable, Mapping

from . import _core, _tree
from ._core import Parameter, Tensor
from .plans import Spec


class Traced:
    """What one trace of a function has recorded."""

    def __init__(self, trace: _core.Trace, result: Any):
        self.trace = trace
        self.outputs: list[Tensor] = []
        self._tree = _tree.map_leaves(self._place, result)  # of the result, with places of outputs as leaves

    def _place(self, _: str, leaf: Any) -> int | _Constant:
        if not isinstance(leaf, Tensor):
            return _Constant(leaf)
        self.outputs.append(leaf)
        return len(self.outputs) - 1

    def result_of(self, outputs: list[Tensor]) -> Any:
        """As the function would have returned it."""
        if self._tree == 0:
            return outputs[0]
        return _tree.map_leaves(lambda _, place: outputs[place] if isinstance(place, int) else place.value, self._tree)


class _Constant:
    """A result that does not depend on the arguments' elements."""

    def __init__(self, value: Any):
        self.value = value


class Runnable:
    """A program, and how its outputs are what the function returns."""

    def __init__(self, traced: Traced, program: _core.Program):
        self.program = program
        self.result_of = traced.result_of


class Call:
    """Arguments of one call: arrays are inputs of the program, parameters are part of it, and so is what else keywords say."""

    def __init__(self, names: list[str], arguments: tuple, keywords: Mapping[str, Any]):
        self._arguments, self._keywords = arguments, dict(keywords)
        found = [leaf for i, argument in enumerate(arguments)
                 for leaf in _tree.leaves(argument, names[i] if i < len(names) else f"input{i}")]
        said = _tree.leaves(self._keywords)
        found += [(path, leaf) for path, leaf in said if _is_array(leaf)]
        self.named: list[tuple[str, Tensor | Spec]] = [
            (path, leaf if isinstance(leaf, Spec) else _core.array_of(leaf))
            for path, leaf in found if not isinstance(leaf, Parameter)]
        self.key = (tuple((path, a.dtype, a.shape) for path, a in self.named),
                    tuple((path, id(leaf)) for path, leaf in found if isinstance(leaf, Parameter)),
                    tuple((path, type(leaf), leaf) for path, leaf in said if not _is_array(leaf)))

    @property
    def arrays(self) -> list[Tensor]:
        """Raises: TypeError if one has no elements."""
        out: list[Tensor] = []
        for path, array in self.named:
            if isinstance(array, Spec):
                raise TypeError(f"'{path}' is {array}, which has no elements: it can be planned for, not run with")
            out.append(array)
        return out

    def trace(self, function: Callable, precision: str, training: bool, micro_batches: int = 1) -> Traced:
        """`function` of traced arguments: those of one micro-batch."""
        with _core.Trace(precision, training=training) as trace:
            inputs = iter([trace.input(name, _of_micro_batch(name, a, micro_batches), a.dtype) for name, a in self.named])
            traced = lambda _, leaf: leaf if isinstance(leaf, Parameter) else next(inputs)  # noqa: E731
            arguments = _tree.map_leaves(traced, self._arguments)
            said = _tree.map_leaves(lambda path, leaf: traced(path, leaf) if _is_array(leaf) else leaf, self._keywords)
            return Traced(trace, function(*arguments, **said))


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, (Tensor, Parameter, Spec)) or hasattr(leaf, "__array__")


def _of_micro_batch(name: str, array: Tensor | Spec, micro_batches: int) -> list[int]:
    shape = list(array.shape)
    if micro_batches == 1:
        return shape
    if not shape or shape[0] % micro_batches:
        raise ValueError(f"'{name}' is {shape} and cannot be cut into {micro_batches} micro-batches along dim 0")
    return [shape[0] // micro_batches, *shape[1:]]


_many = 32


class Programs:
    """Those of one function, by kind of call. `make`: of a call its program; skip: arguments that are bound already."""

    def __init__(self, function: Callable, make: Callable[[Call], Runnable], skip: int = 0):
        self._name = getattr(function, "__name__", "a function")
        self.names = argument_names(function)[skip:]
        self._make = make
        self._made: dict[tuple, Runnable] = {}

    def call(self, arguments: tuple, keywords: Mapping[str, Any] = {}) -> Call:  # noqa: B006: nobody writes to it
        return Call(self.names, arguments, keywords)

    def put(self, call: Call, runnable: Runnable) -> None:
        self._made[call.key] = runnable

    def have_one(self, calls: list[Call]) -> bool:
        """Whether one program is there for all of them."""
        made = [self._made.get(call.key) for call in calls]
        return all(m is not None and made[0] is not None and m.program is made[0].program for m in made)

    def of(self, call: Call) -> Runnable:
        found = self._made.get(call.key)
        if found is None:
            found = self._made[call.key] = self._make(call)
            if len(self._made) == _many:
                print(f"{self._name}: {_many} kinds of calls were traced; each keeps its program and its memory, so what "
                      "differs in shape should be padded to few shapes", file=sys.stderr)
        return found


def argument_names(function: Callable) -> list[str]:
    """Of those that may be given by place."""
    try:
        return [p.name for p in inspect.signature(function).parameters.values()
                if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    except (TypeError, ValueError):  # of what has no signature
        return []

"""Programs of ATen operators become graphs: node by node, each by its conversion, in the trace that runs.

First what is constant is computed (folding.py), then patterns of several nodes are found that one operator of ours computes
(fused.py), and what nobody reads any more is left out; the rest is converted in its order (conversions.py).
"""

from __future__ import annotations

import hashlib
from typing import Any, Callable, Iterator, Mapping, Sequence

import numpy as np

from .. import _core
from .._core import Parameter, Tensor
from .._errors import ShardwrightError
from . import folding
from .program import Node, Program, Ref

__all__ = ["At", "Constants", "Walk", "conversion", "conversions"]

Value = Any
"""A `Tensor` that is computed, a numpy array that is known, a number, or a list of them."""

conversions: dict[str, Callable[..., Value]] = {}
"""By the name of the ATen operator; the first argument is `At`, the others are called as in its schema."""


def conversion(*ops: str) -> Callable:
    """Makes a function that of these operators: `add.Tensor` for `aten.add.Tensor`."""
    def add(function: Callable) -> Callable:
        conversions.update({f"aten.{op}": function for op in ops})
        return function

    return add


class Constants:
    """Tensors that are the same at each step, as states that nothing changes: one for all programs of a step."""

    def __init__(self) -> None:
        self._known: dict[tuple, Parameter] = {}
        self._names: set[str] = set()

    def leaf(self, value: np.ndarray, name: str) -> Parameter:
        value = np.ascontiguousarray(value)
        key = (value.dtype.str, value.shape, hashlib.sha256(value.tobytes()).digest())
        if key not in self._known:
            unique = f"constant.{name}"
            while unique in self._names:
                unique += "_"
            self._names.add(unique)
            self._known[key] = Parameter(value, name=unique, is_state=True)
        return self._known[key]

    def all(self) -> list[Parameter]:
        return list(self._known.values())


class At:
    """Where a node is converted: what conversions ask of the program around it."""

    def __init__(self, walk: Walk, node: Node):
        self.walk, self.node = walk, node

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def ignores_labels(self) -> bool:
        """Whether labels of this batch may be the ones that are left out."""
        return self.walk.ignores

    def call(self, op: str, *operands: Value, **attributes: Any) -> Any:
        """An operator of ours: a tensor, or a tuple of them."""
        name = f"{self.node.module}.{op}" if self.node.module else op
        return _core.call(op, [self.tensor(x) for x in operands], name=name, **attributes)

    def tensor(self, value: Value, like: Tensor | None = None) -> Tensor:
        """A value of the graph; what is constant in the type of `like`, if both are floating."""
        if isinstance(value, Tensor):
            return value
        array = np.asarray(value)
        dtype = str(array.dtype)
        if like is not None and array.dtype.kind == "f" and _is_floating(like):
            dtype = like.dtype
        if array.size and (thin := thinned(array)).size == 1:
            return _core.call("fill", [], shape=list(array.shape), value=_number(thin),
                              dtype=_core.short_name(self.walk.entering(dtype)))
        if array.dtype.kind in "iu" and array.dtype != np.int32:
            array = array.astype(np.int64)
        return _core.cast(self.walk.constants.leaf(array, self.name), self.walk.entering(dtype))

    def is_trained(self, argument: str) -> bool:
        """Whether what is given as this depends on a weight that is trained."""
        return self.node.args.get(argument) in self.walk.trained

    def refuse(self, why: str) -> ShardwrightError:
        return refused(self.node, why)


def refused(node: Node, why: str) -> ShardwrightError:
    return ShardwrightError(f"{node.op} {why}{f' ({node.line})' if node.line else ''}")


def _number(array: np.ndarray) -> float:
    return float(array.reshape(-1)[0])


def _is_floating(x: Tensor) -> bool:
    return "float" in x.dtype


def thinned(array: np.ndarray) -> np.ndarray:
    """With size 1 in the stead of dims along which all is the same."""
    array = np.asarray(array)
    for d in range(array.ndim):
        if array.shape[d] > 1:
            first = array[(slice(None),) * d + (slice(0, 1),)]
            if array.strides[d] == 0 or np.array_equal(np.broadcast_to(first, array.shape), array):
                array = first
    return array


class Walk:
    """One program, in the trace that runs."""

    def __init__(self, program: Program, leaves: Mapping[str, Parameter], buffers: Mapping[str, np.ndarray],
                 constants: Constants, ignores: bool = True):
        """leaves: parameters, and the buffers that the program changes. buffers: those that it only reads."""
        self.program, self.constants, self.ignores = program, constants, ignores
        self._leaves, self._buffers = leaves, buffers
        self.values: dict[str, Value] = {}
        self.trained = trained_of(program, leaves)
        self.fused: dict[str, tuple[Callable[..., Value], dict[str, Any]]] = {}

    def entering(self, dtype: str) -> str:
        """The type that numbers of this one have in the trace: with a precision of its own, floating ones have that."""
        return self._floating if "float" in dtype and dtype == self._given else dtype

    def run(self, inputs: Mapping[str, Tensor]) -> list[Value]:
        """Results of the program; what it changes is assigned. Raises: ShardwrightError with the user's line."""
        from .conversions import conversion_table
        from .fused import found_in

        self._table = conversion_table()
        self._set_precision(inputs)
        for entry in self.program.inputs:
            self.values[entry["node"]] = self._input(entry, inputs)
        self._sizes = {word: size for entry in self.program.inputs if entry["kind"] == "input"
                       for word, size in zip(entry["shape"], inputs[entry["name"]].shape) if isinstance(word, str)}
        with np.errstate(all="ignore"):  # as PyTorch, which makes infinities of what is not taken
            for node in self.program.nodes:
                self._fold(node)
        self.fused = found_in(self)
        live = set(self._live())
        for node in self.program.nodes:
            if node.name in live and node.name not in self.values:
                self.values[node.name] = self._convert(node)
        for out in self.program.outputs:
            if out["kind"] == "buffer":
                self._assign(out["name"], self.values.get(out["value"]))
        return [self.values[out["value"]] for out in self.program.outputs if out["kind"] == "result"]

    def _set_precision(self, inputs: Mapping[str, Tensor]) -> None:
        floating = [entry for entry in self.program.inputs
                    if entry["kind"] in ("parameter", "input") and "float" in entry["dtype"]]
        self._given = floating[0]["dtype"] if floating else "float32"  # what the module is written in
        self._floating = self._given
        for entry in floating:
            if entry["dtype"] == self._given:
                value = inputs[entry["name"]] if entry["kind"] == "input" else self._leaves[entry["name"]]
                if not (isinstance(value, Parameter) and value.is_full):
                    self._floating = _core.type_here(value)
                    return

    def _input(self, entry: Mapping[str, Any], inputs: Mapping[str, Tensor]) -> Value:
        name = entry["name"]
        if entry["kind"] == "constant":
            return np.asarray(entry["value"])
        if entry["kind"] != "input":
            return self._leaves[name] if name in self._leaves else self._buffers[name]
        given = inputs[name]
        wanted = entry["shape"]
        if len(wanted) != given.ndim or any(isinstance(w, int) and w != g for w, g in zip(wanted, given.shape)):
            raise ShardwrightError(f"'{name}' is {list(given.shape)}, but the module was exported for "
                                   f"[{', '.join(str(w) if isinstance(w, int) else 'any' for w in wanted)}]")
        return given

    def value(self, argument: Any) -> Value:
        """What an argument stands for. Raises: KeyError if it is not computed yet."""
        if isinstance(argument, Ref):
            return self.values[argument]
        if isinstance(argument, list):
            return [self.value(a) for a in argument]
        if isinstance(argument, slice):
            return slice(self.value(argument.start), self.value(argument.stop), self.value(argument.step))
        return argument

    def _shaped(self, ref: Any) -> Any:
        """What has the shape of a value that is not computed yet. Raises: KeyError if that is not known."""
        if not isinstance(ref, Ref) or ref in self.values:
            return self.value(ref)
        shape = [self._size(s) for s in self.program.by_name[ref].shape or ()]
        return np.broadcast_to(np.zeros((), bool), shape)

    def _size(self, said: int | str) -> int:
        """A size that changes with the batch is a word, or a formula of such."""
        if isinstance(said, int):
            return said
        try:
            return int(eval(said, {"__builtins__": {}}, dict(self._sizes)))  # noqa: S307: checked by Program
        except (NameError, SyntaxError, TypeError):
            raise KeyError(said) from None

    def _fold(self, node: Node) -> None:
        of_shape = folding.of_shapes.get(node.op)
        try:
            args = {name: self._shaped(a) if of_shape and name == "self" else self.value(a)
                    for name, a in node.args.items()}
        except KeyError:
            return
        if of_shape is None and any(isinstance(v, Tensor) for v in _flat(args.values())):
            return
        function = of_shape or folding.foldings.get(node.op)
        try:
            if function is not None:
                self.values[node.name] = _as_said(function(**args), node)
            elif not node.op.startswith("aten."):
                self.values[node.name] = folding.fold_numbers(node.op, args)
        except (KeyError, TypeError, NotImplementedError):
            pass  # it is converted like any other

    def _live(self) -> Iterator[str]:
        seen: set[str] = set()
        left = [out["value"] for out in self.program.outputs if not self._is_count(out)]
        while left:
            name = left.pop()
            if name in seen:
                continue
            seen.add(name)
            yield name
            node = self.program.by_name.get(name)
            if node is not None and name not in self.values:
                args = self.fused[name][1].values() if name in self.fused else node.args.values()
                left.extend(str(ref) for ref in _flat(args) if isinstance(ref, Ref))

    def _is_count(self, out: Mapping[str, Any]) -> bool:
        """Of steps, which the step counts itself."""
        return out["kind"] == "buffer" and counted(self.program, out)

    def _convert(self, node: Node) -> Value:
        function, said = self.fused.get(node.name) or (self._table.get(node.op), node.args)
        args = {name: self.value(a) for name, a in said.items()}
        if function is None and node.op != "operator.getitem":
            raise refused(node, "has no counterpart here")
        try:
            return args["0"][args["1"]] if function is None else function(At(self, node), **args)
        except (AttributeError, IndexError, KeyError, TypeError, ZeroDivisionError) as e:
            raise refused(node, f"is called in a way that is not known here: {e}") from e
        except ShardwrightError:
            raise
        except ValueError as e:
            raise refused(node, f"is not possible: {e}") from e

    def _assign(self, name: str, value: Value) -> None:
        trace = _core.tracing()
        if isinstance(value, Tensor) and trace is not None and trace.is_training:
            trace.assign(self._leaves[name], _core.cast(value, _core.type_here(self._leaves[name])))


def _flat(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _flat(value)
        elif isinstance(value, slice):
            yield from (value.start, value.stop, value.step)
        else:
            yield value


def _as_said(value: Any, node: Node) -> Any:
    if node.dtype is None or isinstance(value, (list, tuple)):
        return value
    wanted = folding.type_called(node.dtype)
    value = np.asarray(value)
    if value.dtype == wanted:
        return value
    return np.broadcast_to(thinned(value).astype(wanted), value.shape) if 0 in value.strides else value.astype(wanted)


def counted(program: Program, out: Mapping[str, Any]) -> bool:
    """Whether a buffer that the program changes is a whole number that grows by one."""
    node = program.by_name.get(out["value"])
    if node is None or node.op not in ("aten.add.Tensor", "aten.add.Scalar") or node.args.get("other") != 1:
        return False
    of = next((e for e in program.inputs if e["node"] == node.args.get("self")), None)
    return of is not None and of["kind"] == "buffer" and of["name"] == out["name"] and "int" in of["dtype"]


def trained_of(program: Program, leaves: Mapping[str, Parameter]) -> set[str]:
    """Names of what depends on a weight that is trained."""
    out = {e["node"] for e in program.inputs
           if e["kind"] == "parameter" and not (e["name"] in leaves and (leaves[e["name"]].is_state or leaves[e["name"]].is_frozen))}
    for node in program.nodes:
        if any(ref in out for ref in node.refs()) and node.op not in ("aten.detach.default", "aten.sym_size.int"):
            out.add(node.name)
    return out


def sequence(value: int | Sequence[int], count: int) -> list[int]:
    """One for each of so many dims."""
    all_ = [value] if isinstance(value, int) else list(value)
    return all_ * count if len(all_) == 1 else all_

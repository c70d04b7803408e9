"""Primitives: operators as objects, which carry how their tensors are split."""

from __future__ import annotations

import re
from typing import Any

from .. import _calls, _regions, context
from .._trace import current
from ..common.tensor import Tensor
from ..parallel.layout import Layout


class Primitive:
    """An operator. Subclasses define `run(*tensors)`, which calls the core through `self.call` or `self.binary`."""

    def __init__(self, name: str | None = None):
        self._says_name = name

    def __new__(cls, *args, **kwargs):
        self = super().__new__(cls)
        self.attrs: dict[str, Any] = {}
        self._in = self._out = None
        self._instance_name = ""
        self._recompute = False
        self._to_type = None
        self._says_name = None
        return self

    @property
    def name(self) -> str:
        return self._says_name or type(self).__name__

    @property
    def node_name(self) -> str:
        """That of its nodes, in the cell that calls it."""
        return self._instance_name or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", self.name).lower()

    def __call__(self, *args, **kwargs):
        if self._to_type:
            args = tuple(cast(x, self._to_type) for x in args)
        if self._recompute and current():
            result = _regions.recomputed(self.run, args, kwargs, _calls.name_of(self.node_name), {})
        else:
            result = self.run(*args, **kwargs)
        return cast(result, "float32") if self._to_type else result

    def run(self, *args, **kwargs):
        raise NotImplementedError(f"primitive {self.name} says no way to run")

    # ---- what is said of it ----

    def shard(self, in_strategy=None, out_strategy=None, strategy=None) -> Primitive:
        """How inputs and, optionally, the output are split: tuples of parts per dim, or layouts.

        strategy: the old name of in_strategy.
        """
        in_strategy = strategy if in_strategy is None else in_strategy
        if in_strategy is None and out_strategy is not None:
            raise ValueError(f"{self.name}: out_strategy needs in_strategy beside it")
        kinds = {_check_strategy(self.name, "in_strategy", in_strategy),
                 _check_strategy(self.name, "out_strategy", out_strategy)} - {None}
        if len(kinds) > 1:
            raise ValueError(f"{self.name}: in_strategy and out_strategy are both tuples of int or both layouts")
        self._in, self._out = in_strategy, out_strategy
        if current() is None:
            context.touch()
        return self

    def set_strategy(self, strategy=None) -> Primitive:
        """The old name of `shard`; lists are fine."""
        return self.shard(None if strategy is None else tuple(tuple(s) for s in strategy))

    def recompute(self, mode: bool = True) -> Primitive:
        """Computes its result again in the backward instead of keeping it."""
        self._recompute = bool(mode)
        if current() is None:
            context.touch()
        return self

    def add_prim_attr(self, name: str, value) -> Primitive:
        self.attrs[name] = value
        return self

    set_prim_attr = add_prim_attr

    def del_prim_attr(self, name: str) -> Primitive:
        self.attrs.pop(name, None)
        return self

    def set_prim_instance_name(self, name: str) -> Primitive:
        self._instance_name = name
        return self

    def set_device(self, device_target: str) -> Primitive:
        """Where it runs. "CPU" is the host where the context's device is none: its parameters and states lie there, too."""
        return self.add_prim_attr("primitive_target", device_target)

    def place(self, role: str, rank_id: int) -> Primitive:
        context.tell("mindspore: placement of operators on single processes has no effect")
        return self

    def set_stage(self, stage: int) -> Primitive:
        return self.add_prim_attr("stage", stage)

    def to_float_and_back(self, dtype: str) -> Primitive:
        """Floating tensors are cast to this type on their way in, and the result, which is one, to f32."""
        self._to_type = dtype
        return self

    # ---- for subclasses ----

    def strategies(self) -> dict[str, Any]:
        """As the core takes them."""
        if not current():
            return {}
        host = {"host": True} if self._is_hosted() else {}
        if context.device_count() == 1:
            return host
        if not context.is_auto():
            if self._in is not None:
                context.tell(f"mindspore: strategies such as that of {self.node_name} have an effect only in the modes "
                             "semi_auto_parallel and auto_parallel")
            return host
        return {"in_": _regions.splits_of(self._in), "out_": _regions.splits_of(self._out), **host}

    def _is_hosted(self) -> bool:
        return self.attrs.get("primitive_target") == "CPU" and context.get_context("device_target") != "CPU"

    def call(self, op: str, *tensors, **attributes):
        """The core's operator with what is said of this one: a tensor, or a tuple of them."""
        arrays = [as_tensor(t).array for t in tensors]
        result = _calls.call(op, arrays, name=self.node_name, **self.strategies(), **attributes)
        return tuple(Tensor.of(r) for r in result) if isinstance(result, tuple) else Tensor.of(result)

    def binary(self, op: str, a, b) -> Tensor:
        """The same for two operands, of which one may be a number."""
        how = {"name": self.node_name, **self.strategies()}
        return Tensor.of(_calls.binary(op, _operand(a), _operand(b), **how))


def cast(x, dtype: str):
    """A floating tensor in this type; what is none as it is."""
    is_number = isinstance(x, Tensor) and _calls.is_floating(x.dtype.name)
    return Tensor.of(_calls.cast(x.array, dtype)) if is_number else x


def as_tensor(x) -> Tensor:
    return x if isinstance(x, Tensor) else Tensor(x)


def by_core(op: str, *tensors, **attributes):
    """The core's operator, which nothing is said of: a tensor, or a tuple of them."""
    result = _calls.call(op, [as_tensor(t).array for t in tensors], **attributes)
    return tuple(Tensor.of(r) for r in result) if isinstance(result, tuple) else Tensor.of(result)


def _operand(x):
    if isinstance(x, Tensor):
        return x.array
    return x if isinstance(x, (bool, int, float)) else Tensor(x).array


def _check_strategy(who: str, what: str, strategy) -> type | None:
    """`int` or `Layout`, of which kind it is. Raises: TypeError of another."""
    if strategy is None:
        return None
    if not isinstance(strategy, tuple):
        raise TypeError(f"{who}: {what} is a tuple with an entry for each tensor, not {strategy!r}")
    kinds = set()
    for entry in strategy:
        if isinstance(entry, Layout):
            kinds.add(Layout)
        elif isinstance(entry, tuple) and all(isinstance(p, int) and not isinstance(p, bool) for p in entry):
            kinds.add(int)
        else:
            raise TypeError(f"{who}: an entry of {what} is a tuple of int or a Layout, not {entry!r}")
    if len(kinds) > 1:
        raise TypeError(f"{who}: entries of {what} are all tuples of int or all layouts, not {strategy}")
    return kinds.pop() if kinds else None

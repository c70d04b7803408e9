"""Parameters: tensors that are trained, or kept from step to step."""

from __future__ import annotations

import itertools
import weakref

import numpy
from shardwright import ShardwrightError, _core

from .. import _calls, _trace, context
from . import dtype as mstype
from .initializer import initializer
from .tensor import Tensor, array_from

_numbers = itertools.count()
PARAMETER_NAME_DEFAULT = "Parameter"
_by_leaf: weakref.WeakValueDictionary[int, Parameter] = weakref.WeakValueDictionary()  # by id of the core's


class Parameter(Tensor):
    """A tensor with a name, which programs share; it takes its place in the core when it is first used.

    With device "CPU" it lies in memory of the host, with its states, where the context's device is none.
    """

    def __init__(self, default_input, name=None, requires_grad: bool = True, layerwise_parallel: bool = False,
                 parallel_optimizer: bool = True, storage_format: str = "", device: str | None = None):
        if device not in (None, "CPU"):
            raise ValueError(f"a parameter's device is 'CPU' or None, not {device!r}")
        if name is not None and not isinstance(name, str):
            raise TypeError(f"a parameter's name is a string, not {name!r}")
        self._leaf = None
        self._name = name
        self.requires_grad = requires_grad
        self.layerwise_parallel = layerwise_parallel
        self.parallel_optimizer = parallel_optimizer
        self.device = device
        self._comm_fusion = 1
        start = default_input if isinstance(default_input, Tensor) else Tensor(default_input)
        self._init, self._data = start._init, start._data
        if self._data is None:
            self._shape, self._dtype = start._shape, start._dtype

    # ---- where it is ----

    def data_now(self):
        """The core's parameter."""
        if self._leaf is None:
            self._leaf = self._made()
            _by_leaf[id(self._leaf)] = self
            self._leaf.comm_fusion = self._comm_fusion
            self._shape, self._dtype, self._data = self._leaf.shape, self.dtype, None
        return self._leaf

    def _made(self):
        name = self._name or f"parameter{next(_numbers)}"
        is_state = not self.requires_grad
        if self._data is not None:
            return _core.Parameter(self._data, name, is_state)
        core = self._init.core(self._shape)
        if core:
            kind, scale, shift = core
            return _core.Parameter.initialized(list(self._shape), kind, scale, shift, self._dtype.name, name, is_state)
        return _core.Parameter(_core.Tensor(self._init.values(self._shape, self._dtype, name)), name, is_state)

    @property
    def array(self):
        tracing = _trace.current()
        if tracing and id(self) in tracing.assigned:
            return _calls.as_computed(tracing.assigned[id(self)][1])
        return _calls.as_computed(self.data_now())

    @property
    def name(self) -> str:
        return self._name or PARAMETER_NAME_DEFAULT

    @name.setter
    def name(self, name: str) -> None:
        self._name = name
        if self._leaf is not None:
            try:
                self._leaf.name = name
            except ShardwrightError:  # a program knows it by its old name, and goes on doing so
                pass

    @property
    def has_name(self) -> bool:
        return self._name is not None

    @property
    def comm_fusion(self) -> int:
        """Collectives of parameters of one number run as one."""
        return self._comm_fusion

    @comm_fusion.setter
    def comm_fusion(self, number: int) -> None:
        if not isinstance(number, int) or number < 0:
            raise ValueError(f"comm_fusion of '{self.name}' is a whole number from 0 on, not {number!r}")
        self._comm_fusion = number
        if self._leaf is not None:
            self._leaf.comm_fusion = number

    @property
    def is_init(self) -> bool:
        return self._leaf is not None

    # ---- its value ----

    def _elements(self):
        """What this rank has of it, without asking others: all of it, or its slice, once a program says how it lies."""
        leaf = self.data_now()
        if context.is_rank_view() and context.is_auto():
            from ..parallel import _placed  # which needs this module
            part = _placed.own_part(leaf) if _placed.find(leaf) else None
            if part is not None:
                return part
        try:
            leaf.numpy()
            return leaf
        except ShardwrightError:  # it has a slice
            return leaf.own()[0]

    def _whole(self) -> numpy.ndarray:
        """All of it. Raises: ValueError where this rank has a slice."""
        return numpy.array(self.data_now().numpy())

    @property
    def data(self) -> Parameter:
        return self

    def value(self) -> Tensor:
        """Its value as a plain tensor: outside of programs what this rank has of it."""
        return Tensor.of(self.array if _trace.current() else _calls.as_computed(self._elements()))

    def set_data(self, data, slice_shape: bool = False) -> Parameter:
        """Takes other elements. Raises: ValueError of another shape."""
        data = data if isinstance(data, Tensor) else Tensor(data)
        if tuple(data.shape) != tuple(self.shape):
            raise ValueError(f"parameter '{self.name}' has shape {self.shape} but is set to one of {data.shape}")
        tracing = _trace.current()
        if tracing:
            tracing.assigned[id(self)] = (self, _calls.cast(data.array, self.dtype.name))
        elif data is not self:
            self.data_now().set(array_from(data))
        return self

    assign_value = set_data

    def clone(self, init="same") -> Parameter:
        """Another parameter of the same name, type and settings, with the same value or as `init` says."""
        start = Tensor(self._whole(), self.dtype) if init == "same" else initializer(init, self.shape, self.dtype)
        copy = Parameter(start, self._name, self.requires_grad, self.layerwise_parallel, self.parallel_optimizer,
                         device=self.device)
        copy.comm_fusion = self.comm_fusion
        return copy

    def __deepcopy__(self, memo) -> Parameter:
        return self.clone()

    def __setitem__(self, index, value) -> None:
        values = self._whole()
        values[index] = value.asnumpy() if isinstance(value, Tensor) else value
        self.set_data(Tensor(values))

    def __str__(self) -> str:
        return (f"Parameter (name={self.name}, shape={tuple(self.shape)}, dtype={self.dtype}, "
                f"requires_grad={self.requires_grad})")

    __repr__ = __str__

    @property
    def shape(self) -> tuple[int, ...]:
        return self._leaf.shape if self._leaf is not None else super().shape

    @property
    def dtype(self) -> mstype.Type:
        return mstype.type_of(self._leaf.dtype) if self._leaf is not None else super().dtype


def is_of_each_rank(leaf) -> bool:
    """The core's parameter is one that differs from rank to rank: `layerwise_parallel`."""
    parameter = _by_leaf.get(id(leaf))
    return parameter is not None and parameter.layerwise_parallel


def on_host(leaves) -> list[str]:
    """Of the core's parameters the names of those that are to lie in memory of the host."""
    known = [(leaf, _by_leaf.get(id(leaf))) for leaf in leaves]
    return [leaf.name for leaf, parameter in known if parameter is not None and parameter.device == "CPU"]


class ParameterTuple(tuple):
    """Parameters in an order. Raises: TypeError of what is none."""

    def __new__(cls, parameters):
        parameters = tuple(parameters)
        for p in parameters:
            if not isinstance(p, Parameter):
                raise TypeError(f"a ParameterTuple holds parameters, not {p!r}")
        return super().__new__(cls, parameters)

    def clone(self, prefix: str, init="same") -> ParameterTuple:
        """Others whose names begin with `prefix.`"""
        copies = [p.clone(init) for p in self]
        for copy, own in zip(copies, self):
            copy.name = f"{prefix}.{own.name}"
        return ParameterTuple(copies)

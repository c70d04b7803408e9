"""Tensors: elements, or what stands for them while a function is traced."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any, Sequence

import numpy
from shardwright import ShardwrightError, _core
from shardwright.data import in_held_type

from .. import _calls, _trace
from . import dtype as mstype

_package = str(Path(__file__).parent.parent)


def where_from() -> str:
    """File and line of the program that is calling us."""
    frame = sys._getframe(1)
    while frame and frame.f_code.co_filename.startswith(_package):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else "?"


def array_from(data, dtype=None):
    """The core's array of numbers: Python's floats are f32 and its whole numbers i64; numpy's keep their type."""
    if isinstance(data, Tensor):
        array = data.array
        return _calls.cast(array, dtype.name) if dtype else array
    if not isinstance(data, (bool, int, float, list, tuple, numpy.ndarray, numpy.generic)):
        raise TypeError(f"a tensor is made of numbers, lists, numpy arrays or tensors, not of {data!r}")
    is_numpy = isinstance(data, (numpy.ndarray, numpy.generic))
    values = numpy.array([_plain(x) for x in data] if isinstance(data, (list, tuple)) else data)
    if not is_numpy and values.dtype == numpy.float64:
        values = values.astype(numpy.float32)
    values = in_held_type(values)
    if dtype is mstype.bfloat16:
        return _core.Tensor(values.astype(numpy.float32)[()], "bfloat16")
    return _core.Tensor((values if dtype is None else values.astype(dtype.name))[()])  # of no dims a number, not an array


def _plain(item):
    if isinstance(item, Tensor):
        return item.asnumpy()
    return [_plain(x) for x in item] if isinstance(item, (list, tuple)) else item


class Tensor:
    """Numbers of one type in a grid.

    `Tensor(data, dtype=None)`, or `Tensor(shape=, dtype=, init=)`, whose elements are made when they are needed. Without
    `init` it only tells of shapes, in which None and Symbols are sizes of any kind (`Cell.set_inputs`).
    """

    def __init__(self, input_data=None, dtype=None, shape=None, init=None, internal=False, const_arg=False):
        self._init = init
        dtype = mstype.type_of(dtype) if dtype is not None else None
        if input_data is not None:
            self._data = array_from(input_data, dtype)
        elif shape is None or dtype is None:
            raise TypeError("a tensor needs data, or shape, dtype and init")
        else:
            self._data = None
            self._shape = (shape,) if isinstance(shape, int) else tuple(shape)
            self._dtype = dtype

    @classmethod
    def of(cls, array) -> Tensor:
        """Around an array of the core."""
        self = cls.__new__(cls)
        self._data, self._init = array, None
        return self

    def data_now(self):
        """The core's array."""
        if self._data is None:
            if self._init is None:
                raise ValueError(f"a tensor of shape {list(self._shape)} without data and init has no elements: it can "
                                 "only be given to set_inputs")
            self._data = _core.Tensor(self._init.values(self._shape, self._dtype, ""))
        return self._data

    @property
    def array(self):
        """The core's array, for an operator."""
        data = self.data_now()
        tracing = _trace.current()
        if tracing and not data.is_traced:
            tracing.seen[id(self)] = (self, data)
        return data

    # ---- what it is ----

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape if self._data is None else self._data.shape

    @property
    def dtype(self) -> mstype.Type:
        return self._dtype if self._data is None else mstype.type_of(self._data.dtype)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        return numpy.dtype(mstype.dtype_to_nptype(self.dtype)).itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    @property
    def init(self):
        return self._init

    @property
    def has_init(self) -> bool:
        return self._init is not None

    @property
    def T(self) -> Tensor:
        return self.transpose()

    def dim(self) -> int:
        return self.ndim

    def numel(self) -> int:
        return self.size

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a scalar tensor has no length")
        return self.shape[0]

    # ---- its elements ----

    def _elements(self):
        data = self.data_now()
        if data.is_traced:
            raise ShardwrightError(
                f"{where_from()}: a {self.dtype} tensor of shape {self.shape} is being traced and has no elements "
                "yet: branch on shapes and Python values, or use ops.select; print in graphs with ops.Print")
        return data

    def asnumpy(self) -> numpy.ndarray:
        """A copy as a numpy array; bfloat16 becomes float32."""
        return numpy.array(self._elements().numpy())

    numpy = asnumpy

    def __array__(self, dtype=None) -> numpy.ndarray:
        values = self.asnumpy()
        return values if dtype is None else values.astype(dtype)

    def __dlpack__(self, **options):
        return self.asnumpy().__dlpack__(**options)

    def item(self, *index) -> Any:
        if index:
            return self.asnumpy().item(*index)
        return self._elements().item()

    def tolist(self):
        return self.asnumpy().tolist()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError("the truth of a tensor of several elements is ambiguous; take .any() or .all()")
        return bool(self.item())

    def __index__(self) -> int:
        if _calls.is_floating(self.dtype.name):
            raise TypeError(f"a tensor of {self.dtype} is no index")
        return int(self.item())

    def __str__(self) -> str:
        data = self.data_now()
        return repr(data) if data.is_traced else str(self.asnumpy())

    def __repr__(self) -> str:
        data = self.data_now()
        if data.is_traced:
            return repr(data)
        return f"Tensor(shape={list(self.shape)}, dtype={self.dtype}, value={_long_form(self.asnumpy())})"

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec else str(self)

    def __deepcopy__(self, memo) -> Tensor:
        return Tensor.of(self.data_now())

    def set_data(self, data: Tensor) -> Tensor:
        """Takes other elements of the same shape."""
        self._data, self._init = array_from(data), None
        return self

    assign_value = set_data

    def init_data(self, slice_index=None, shape=None, opt_shard_group=None) -> Tensor:
        """Elements, if it has none yet."""
        self.data_now()
        return self

    def value(self) -> Tensor:
        return self

    def copy(self) -> Tensor:
        return Tensor.of(self.array)

    def contiguous(self) -> Tensor:
        return self

    # ---- parts of it ----

    def __setitem__(self, index, value) -> None:
        values = self.asnumpy()
        values[index] = value.asnumpy() if isinstance(value, Tensor) else value
        self.set_data(Tensor(values))

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    # ---- arithmetic ----

    def _with(self, op: str, other, is_reflected: bool = False):
        if isinstance(other, Tensor):
            operand = other.array
        elif isinstance(other, (bool, int, float)):
            operand = other
        elif isinstance(other, (list, tuple, numpy.ndarray, numpy.generic)):
            operand = array_from(other)
        else:
            return NotImplemented
        first, second = (operand, self.array) if is_reflected else (self.array, operand)
        return Tensor.of(_calls.binary(op, first, second))

    def __neg__(self) -> Tensor:
        return Tensor.of(_calls.call("neg", [self.array]))

    def __pos__(self) -> Tensor:
        return self

    def __invert__(self) -> Tensor:
        return Tensor.of(_calls.call("logical_not", [self.array]))

    __hash__ = object.__hash__


def _operator(op: str, is_reflected: bool = False):
    return lambda self, other: self._with(op, other, is_reflected)


for _name, _op in (("add", "add"), ("sub", "sub"), ("mul", "mul"), ("truediv", "div"), ("pow", "pow")):
    setattr(Tensor, f"__{_name}__", _operator(_op))
    setattr(Tensor, f"__r{_name}__", _operator(_op, is_reflected=True))
for _name, _op in (("eq", "equal"), ("ne", "not_equal"), ("lt", "less"), ("le", "less_equal"), ("gt", "greater"),
                   ("ge", "greater_equal"), ("and", "logical_and"), ("or", "logical_or")):
    setattr(Tensor, f"__{_name}__", _operator(_op))


def _long_form(values: numpy.ndarray) -> str:
    """As `repr` has it: all digits, and a line break before what has several dims."""
    if values.ndim == 0:
        return f" {values.item():g}" if values.dtype.kind == "f" else f" {values.item()}"
    formatter = {"float_kind": lambda x: f"{x: .8e}"} if values.dtype.kind == "f" else None
    text = numpy.array2string(values, separator=", ", formatter=formatter)
    return ("\n" if values.ndim > 1 else " ") + text


class RowTensor:
    """Rows of a table and their numbers. Gradients here are whole tensors: there are none of it."""

    def __init__(self, indices=None, values=None, shape=None, row_tensor=None):
        raise TypeError("a RowTensor is not in this front end: gradients of tables are whole tensors; ops.gather takes rows")


RowTensorInner = IndexedSlices = RowTensor


def is_tensor(x) -> bool:
    return isinstance(x, Tensor)


def tensors(values: Sequence) -> list[Tensor]:
    """Each as a tensor."""
    return [v if isinstance(v, Tensor) else Tensor(v) for v in values]

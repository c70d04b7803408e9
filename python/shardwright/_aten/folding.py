"""What depends on no tensor of a batch and on no weight is computed while a program is read: positions, masks, sizes."""

from __future__ import annotations

import math
import operator
from typing import Any, Callable

import numpy as np

Folding = Callable[..., Any]


def type_called(dtype: str) -> np.dtype:
    """bfloat16, which numpy has not, is float32 here."""
    return np.dtype("float32" if dtype == "bfloat16" else dtype)


def _filled(size: Any, value: Any, dtype: str | None) -> np.ndarray:
    like = np.asarray(value) if dtype is None else np.asarray(value, type_called(dtype))
    return np.broadcast_to(like, tuple(size))  # which takes no memory


def _like(value: Any) -> Folding:
    return lambda self, dtype=None, **_: _filled(self.shape, value, dtype)


def _new(value: Any) -> Folding:
    return lambda self, size, dtype=None: _filled(size, value, dtype)


# Of which only the shape of the operand counts: it may be one that is computed.
of_shapes: dict[str, Folding] = {
    "aten.sym_size.int": lambda self, dim: self.shape[dim],
    "aten.sym_numel.default": lambda self: math.prod(self.shape),
    "aten.zeros_like.default": _like(0),
    "aten.ones_like.default": _like(1),
    "aten.empty_like.default": _like(0),
    "aten.full_like.default": lambda self, fill_value, dtype=None: _filled(self.shape, fill_value, dtype),
    "aten.fill.Scalar": lambda self, value: _filled(self.shape, value, None),
    "aten.new_zeros.default": _new(0),
    "aten.new_ones.default": _new(1),
    "aten.new_empty.default": _new(0),
    "aten.new_full.default": lambda self, size, fill_value, dtype=None: _filled(size, fill_value, dtype),
}


def _unsqueezed(self: Any, dim: int) -> Any:
    return np.expand_dims(self, dim)


def _squeezed(self: Any, dim: Any = None) -> Any:
    dims = range(self.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    return np.squeeze(self, tuple(d % self.ndim for d in dims if self.shape[d] == 1))


def expanded_shape(shape: Any, size: Any) -> tuple[int, ...]:
    """-1 leaves a dim as it is."""
    before = [1] * (len(size) - len(shape)) + list(shape)
    return tuple(b if s == -1 else s for b, s in zip(before, size))


def _slice(dim: int, start: int | None, end: int | None, step: int) -> tuple:
    return (slice(None),) * dim + (slice(start, end, step),)


def _sliced(self: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    return self[_slice(dim % self.ndim, start, end, step)]


def _slice_scattered(self: Any, src: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    out = np.array(self)
    out[_slice(dim % self.ndim, start, end, step)] = src
    return out


def _indexed(self: Any, indices: Any) -> Any:
    return self[tuple(slice(None) if i is None else i for i in indices)]


def _diff(self: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    ends = {name: value for name, value in (("prepend", prepend), ("append", append)) if value is not None}
    return np.diff(self.astype(np.int64) if self.dtype == bool else self, n, dim, **ends)


def _clamped(self: Any, min: Any = None, max: Any = None) -> Any:
    return self if min is None and max is None else np.clip(self, min, max)


def _split(self: Any, split_size: int, dim: int = 0) -> Any:
    return np.split(self, range(split_size, self.shape[dim], split_size), dim)


def _split_sizes(self: Any, split_sizes: Any, dim: int = 0) -> Any:
    return np.split(self, np.cumsum(split_sizes)[:-1], dim)


def _reduced(function: Callable) -> Folding:
    def fold(self: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
        dims = None if dim is None or dim == [] else tuple(dim) if isinstance(dim, list) else dim
        return function(self, axis=dims, keepdims=keepdim)

    return fold


def _divided(self: Any, other: Any, rounding_mode: str | None = None) -> Any:
    if rounding_mode == "floor":
        return np.floor_divide(self, other)
    return np.trunc(np.true_divide(self, other)) if rounding_mode == "trunc" else np.true_divide(self, other)


def _unary(function: Callable) -> Folding:
    return lambda self: function(self)


def _binary(function: Callable) -> Folding:
    def fold(self: Any, other: Any, alpha: Any = 1) -> Any:
        return function(self, other if isinstance(alpha, int) and alpha == 1 else np.multiply(other, alpha))

    return fold


def _same(self: Any, **_: Any) -> Any:
    return self


def _softmax(self: Any, dim: int, dtype: Any = None) -> Any:
    e = np.exp(self - self.max(axis=dim, keepdims=True))
    return e / e.sum(axis=dim, keepdims=True)


def _padded(self: Any, pad: Any, mode: str = "constant", value: Any = 0) -> Any:
    if mode != "constant" or any(p < 0 for p in pad):
        raise NotImplementedError
    widths = [(0, 0)] * (self.ndim - len(pad) // 2) + [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)]
    return np.pad(self, widths, constant_values=value or 0)


def _repeated(self: Any, repeats: Any) -> Any:
    return np.tile(self, repeats)


_by_both: dict[str, Callable] = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "eq": np.equal, "ne": np.not_equal,
            "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "__and__": np.bitwise_and,
            "__or__": np.bitwise_or, "__xor__": np.bitwise_xor, "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or,
            "remainder": np.remainder, "fmod": np.fmod, "__lshift__": np.left_shift, "__rshift__": np.right_shift}
_by_one: dict[str, Callable] = {"neg": np.negative, "abs": np.abs, "exp": np.exp, "log": np.log, "cos": np.cos, "sin": np.sin, "tanh": np.tanh,
           "sqrt": np.sqrt, "floor": np.floor, "ceil": np.ceil, "round": np.round, "logical_not": np.logical_not,
           "bitwise_not": np.invert, "rsqrt": lambda x: 1 / np.sqrt(x), "reciprocal": np.reciprocal, "sign": np.sign,
           "isinf": np.isinf, "isnan": np.isnan, "log2": np.log2, "log1p": np.log1p}

_by_both_alone: dict[str, Callable] = {
    "logical_and": np.logical_and, "logical_or": np.logical_or, "minimum": np.minimum, "maximum": np.maximum,
    "floor_divide": np.floor_divide, "matmul": np.matmul}
_by_many: dict[str, Callable] = {"sum": np.sum, "mean": np.mean, "any": np.any, "all": np.all, "amax": np.max, "amin": np.min,
                                 "max": np.max, "min": np.min}

foldings: dict[str, Folding] = {
    **{f"aten.{name}.{kind}": _binary(f) for name, f in _by_both.items() for kind in ("Tensor", "Scalar")},
    **{f"aten.{name}.default": _unary(f) for name, f in _by_one.items()},
    **{f"aten.{name}.default": _same for name in ("alias", "clone", "detach", "contiguous", "lift_fresh_copy", "_to_copy",
                                                  "detach_", "lift_fresh")},
    **{f"aten.{name}.default": _binary(f) for name, f in _by_both_alone.items()},
    **{f"aten.{name}.default": (lambda self, size: np.reshape(self, size)) for name in ("view", "_unsafe_view")},
    **{f"aten.div.{kind}": _divided for kind in ("Tensor", "Scalar", "Tensor_mode", "Scalar_mode")},
    **{f"aten.{name}.{kind}": _reduced(f) for name, f in _by_many.items()
       for kind in ("default", "dim_IntList", "dim", "dims") if kind == "default" or name not in ("max", "min")},
    "aten.min.other": lambda self, other: np.minimum(self, other),
    "aten.max.other": lambda self, other: np.maximum(self, other),
    "aten.rsub.Scalar": lambda self, other, alpha=1: other - self * alpha,
    "aten.pow.Tensor_Scalar": lambda self, exponent: np.power(self, exponent),
    "aten.pow.Tensor_Tensor": lambda self, exponent: np.power(self, exponent),
    "aten.pow.Scalar": lambda self, exponent: np.power(float(self), exponent),
    "aten.arange.default": lambda end, dtype=None: np.arange(end),
    "aten.arange.start": lambda start, end, dtype=None: np.arange(start, end),
    "aten.arange.start_step": lambda start, end, step=1, dtype=None: np.arange(start, end, step),
    "aten.eye.default": lambda n, dtype="float32": np.eye(n),
    "aten.eye.m": lambda n, m, dtype="float32": np.eye(n, m),
    "aten.outer.default": lambda self, vec2: np.outer(self, vec2),
    "aten.linspace.default": lambda start, end, steps, dtype=None: np.linspace(start, end, steps),
    "aten.ones.default": lambda size, dtype="float32": _filled(size, 1, dtype),
    "aten.zeros.default": lambda size, dtype="float32": _filled(size, 0, dtype),
    "aten.empty.memory_format": lambda size, dtype="float32": _filled(size, 0, dtype),
    "aten.full.default": lambda size, fill_value, dtype=None: _filled(size, fill_value, dtype),
    "aten.scalar_tensor.default": lambda s, dtype=None: np.asarray(s),
    "aten.reshape.default": lambda self, shape: np.reshape(self, shape),
    "aten.unsqueeze.default": _unsqueezed,
    "aten.squeeze.default": _squeezed, "aten.squeeze.dim": _squeezed, "aten.squeeze.dims": _squeezed,
    "aten.expand.default": lambda self, size, implicit=False: np.broadcast_to(self, expanded_shape(self.shape, size)),
    "aten.permute.default": lambda self, dims: np.transpose(self, dims),
    "aten.transpose.int": lambda self, dim0, dim1: np.swapaxes(self, dim0, dim1),
    "aten.t.default": lambda self: np.transpose(self),
    "aten.slice.Tensor": _sliced,
    "aten.select.int": lambda self, dim, index: np.take(self, index, dim),
    "aten.slice_scatter.default": _slice_scattered,
    "aten.cat.default": lambda tensors, dim=0: np.concatenate(tensors, dim),
    "aten.stack.default": lambda tensors, dim=0: np.stack(tensors, dim),
    "aten.index.Tensor": _indexed,
    "aten.index_select.default": lambda self, dim, index: np.take(self, index, dim),
    "aten.gather.default": lambda self, dim, index, sparse_grad=False: np.take_along_axis(self, index, dim),
    "aten.cumsum.default": lambda self, dim, dtype=None: np.cumsum(self, dim),
    "aten.diff.default": _diff,
    "aten.clamp.default": _clamped,
    "aten.clamp_min.default": lambda self, min: np.maximum(self, min),
    "aten.clamp_max.default": lambda self, max: np.minimum(self, max),
    "aten.where.self": lambda condition, self, other: np.where(condition, self, other),
    "aten.where.ScalarOther": lambda condition, self, other: np.where(condition, self, other),
    "aten.where.ScalarSelf": lambda condition, self, other: np.where(condition, self, other),
    "aten.where.Scalar": lambda condition, self=1, other=0: np.where(condition, self, other),
    "aten.masked_fill.Scalar": lambda self, mask, value: np.where(mask, value, self),
    "aten.masked_fill.Tensor": lambda self, mask, value: np.where(mask, value, self),
    "aten.tril.default": lambda self, diagonal=0: np.tril(self, diagonal),
    "aten.triu.default": lambda self, diagonal=0: np.triu(self, diagonal),
    "aten.split.Tensor": _split,
    "aten.split_with_sizes.default": _split_sizes,
    "aten.repeat.default": _repeated,
    "aten.flip.default": lambda self, dims: np.flip(self, dims),
    "aten.roll.default": lambda self, shifts, dims: np.roll(self, shifts, tuple(dims)),
    "aten.softmax.int": _softmax,
    "aten.pad.default": _padded, "aten.constant_pad_nd.default": _padded,
    "aten._local_scalar_dense.default": lambda self: self.item(),
}


_of_numbers: dict[str, Callable] = {
    "sym_max": max, "sym_min": min, "sym_float": float, "sym_int": int, "sym_not": operator.not_,
    "sym_sum": lambda numbers: sum(numbers), "sym_ite": lambda c, a, b: a if c else b}


def fold_numbers(op: str, args: dict[str, Any]) -> Any:
    """Of sizes: `operator.mul`, `torch.sym_max`. Raises: KeyError if there is no such function."""
    module, _, name = op.partition(".")
    by_place = [args[str(i)] for i in range(len(args))]
    if module in ("operator", "math") and hasattr(operator if module == "operator" else math, name):
        return getattr(operator if module == "operator" else math, name)(*by_place)
    return _of_numbers[name](*by_place)

"""Operators that go element by element."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

from ... import _core, ops
from ..._core import Tensor
from ..walk import At, Value, conversion, thinned


def is_number(value: Value) -> bool:
    """Of Python, or a constant of no dims."""
    return isinstance(value, (int, float)) or (isinstance(value, np.ndarray) and value.ndim == 0)


def is_floating(x: Tensor) -> bool:
    return "float" in _core.type_here(x)


def both(at: At, op: str, a: Value, b: Value) -> Tensor:
    """Broadcast against each other, in the type where both meet."""
    if not isinstance(a, Tensor) and not isinstance(b, Tensor):
        a = at.tensor(a)
    shape = np.broadcast_shapes(a.shape if isinstance(a, Tensor) else np.shape(a), b.shape if isinstance(b, Tensor) else np.shape(b))
    if not isinstance(a, Tensor):
        a = _beside(at, a, b, shape)
    if not isinstance(b, Tensor):
        b = _beside(at, b, a, shape)
    return _core.binary(op, a, b)


def _beside(at: At, constant: Value, x: Tensor, shape: tuple[int, ...]) -> Value:
    if isinstance(constant, (int, float)):
        return constant
    thin = thinned(constant)
    if np.broadcast_shapes(thin.shape, x.shape) != shape:
        thin = constant
    while thin.ndim > 1 and thin.shape[0] == 1 and thin.ndim > x.ndim - 1 and len(shape) <= x.ndim:
        thin = thin[0]
    if thin.ndim == 0 or (thin.size == 1 and len(shape) <= x.ndim):
        return thin.reshape(()).item()
    return at.tensor(thin, like=x)


def scaled(at: At, x: Tensor, factor: float) -> Tensor:
    return x if factor == 1 else at.call("scale", x, factor=float(factor))


def shifted(at: At, x: Tensor, by: float) -> Tensor:
    return x if by == 0 else at.call("shift", x, value=float(by))


@conversion("add.Tensor", "add.Scalar")
def add(at: At, self: Value, other: Value, alpha: float = 1) -> Tensor:
    if alpha != 1:
        other = multiply(at, other, alpha) if isinstance(other, Tensor) else np.multiply(other, alpha)
    if is_number(self):
        self, other = other, self
    if is_number(other) and isinstance(self, Tensor) and is_floating(self):
        return shifted(at, self, float(other))
    return both(at, "add", self, other)


@conversion("sub.Tensor", "sub.Scalar")
def subtract(at: At, self: Value, other: Value, alpha: float = 1) -> Tensor:
    if isinstance(other, Tensor) and alpha == 1:
        return both(at, "sub", self, other)
    return add(at, self, multiply(at, other, -alpha) if isinstance(other, Tensor) else np.multiply(other, -alpha))


@conversion("rsub.Scalar", "rsub.Tensor")
def subtract_from(at: At, self: Value, other: Value, alpha: float = 1) -> Tensor:
    return add(at, multiply(at, self, -alpha), other)


@conversion("mul.Tensor", "mul.Scalar")
def multiply(at: At, self: Value, other: Value) -> Tensor:
    if is_number(self):
        self, other = other, self
    if is_number(other) and isinstance(self, Tensor) and is_floating(self):
        return scaled(at, self, float(other))
    return both(at, "mul", self, other)


@conversion("div.Tensor", "div.Scalar", "div.Tensor_mode", "div.Scalar_mode")
def divide(at: At, self: Value, other: Value, rounding_mode: str | None = None) -> Tensor:
    self, other = _floating(at, self), _floating(at, other)
    y = scaled(at, self, 1 / float(other)) if is_number(other) and isinstance(self, Tensor) \
        else both(at, "div", self, other)
    if rounding_mode == "floor":
        return at.call("floor", y)
    if rounding_mode == "trunc":
        return both(at, "mul", at.call("sign", y), at.call("floor", at.call("abs", y)))
    return y


def _floating(at: At, x: Value) -> Value:
    return x if not isinstance(x, Tensor) or is_floating(x) else _core.cast(x, at.walk.entering("float32"))


@conversion("pow.Tensor_Scalar")
def power(at: At, self: Tensor, exponent: float) -> Tensor:
    if exponent == 2:
        return at.call("square", self)
    if exponent == 1:
        return self
    if exponent in (0.5, -0.5):
        return at.call("sqrt" if exponent > 0 else "rsqrt", self)
    return at.call("power", self, exponent=float(exponent))


@conversion("pow.Tensor_Tensor", "pow.Scalar")
def power_of_tensor(at: At, self: Value, exponent: Value) -> Tensor:
    return both(at, "pow", self, exponent)


@conversion("maximum.default", "max.other")
def maximum(at: At, self: Value, other: Value) -> Tensor:
    return both(at, "maximum", self, other)


@conversion("minimum.default", "min.other")
def minimum(at: At, self: Value, other: Value) -> Tensor:
    return both(at, "minimum", self, other)


@conversion("atan2.default")
def atan2(at: At, self: Value, other: Value) -> Tensor:
    return both(at, "atan2", self, other)


def _comparison(op: str) -> Callable[..., Tensor]:
    return lambda at, self, other: both(at, op, self, other)


for _name, _op in (("eq", "equal"), ("ne", "not_equal"), ("lt", "less"), ("le", "less_equal"), ("gt", "greater"),
                   ("ge", "greater_equal")):
    conversion(f"{_name}.Tensor", f"{_name}.Scalar")(_comparison(_op))


def _logical(op: str) -> Callable[..., Tensor]:
    def function(at: At, self: Value, other: Value) -> Tensor:
        a, b = (_boolean(at, x) for x in (self, other))
        return _core.binary(op, a, b)

    return function


def _boolean(at: At, x: Value) -> Tensor:
    """Raises: ShardwrightError of whole numbers, whose bits no operator looks at."""
    tensor = at.tensor(thinned(np.asarray(x)) if not isinstance(x, Tensor) else x)
    if _core.type_here(tensor) != "bool":
        if at.node.op.split(".")[1].startswith("logical"):
            return both(at, "not_equal", tensor, 0)
        raise at.refuse("of whole numbers, bit by bit, has no counterpart here; of bools it has")
    return tensor


for _names, _op in (("logical_and.default bitwise_and.Tensor __and__.Tensor", "logical_and"),
                    ("logical_or.default bitwise_or.Tensor __or__.Tensor", "logical_or")):
    conversion(*_names.split())(_logical(_op))


@conversion("logical_not.default", "bitwise_not.default")
def logical_not(at: At, self: Tensor) -> Tensor:
    return at.call("logical_not", _boolean(at, self))


@conversion("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def where(at: At, condition: Value, self: Value, other: Value) -> Tensor:
    values = [v for v in (self, other) if isinstance(v, Tensor)]
    like = values[0] if values else None
    if len(values) == 2:
        dtype = _core.type_here(both(at, "add", *values)) if _core.type_here(values[0]) != _core.type_here(values[1]) \
            else _core.type_here(values[0])
    else:
        dtype = _core.type_here(like) if like is not None else at.walk.entering(at.node.dtype or "float32")
    shape = np.broadcast_shapes(*(v.shape if isinstance(v, Tensor) else np.shape(v) for v in (condition, self, other)))
    def ready(v: Value) -> Tensor:
        if not isinstance(v, Tensor):
            thin = thinned(np.asarray(v, dtype="float64" if "float" in dtype else None))
            v = at.tensor(thin.reshape(()) if thin.size == 1 else thin)
        return _core.cast(v, dtype)

    mask = condition if isinstance(condition, Tensor) else at.tensor(_kept(thinned(condition), shape, (self, other)))
    return _full(at, at.call("where", mask, ready(self), ready(other)), shape)


def _kept(thin: np.ndarray, shape: tuple, others: tuple) -> np.ndarray:
    while thin.ndim > 1 and thin.shape[0] == 1:
        thin = thin[0]
    return thin


def _full(at: At, y: Tensor, shape: tuple[int, ...]) -> Tensor:
    return y if y.shape == shape else at.call("broadcast", y, shape=list(shape))


@conversion("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(at: At, self: Value, mask: Value, value: Value) -> Tensor:
    return where(at, mask, value, self)


@conversion("clamp.default", "hardtanh.default", "clamp_min.default", "clamp_max.default")
def clamp(at: At, self: Tensor, min: float | None = None, max: float | None = None, min_val: float = -1,
          max_val: float = 1) -> Tensor:
    if at.node.op == "aten.hardtanh.default":
        min, max = min_val, max_val
    ends = {name: float(end) for name, end in (("min", min), ("max", max)) if end is not None}
    return at.call("clip", self, **ends)


@conversion("_to_copy.default", "to.dtype")
def to_copy(at: At, self: Tensor, dtype: str | None = None) -> Tensor:
    return self if dtype is None else _core.cast(self, at.walk.entering(dtype))


@conversion("clone.default", "alias.default", "contiguous.default", "lift_fresh_copy.default")
def same(at: At, self: Value) -> Value:
    return self


@conversion("detach.default")
def detach(at: At, self: Tensor) -> Tensor:
    return at.call("stop_gradient", self) if is_floating(self) else self


def _unary(op: str) -> Callable[..., Tensor]:
    return lambda at, self: at.call(op, self)


for _name in ("abs", "exp", "log", "neg", "sqrt", "rsqrt", "sin", "cos", "tanh", "sigmoid", "relu", "silu", "erf", "reciprocal",
              "square", "sign", "floor", "ceil", "round"):
    conversion(f"{_name}.default")(_unary(_name))
conversion("hardswish.default")(_unary("hard_swish"))


@conversion("hardsigmoid.default")
def hardsigmoid(at: At, self: Tensor) -> Tensor:
    return at.call("hard_sigmoid", self, slope=1 / 6, shift=0.5)


@conversion("relu6.default")
def relu6(at: At, self: Tensor) -> Tensor:
    return at.call("clip", self, min=0.0, max=6.0)


@conversion("tril.default", "triu.default")
def triangle(at: At, self: Tensor, diagonal: int = 0) -> Tensor:
    rows, columns = self.shape[-2:]
    is_kept = np.tri(rows, columns, diagonal, dtype=bool) if "tril" in at.node.op else ~np.tri(rows, columns, diagonal - 1, dtype=bool)
    return where(at, is_kept, self, 0)


@conversion("log1p.default")
def log1p(at: At, self: Tensor) -> Tensor:
    return at.call("log", shifted(at, self, 1))


@conversion("expm1.default")
def expm1(at: At, self: Tensor) -> Tensor:
    return shifted(at, at.call("exp", self), -1)


@conversion("gelu.default")
def gelu(at: At, self: Tensor, approximate: str = "none") -> Tensor:
    return at.call("gelu", self, approximate=approximate)


@conversion("elu.default")
def elu(at: At, self: Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Tensor:
    return scaled(at, at.call("elu", scaled(at, self, input_scale), alpha=float(alpha)), scale)


@conversion("leaky_relu.default")
def leaky_relu(at: At, self: Tensor, negative_slope: float = 0.01) -> Tensor:
    return at.call("leaky_relu", self, slope=float(negative_slope))


@conversion("_prelu_kernel.default")
def prelu(at: At, self: Tensor, weight: Tensor) -> Tensor:
    return at.call("prelu", self, weight)


@conversion("softplus.default")
def softplus(at: At, self: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    """Beyond the threshold PyTorch takes x itself, which is the same to nine digits."""
    return scaled(at, at.call("softplus", scaled(at, self, beta)), 1 / beta)


@conversion("mish.default")
def mish(at: At, self: Tensor) -> Tensor:
    return _core.binary("mul", self, at.call("tanh", at.call("softplus", self)))


@conversion("log_sigmoid.default", "log_sigmoid_forward.default")
def log_sigmoid(at: At, self: Tensor) -> Value:
    y = at.call("neg", at.call("softplus", at.call("neg", self)))
    return y if at.node.op == "aten.log_sigmoid.default" else (y, None)


@conversion("glu.default")
def glu(at: At, self: Tensor, dim: int = -1) -> Tensor:
    half = self.shape[dim] // 2
    a, b = ops.split(self, [half, half], dim)
    return _core.binary("mul", a, at.call("sigmoid", b))


def dropped(at: At, x: Tensor, rate: float) -> Tensor:
    """Zero with this probability, else larger by as much; another draw than PyTorch's."""
    return _core.dropout(x, float(rate), at.name, 0) if rate > 0 else x


@conversion("dropout.default")
def dropout(at: At, input: Tensor, p: float, train: bool) -> Tensor:
    return dropped(at, input, p) if train else input


@conversion("native_dropout.default")
def native_dropout(at: At, input: Tensor, p: float, train: bool | None = True) -> Any:
    return (dropped(at, input, p) if train is not False else input), None


@conversion("bernoulli.p")
def bernoulli(at: At, self: Value, p: float = 0.5) -> Tensor:
    """0 or 1: what a dropout makes of ones, each of which is 1 / p where it is kept."""
    ones = at.tensor(np.broadcast_to(np.ones((), at.node.dtype), self.shape))
    return scaled(at, dropped(at, ones, 1 - p), p) if p < 1 else ones

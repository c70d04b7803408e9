"""Functions that go element by element, each by the core's operators. A table: what is one expression is one line."""

from __future__ import annotations

import math

import numpy
from shardwright import _core

from .. import _calls
from ..common.tensor import Tensor
from . import operations as P
from .primitive import as_tensor, by_core


def floating(x) -> Tensor:
    """Whole numbers and bools as f32."""
    x = as_tensor(x)
    return x if _calls.is_floating(x.dtype.name) else Tensor.of(_calls.cast(x.array, "float32"))


def _wide(x: Tensor) -> Tensor:
    return Tensor.of(_calls.cast(x.array, "float64"))


def in_f64(function):
    """The same of f64 and back: for sums whose terms cancel."""
    def wide(x, *more):
        x = floating(x)
        result = function(_wide(x), *(_wide(floating(m)) for m in more))
        return Tensor.of(_calls.cast(result.array, x.dtype.name))

    return wide


def of(op: str, **attributes):
    """The core's operator of floating numbers."""
    return lambda x: by_core(op, floating(x), **attributes)


exp, log, sqrt, sin, cos, tanh, sigmoid, erf = (of(o) for o in ("exp", "log", "sqrt", "sin", "cos", "tanh", "sigmoid", "erf"))
rsqrt, softplus_of, relu = of("rsqrt"), of("softplus"), of("relu")


def floor(x):
    return x if not _calls.is_floating(as_tensor(x).dtype.name) else by_core("floor", x)


def clip(x, least, most) -> Tensor:
    return by_core("clip", x, **{k: float(v) for k, v in (("min", least), ("max", most)) if v is not None})


def where(condition, x, y) -> Tensor:
    condition = as_tensor(condition)
    if condition.dtype.name != "bool":
        condition = condition != 0
    return P.Select()(condition, x, y)


def stop(x: Tensor) -> Tensor:
    return by_core("stop_gradient", x)


def truncated(x) -> Tensor:
    x = as_tensor(x)
    return by_core("sign", x) * by_core("floor", by_core("abs", x)) if _calls.is_floating(x.dtype.name) else x


def filled_like(x: Tensor, value: float) -> Tensor:
    return Tensor.of(_calls.call("fill", [], shape=list(x.shape), value=float(value), dtype=_core.short_name(x.dtype.name)))


def _is_nan(x):
    return as_tensor(x) != x


def _is_inf(x):
    return by_core("abs", as_tensor(x)) == math.inf


def _is_finite(x):
    x = as_tensor(x)
    if not _calls.is_floating(x.dtype.name):
        return filled_like(x, 1) == 1
    return by_core("abs", x) < math.inf


def nan_to_num(input, nan=None, posinf=None, neginf=None):
    x = as_tensor(input)
    most = float(numpy.finfo(numpy.float32 if x.dtype.name == "bfloat16" else x.dtype.name).max)
    x = where(x != x, 0.0 if nan is None else nan, x)
    x = where(x == math.inf, most if posinf is None else posinf, x)
    return where(x == -math.inf, -most if neginf is None else neginf, x)


def log1p(x):
    return log(floating(x) + 1)


def expm1(x):
    x = floating(x)
    return tanh(x * 0.5) * (exp(x) + 1)


def asin(x):
    x = floating(x)
    return P.Atan2()(x, sqrt((1 - x) * (1 + x)))


def acos(x):
    x = floating(x)
    return P.Atan2()(sqrt((1 - x) * (1 + x)), x)


def atan(x):
    x = floating(x)
    return P.Atan2()(x, filled_like(x, 1))


@in_f64
def asinh(x):
    size = by_core("abs", x)
    return by_core("sign", x) * log(size + sqrt(x * x + 1))


@in_f64
def acosh(x):
    return log(x + sqrt(x * x - 1))


@in_f64
def atanh(x):
    return (log(1 + x) - log(1 - x)) * 0.5


# Of Lanczos, for g = 7.
_lanczos = (0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
            12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7)


def _lgamma_above_half(x):
    total = _lanczos[0]
    for i, c in enumerate(_lanczos[1:]):
        total = c / (x + float(i)) + total
    t = x + 6.5
    return 0.5 * math.log(2 * math.pi) + (x - 0.5) * log(t) - t + log(total)


@in_f64
def lgamma(x):
    is_small = x < 0.5
    mirrored = where(is_small, 1 - x, x)
    y = _lgamma_above_half(mirrored)
    angle = where(is_small, x, filled_like(x, 0.5)) * math.pi
    return where(is_small, math.log(math.pi) - log(by_core("abs", sin(angle))) - y, y)


@in_f64
def digamma(x):
    """By its series for large x, to which 8 steps lead."""
    is_small = x < 0.5
    y = where(is_small, 1 - x, x)
    total = filled_like(x, 0)
    for i in range(8):
        total = total - 1 / (y + float(i))
    z = y + 8.0
    r = 1 / (z * z)
    total = total + log(z) - 0.5 / z - r * (1 / 12 - r * (1 / 120 - r * (1 / 252 - r * (1 / 240 - r / 132))))
    angle = where(is_small, x, filled_like(x, 0.25)) * math.pi
    return where(is_small, total - math.pi * cos(angle) / sin(angle), total)


# Of Giles (2010), for w below 5 and from there on.
_near, _far = ((2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
                0.246640727, 1.50140941),
               (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
                1.00167406, 2.83297682))


@in_f64
def erfinv(x):
    """A polynomial, and two steps of Newton's from there, through which the gradient flows."""
    w = -log((1 - x) * (1 + x))
    near, far = w - 2.5, sqrt(by_core("abs", w)) - 3

    def polynomial(factors, v):
        y = filled_like(v, factors[0])
        for c in factors[1:]:
            y = y * v + c
        return y

    y = stop(where(w < 5.0, polynomial(_near, near), polynomial(_far, far)) * x)
    for _ in range(2):
        y = stop(y)
        y = y - (erf(y) - x) * (0.5 * math.sqrt(math.pi)) * exp(y * y)
    return y


_angles = [math.cos(2 * math.pi * k / 128) for k in range(128)]


def _bessel_i(order: int):
    @in_f64
    def function(x):
        """The mean of e^(x cos a) cos(order a) over a circle, exact to f64 where |x| < 60."""
        angles = Tensor(numpy.array(_angles))
        weights = Tensor(numpy.cos(order * numpy.arange(128) * 2 * numpy.pi / 128))
        terms = exp(P.ExpandDims()(x, len(x.shape)) * angles) * weights
        return P.ReduceMean()(terms, len(x.shape))

    return function


def sinc(x):
    x = floating(x)
    is_zero = x == 0
    angle = where(is_zero, filled_like(x, 1), x) * math.pi
    return where(is_zero, filled_like(x, 1), sin(angle) / angle)


def xlogy(input, other):
    x, y = floating(input), floating(other)
    is_zero = x == 0
    product = x * log(where(is_zero, filled_like(y, 1) if y.shape == x.shape else 1.0, y))
    return where(is_zero, 0.0, product)


def logaddexp(input, other):
    x, y = as_tensor(input), as_tensor(other)
    top = stop(P.Maximum()(x, y))
    return top + log(exp(x - top) + exp(y - top))


def logaddexp2(input, other):
    return logaddexp(as_tensor(input) * math.log(2), as_tensor(other) * math.log(2)) * (1 / math.log(2))


def copysign(x, other):
    x, other = as_tensor(x), as_tensor(other)
    return by_core("abs", x) * where(other < 0, -1.0, filled_like(floating(other), 1))


def remainder(input, other):
    return P.FloorMod()(input, other)


def lerp(input, end, weight):
    return input + (end - input) * weight


def addcdiv(input, tensor1, tensor2, value=1):
    return input + tensor1 / tensor2 * value


def addcmul(input, tensor1, tensor2, value=1):
    return input + tensor1 * tensor2 * value


def heaviside(input, values):
    x = as_tensor(input)
    is_zero = x == 0
    return where(is_zero, values, floating(x > 0))


def isclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    if equal_nan:
        raise ValueError("isclose with equal_nan=True is not in this front end")
    x, y = floating(input), floating(other)
    return P.LogicalOr()(x == y, by_core("abs", x - y) <= by_core("abs", y) * rtol + atol)


def threshold(input, thr, value):
    return where(input > thr, input, float(value))


def hardshrink(input, lambd=0.5):
    x = as_tensor(input)
    return where(by_core("abs", x) > float(lambd), x, 0.0)


def softshrink(input, lambd=0.5):
    x = as_tensor(input)
    return by_core("sign", x) * by_core("relu", by_core("abs", x) - float(lambd))


def softplus(input, beta=1, threshold=20):
    x = floating(input)
    return where(x * float(beta) > float(threshold), x, softplus_of(x * float(beta)) * (1 / beta))


def selu(input_x):
    scale, alpha = 1.0507009873554805, 1.6732632423543772
    return by_core("elu", input_x, alpha=alpha) * scale


def celu(x, alpha=1.0):
    return by_core("elu", x * (1 / alpha), alpha=1.0) * alpha


def rrelu(input, lower=1 / 8, upper=1 / 3):
    raise ValueError("ops.rrelu draws its slopes: it is not in this front end; nn.RReLU that does not train is")


def glu(x, axis=-1):
    a, b = P.Split(axis, 2)(x)
    return a * sigmoid(b)


def prelu(input, weight):
    return P.PReLU()(input, weight)


def logit(input, eps=None):
    x = floating(input)
    x = x if eps is None else clip(x, eps, 1 - eps)
    return log(x / (1 - x))


def float_power(input, exponent):
    return P.Pow()(_wide(floating(input)), _wide(floating(exponent)) if isinstance(exponent, Tensor) else float(exponent))


def div(input, other, *, rounding_mode=None):
    if rounding_mode not in (None, "floor", "trunc"):
        raise ValueError(f"rounding_mode of div is None, 'floor' or 'trunc', not {rounding_mode!r}")
    quotient = P.Div()(input, other)
    return quotient if rounding_mode is None else floor(quotient) if rounding_mode == "floor" else truncated(quotient)


def clamp(input, min=None, max=None):
    if min is None and max is None:
        raise ValueError("clamp takes min, max or both")
    if isinstance(min, Tensor) or isinstance(max, Tensor):
        x = as_tensor(input)
        x = x if min is None else P.Maximum()(x, min)
        return x if max is None else P.Minimum()(x, max)
    return clip(input, min, max)


def bool_of(x) -> Tensor:
    x = as_tensor(x)
    return x if x.dtype.name == "bool" else x != 0


_of_one = {
    "exp": exp, "log": log, "sqrt": sqrt, "rsqrt": rsqrt, "sin": sin, "cos": cos, "tanh": tanh, "sigmoid": sigmoid, "erf": erf,
    "log1p": log1p, "expm1": expm1, "asin": asin, "acos": acos, "atan": atan, "asinh": asinh, "acosh": acosh, "atanh": atanh,
    "lgamma": lgamma, "digamma": digamma, "erfinv": erfinv, "sinc": sinc, "trunc": truncated,
    "i0": _bessel_i(0), "bessel_i0": _bessel_i(0), "bessel_i1": _bessel_i(1),
    "isnan": _is_nan, "isinf": _is_inf, "isfinite": _is_finite,
    "isposinf": lambda input: as_tensor(input) == math.inf, "isneginf": lambda input: as_tensor(input) == -math.inf,
    "tan": lambda input: sin(input) / cos(input),
    "cosh": lambda input: (exp(input) + exp(-floating(input))) * 0.5,
    "sinh": lambda input: tanh(input) * (exp(input) + exp(-floating(input))) * 0.5,
    "erfc": lambda input: in_f64(lambda x: 1 - erf(x))(input),
    "log2": lambda input: log(input) * (1 / math.log(2)), "log10": lambda input: log(input) * (1 / math.log(10)),
    "exp2": lambda input: exp(floating(input) * math.log(2)),
    "reciprocal": of("reciprocal"), "inv": of("reciprocal"), "round": lambda input: by_core("round", input),
    "absolute": lambda input: by_core("abs", as_tensor(input)), "isreal": lambda input: as_tensor(input) == as_tensor(input),
    "deg2rad": lambda x: floating(x) * (math.pi / 180), "rad2deg": lambda x: floating(x) * (180 / math.pi),
    "frac": lambda x: x - truncated(x), "positive": lambda input: input, "negative": lambda input: -as_tensor(input),
    "signbit": lambda input: as_tensor(input) < 0, "sgn": lambda input: by_core("sign", as_tensor(input)),
    "relu6": lambda x: clip(x, 0, 6), "mish": lambda x: x * tanh(softplus_of(x)),
    "hardswish": of("hard_swish"), "hardsigmoid": lambda input: by_core("hard_sigmoid", input, slope=1 / 6, shift=0.5),
    "logsigmoid": lambda x: -softplus_of(-as_tensor(x)), "softsign": lambda x: x / (by_core("abs", x) + 1),
    "tanhshrink": lambda input: input - tanh(input), "selu": selu}
_of_one |= {"arcsin": asin, "arccos": acos, "arctan": atan, "arcsinh": asinh, "arccosh": acosh, "arctanh": atanh}
_of_two = {
    "xlogy": xlogy, "xdivy": lambda x, y: where(as_tensor(x) == 0, 0.0, x / y),
    "logaddexp": logaddexp, "logaddexp2": logaddexp2, "copysign": copysign, "remainder": remainder, "heaviside": heaviside,
    "hypot": lambda input, other: sqrt(floating(input) * input + floating(other) * other),
    "fmod": lambda input, other: P.Mod()(input, other), "floor_divide": lambda input, other: P.FloorDiv()(input, other),
    "fmax": lambda input, other: P.Maximum()(input, other), "fmin": lambda input, other: P.Minimum()(input, other),
    "ldexp": lambda x, other: x * exp(floating(other) * math.log(2)),
    "true_divide": lambda dividend, divisor: P.Div()(dividend, divisor),
    "truncate_div": lambda x, y: truncated(P.Div()(x, y)), "truncate_mod": lambda x, y: P.Mod()(x, y),
    "squared_difference": lambda x, y: P.SquaredDifference()(x, y),
    "eq": lambda input, other: P.Equal()(input, other), "ne": lambda input, other: P.NotEqual()(input, other),
    "lt": lambda input, other: P.Less()(input, other), "le": lambda input, other: P.LessEqual()(input, other),
    "gt": lambda input, other: P.Greater()(input, other), "ge": lambda input, other: P.GreaterEqual()(input, other),
    "logical_xor": lambda input, other: P.NotEqual()(bool_of(input), bool_of(other)),
    "approximate_equal": lambda x, y, tolerance=1e-05: by_core("abs", x - y) < tolerance,
    "multiply": lambda input, other: P.Mul()(input, other),
    "float_power": float_power, "arctan2": lambda input, other: P.Atan2()(floating(input), floating(other))}
_more = {
    "div": div, "divide": div, "lerp": lerp, "addcdiv": addcdiv, "addcmul": addcmul, "isclose": isclose, "threshold": threshold,
    "hardshrink": hardshrink, "softshrink": softshrink, "soft_shrink": softshrink, "softplus": softplus, "celu": celu,
    "elu": lambda input_x, alpha=1.0: by_core("elu", input_x, alpha=float(alpha)),
    "leaky_relu": lambda input, alpha=0.2: by_core("leaky_relu", input, slope=float(alpha)),
    "hardtanh": lambda input, min_val=-1.0, max_val=1.0: clip(input, min_val, max_val),
    "glu": glu, "prelu": prelu, "rrelu": rrelu, "logit": logit, "nan_to_num": nan_to_num, "clamp": clamp, "clip": clamp,
    "softmin": lambda x, axis=-1: P.Softmax(axis)(-as_tensor(x)),
    "subtract": lambda input, other, *, alpha=1: input - other * alpha}
functions = {**_of_one, **_of_two, **_more}

"""Operators of tensors: traced in a traced function, computed at once outside of one.

What is not here by name is under `call(op, *operands, **attributes)`; `operator_names()` lists all.
"""

from __future__ import annotations

from typing import Any, Callable, Sequence, Union

from . import _core
from ._core import Tensor, operator_names
from ._names import missing_name

__all__ = [
    "abs", "add", "argmax", "attention", "avg_pool2d", "broadcast_to", "call", "cast", "concat", "conv2d",
    "cross_entropy", "div", "dropout", "equal", "exp", "expand_dims", "flatten", "gather", "gelu", "greater", "l1_loss",
    "layer_norm", "less", "log", "log_softmax", "matmul", "max", "max_pool2d", "maximum", "mean", "minimum", "mse_loss",
    "mul", "neg", "one_hot", "operator_names", "pow", "relu", "reshape", "rms_norm", "rotary", "rsqrt", "sigmoid",
    "silu", "softmax", "split", "sqrt", "square", "squeeze", "stack", "stop_gradient", "sub", "sum", "swiglu", "tanh",
    "transpose", "where",
]

_sum = sum

ArrayLike = Any
"""Tensors, numpy's arrays, numbers, and lists of them."""
Sizes = Union[int, Sequence[int]]
"""One for both dims of an image, or one for each."""


def _tensor(x: ArrayLike) -> Tensor:
    return _core.array_of(x)


def call(op: str, *operands: ArrayLike, name: str = "", in_split: Any = None, out_split: Any = None,
         **attributes: Any) -> Any:
    """The operator `op` of the table (`shardwright ops`): a tensor, or a tuple of them.

    name: of the node in plans. in_split, out_split: how its tensors are split, one entry each (see `Mesh`).
    """
    return _core.call(op, [_tensor(x) for x in operands], name=name, in_=in_split, out_=out_split, **attributes)


def cast(x: ArrayLike, dtype: str) -> Tensor:
    """The same numbers as `dtype`."""
    return _core.cast(_tensor(x), dtype)


def _binary(op: str, doc: str) -> Callable[[ArrayLike, ArrayLike], Tensor]:
    def function(a: ArrayLike, b: ArrayLike) -> Tensor:
        return _core.binary(op, a, b)

    function.__name__ = function.__qualname__ = op
    function.__doc__ = doc + " Shapes broadcast; types meet in the wider one."
    return function


add = _binary("add", "a + b.")
sub = _binary("sub", "a - b.")
mul = _binary("mul", "a b.")
div = _binary("div", "a / b.")
pow = _binary("pow", "a ^ b.")
maximum = _binary("maximum", "The larger of a and b.")
minimum = _binary("minimum", "The smaller of a and b.")
equal = _binary("equal", "Whether a = b.")
less = _binary("less", "Whether a < b.")
greater = _binary("greater", "Whether a > b.")


def _unary(op: str, doc: str, shown: str = "") -> Callable[[ArrayLike], Tensor]:
    def function(x: ArrayLike) -> Tensor:
        return _core.call(op, [_tensor(x)])

    function.__name__ = function.__qualname__ = shown or op
    function.__doc__ = doc
    return function


relu = _unary("relu", "The larger of x and 0.")
silu = _unary("silu", "x / (1 + e^-x).")
tanh = _unary("tanh", "The hyperbolic tangent.")
sigmoid = _unary("sigmoid", "1 / (1 + e^-x).")
exp = _unary("exp", "e^x.")
log = _unary("log", "The natural logarithm.")
neg = _unary("neg", "-x.")
square = _unary("square", "x^2.")
sqrt = _unary("sqrt", "The square root.")
rsqrt = _unary("rsqrt", "1 / sqrt(x).")
abs = _unary("abs", "The absolute value.")
stop_gradient = _unary("stop_gradient", "x, through which no gradient flows.")


def gelu(x: ArrayLike, approximate: str = "tanh") -> Tensor:
    """x times the share of a normal distribution that is below x; approximate: tanh, sigmoid or none."""
    return _core.call("gelu", [_tensor(x)], approximate=approximate)


def matmul(a: ArrayLike, b: ArrayLike, transpose_a: bool = False, transpose_b: bool = False) -> Tensor:
    """y[..., m, n] = sum over k of a[..., m, k] b[..., k, n]; the last two dims may be swapped first."""
    return _core.call("matmul", [_tensor(a), _tensor(b)], transpose_a=transpose_a, transpose_b=transpose_b)


def _dims(x: Tensor, axis: ArrayLike) -> list[int]:
    axes = range(x.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    return [a % x.ndim for a in axes]


def _reduction(op: str, doc: str) -> Callable[..., Tensor]:
    def function(x: ArrayLike, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        x = _tensor(x)
        return _core.call(op, [x], dims=_dims(x, axis), keep=keepdims)

    function.__name__ = function.__qualname__ = op.removeprefix("reduce_")
    function.__doc__ = doc + " axis: one dim, several, or all."
    return function


sum = _reduction("reduce_sum", "The sum of x over dims.")
mean = _reduction("reduce_mean", "The mean of x over dims.")
max = _reduction("reduce_max", "The largest x over dims.")


def argmax(x: ArrayLike, axis: int = -1) -> Tensor:
    """Where x is largest along a dim, i32."""
    return _core.call("argmax", [_tensor(x)], dim=axis)


def softmax(x: ArrayLike, axis: int = -1) -> Tensor:
    """e^x over its sum along a dim."""
    return _core.call("softmax", [_tensor(x)], dim=axis)


def log_softmax(x: ArrayLike, axis: int = -1) -> Tensor:
    """The logarithm of softmax."""
    return _core.call("log_softmax", [_tensor(x)], dim=axis)


def reshape(x: ArrayLike, shape: Sequence[int]) -> Tensor:
    """The same elements in the same order; one dim may be -1."""
    x = _tensor(x)
    shape = list(shape)
    if -1 in shape:
        known = 1
        for s in shape:
            known *= s if s != -1 else 1
        shape[shape.index(-1)] = x.size // known if known else 0
    return _core.call("reshape", [x], shape=shape)


def flatten(x: ArrayLike, start: int = 1) -> Tensor:
    """Dims from `start` on made into one."""
    return _core.call("flatten", [_tensor(x)], start=start)


def transpose(x: ArrayLike, dims: Sequence[int] | None = None) -> Tensor:
    """Dim d of the result is dim dims[d] of x; without dims, all in reverse."""
    x = _tensor(x)
    order = list(range(x.ndim))[::-1] if dims is None else [d % x.ndim for d in dims]
    return _core.call("transpose", [x], dims=order)


def squeeze(x: ArrayLike, axis: int | Sequence[int] | None = None) -> Tensor:
    """Without dims of size 1: those given, or all."""
    x = _tensor(x)
    dims = [d for d, s in enumerate(x.shape) if s == 1] if axis is None else _dims(x, axis)
    return _core.call("squeeze", [x], dims=dims) if dims else x


def expand_dims(x: ArrayLike, axis: int) -> Tensor:
    """With a dim of size 1, so that it is dim `axis`."""
    x = _tensor(x)
    return _core.call("expand_dims", [x], dims=[axis % (x.ndim + 1)])


def broadcast_to(x: ArrayLike, shape: Sequence[int]) -> Tensor:
    """x repeated along new dims and dims of size 1."""
    return _core.call("broadcast", [_tensor(x)], shape=list(shape))


def concat(tensors: ArrayLike, axis: int = 0) -> Tensor:
    """One behind the other along a dim."""
    tensors = [_tensor(t) for t in tensors]
    return _core.call("concat", tensors, dim=axis % tensors[0].ndim)


def stack(tensors: ArrayLike, axis: int = 0) -> Tensor:
    """Side by side along a new dim."""
    return concat([expand_dims(t, axis) for t in tensors], axis)


def split(x: ArrayLike, sizes: Sequence[int], axis: int = 0) -> tuple[Tensor, ...]:
    """Parts of these sizes along a dim: `split(x, [2, 2])`."""
    x = _tensor(x)
    if isinstance(sizes, int):
        raise TypeError(f"sizes={sizes} should be those of the parts, like [{x.shape[axis] - x.shape[axis] // 2}, "
                        f"{x.shape[axis] // 2}]")
    parts = _core.call("split", [x], sizes=list(sizes), dim=axis % x.ndim)
    return parts if isinstance(parts, tuple) else (parts,)


def gather(table: ArrayLike, indices: ArrayLike, axis: int = 0) -> Tensor:
    """Slices of `table` along a dim, by index."""
    table = _tensor(table)
    return _core.call("gather", [table, _tensor(indices)], dim=axis % table.ndim)


def one_hot(x: ArrayLike, depth: int, dtype: str = "float32") -> Tensor:
    """A new last dim, 1 where it is x."""
    return _core.call("one_hot", [_tensor(x)], depth=depth, dtype=_short(dtype))


def where(condition: ArrayLike, a: ArrayLike, b: ArrayLike) -> Tensor:
    """a where the condition holds, else b."""
    a, b = _core.array_of(a), _core.array_of(b)
    return _core.call("where", [_tensor(condition), a, b])


def layer_norm(x: ArrayLike, gamma: ArrayLike, beta: ArrayLike, epsilon: float = 1e-5) -> Tensor:
    """gamma (x - mean) / sqrt(variance + epsilon) + beta over the last dims, those of gamma."""
    return _core.call("layer_norm", [_tensor(x), _tensor(gamma), _tensor(beta)], epsilon=epsilon)


def rms_norm(x: ArrayLike, gamma: ArrayLike, epsilon: float = 1e-6) -> Tensor:
    """gamma x / sqrt(mean of x^2 + epsilon) over the last dims, those of gamma."""
    return _core.call("rms_norm", [_tensor(x), _tensor(gamma)], epsilon=epsilon)


def attention(q: ArrayLike, k: ArrayLike, v: ArrayLike, causal: bool = True, scale: float | None = None) -> Tensor:
    """softmax(scale q k^T) v; q [batch, heads, rows, size], k and v may have fewer heads."""
    return _core.call("attention", [_tensor(q), _tensor(k), _tensor(v)], causal=causal, scale=scale)


def rotary(x: ArrayLike, base: float = 10000.0) -> Tensor:
    """Pairs of elements of x[..., s, d] turned by their place s."""
    return _core.call("rotary", [_tensor(x)], base=base)


def swiglu(gate: ArrayLike, up: ArrayLike) -> Tensor:
    """gate / (1 + e^-gate) up."""
    return _core.call("swiglu", [_tensor(gate), _tensor(up)])


def _pair(sizes: Sizes) -> list[int]:
    return [sizes, sizes] if isinstance(sizes, int) else list(sizes)


def conv2d(x: ArrayLike, weight: ArrayLike, stride: Sizes = 1, padding: Sizes = 0, dilation: Sizes = 1,
           groups: int = 1) -> Tensor:
    """Images [batch, channels, height, width] with weights [out, channels / groups, height, width]."""
    top, left = _pair(padding)[:2]
    pads = [top, left, top, left] if isinstance(padding, int) or len(padding) == 2 else list(padding)
    return _core.call("conv2d", [_tensor(x), _tensor(weight)], strides=_pair(stride), pads=pads, dilations=_pair(dilation),
                      groups=groups)


def _pool(op: str) -> Callable[..., Tensor]:
    def function(x: ArrayLike, size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> Tensor:
        top, left = _pair(padding)[:2]
        return _core.call(op, [_tensor(x)], kernel=_pair(size), strides=_pair(stride or size),
                          pads=[top, left, top, left])

    function.__name__ = function.__qualname__ = op
    function.__doc__ = f"The {'largest x' if op.startswith('max') else 'mean of x'} in each window."
    return function


max_pool2d = _pool("max_pool2d")
avg_pool2d = _pool("avg_pool2d")


def dropout(x: ArrayLike, rate: float, name: str = "dropout") -> Tensor:
    """In a train step, zero with probability `rate`, else x / (1 - rate), another mask each time; elsewhere x."""
    return _core.dropout(_tensor(x), rate, name, 0)


def cross_entropy(logits: ArrayLike, labels: ArrayLike) -> Tensor:
    """Mean over rows of -log softmax(logits)[label]; logits [..., classes], labels [...] whole numbers."""
    return _core.cross_entropy(_tensor(logits), _tensor(labels))


def mse_loss(x: ArrayLike, target: ArrayLike) -> Tensor:
    """Mean of (x - target)^2."""
    return mean(square(sub(x, target)))


def l1_loss(x: ArrayLike, target: ArrayLike) -> Tensor:
    """Mean of |x - target|."""
    return mean(abs(sub(x, target)))


__getattr__ = missing_name(__name__, __all__, {
    "linear": "matmul", "mm": "matmul", "bmm": "matmul", "view": "reshape", "permute": "transpose", "cat": "concat",
    "concatenate": "concat", "unsqueeze": "expand_dims", "embedding": "gather", "take": "gather", "detach": "stop_gradient",
    "scaled_dot_product_attention": "attention", "flash_attention": "attention", "batch_norm": "nn.BatchNorm2d",
    "einsum": "matmul, transpose and sum", "astype": "cast", "power": "pow", "absolute": "abs", "nll_loss": "cross_entropy",
})


def _short(dtype: str) -> str:
    """`f32` of float32: as attributes of operators name types."""
    return _core.short_name(dtype)

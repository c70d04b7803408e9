"""Primitives of networks (convolution, pooling, norms, losses), and those that are several of the core's operators."""

from __future__ import annotations

from shardwright import _core

from .. import _calls, _regions
from ..common import dtype as mstype
from ..common.tensor import Tensor
from .primitive import Primitive, as_tensor
from .shapes import Cast, dims_of


def pair_of(value) -> list[int]:
    """Of a number both, of a tuple the last two: height and width."""
    return [value, value] if isinstance(value, int) or value is None else list(value)[-2:]


def pads_of(mode: str, padding, size, kernel, strides, dilations) -> list[int]:
    """Top, left, bottom, right, as `pad_mode` says. Raises: ValueError of another mode."""
    mode = str(mode).lower()
    if mode not in ("same", "valid", "pad"):
        raise ValueError(f"pad_mode is same, valid or pad, not '{mode}'")
    if mode == "valid":
        return [0, 0, 0, 0]
    if mode == "pad":
        if isinstance(padding, int):
            return [padding] * 4
        top, bottom, left, right = padding
        return [top, left, bottom, right]
    totals = [max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0)
              for n, k, s, d in zip(size, kernel, strides, dilations)]
    return [t // 2 for t in totals] + [t - t // 2 for t in totals]


class Conv2D(Primitive):
    """Images [batch, channels, height, width] with a weight [out, in / group, height, width]."""

    def __init__(self, out_channel, kernel_size, mode=1, pad_mode="valid", pad=0, stride=1, dilation=1, group=1,
                 data_format="NCHW"):
        if mode != 1 or data_format != "NCHW":
            raise ValueError(f"Conv2D with mode={mode} and data_format={data_format} is not in this front end; there are 1 "
                             "and NCHW")
        self.out_channel, self.kernel, self.pad_mode, self.pad = out_channel, pair_of(kernel_size), pad_mode, pad
        self.strides, self.dilations, self.group = pair_of(stride), pair_of(dilation), group

    def run(self, x, weight):
        pads = pads_of(self.pad_mode, self.pad, x.shape[2:], self.kernel, self.strides, self.dilations)
        return self.call("conv2d", x, weight, strides=self.strides, pads=pads, dilations=self.dilations, groups=self.group)


class _Pool(Primitive):
    op = ""

    def __init__(self, kernel_size=1, strides=1, pad_mode="valid", data_format="NCHW", padding=0):
        if data_format != "NCHW":
            raise ValueError(f"data_format '{data_format}' of a pooling is not in this front end; there is NCHW")
        self.kernel, self.strides, self.pad_mode, self.padding = pair_of(kernel_size), pair_of(strides), pad_mode, padding

    def run(self, x):
        pads = pads_of(self.pad_mode, self.padding, x.shape[2:], self.kernel, self.strides, [1, 1])
        return self.call(self.op, x, kernel=self.kernel, strides=self.strides, pads=pads, **self.settings())

    def settings(self) -> dict:
        """Of the operator, besides its window."""
        return {}


class MaxPool(_Pool):
    """The largest x in each window."""

    op = "max_pool2d"


class AvgPool(_Pool):
    """The mean of x in each window."""

    op = "avg_pool2d"

    def settings(self):
        return {"count_pads": str(self.pad_mode).lower() != "same"}  # pads that are chosen here are no part of it


class PReLU(Primitive):
    """x where it is above 0, else weight x, with a weight for each element of dim 1, or one for all."""

    def run(self, x, weight):
        shape = [] if weight.size == 1 else [weight.size] + [1] * (len(x.shape) - 2)
        if self._in is None:
            return self.call("prelu", x, Tensor.of(_calls.call("reshape", [weight.array], shape=shape)))
        return composed(self, lambda a, b: Tensor.of(_calls.call(
            "prelu", [a.array, _calls.call("reshape", [b.array], shape=shape)])), x, weight)


class TopK(Primitive):
    """The k largest of the last dim, the largest first, and where they are, i32."""

    def __init__(self, sorted: bool = True):
        self.sorted = sorted

    def run(self, x, k):
        values, indices = self.call("top_k", x, k=int(k))
        return values, Cast()(indices, mstype.int32)


class CumSum(Primitive):
    """Running sums along a dim."""

    def __init__(self, exclusive: bool = False, reverse: bool = False):
        self.exclusive, self.reverse = exclusive, reverse

    def run(self, x, axis):
        return self.call("cumsum", x, dim=int(axis) % len(x.shape), exclusive=self.exclusive, reverse=self.reverse)


# ---- several operators: what is said of the primitive holds at the edge of them all ----

def composed(primitive: Primitive, function, *tensors):
    """`function(*tensors)`, inputs and results split as the primitive says; what is between them is found."""
    if not primitive.strategies().get("in_"):
        return function(*tensors)
    region = _regions.Region(primitive._in, primitive._out)
    return region(function, tensors, {}, _calls.name_of(primitive.node_name))


class LayerNorm(Primitive):
    """gamma (x - mean) / sqrt(variance + epsilon) + beta over the dims from begin_norm_axis on; the mean; the variance."""

    def __init__(self, begin_norm_axis: int = 1, begin_params_axis: int = 1, epsilon: float = 1e-7):
        self.begin_norm_axis, self.begin_params_axis, self.epsilon = begin_norm_axis, begin_params_axis, epsilon

    def run(self, x, gamma, beta):
        return composed(self, self._normed, x, gamma, beta)

    def _normed(self, x, gamma, beta):
        rank = len(x.shape)
        dims = list(range(self.begin_norm_axis % rank, rank))
        mean = x.mean(tuple(dims), keep_dims=True)
        variance = (x - mean).square().mean(tuple(dims), keep_dims=True)
        if self.begin_norm_axis % rank == self.begin_params_axis % rank == rank - len(gamma.shape):
            arrays = [x.array, gamma.array, beta.array]
            return Tensor.of(_calls.call("layer_norm", arrays, epsilon=self.epsilon)), mean, variance
        return (x - mean) / (variance + self.epsilon).sqrt() * gamma + beta, mean, variance


class L2Normalize(Primitive):
    """x / sqrt(max(sum of x^2 along a dim, epsilon))"""

    def __init__(self, axis=0, epsilon: float = 1e-4):
        self.axis, self.epsilon = axis, epsilon

    def run(self, x):
        return composed(self, self._normed, x)

    def _normed(self, x):
        sums = Tensor.of(_calls.call("reduce_sum", [x.square().array], dims=dims_of(self.axis, len(x.shape)), keep=True))
        return x / Tensor.of(_calls.binary("maximum", sums.array, self.epsilon)).sqrt()


class SoftmaxCrossEntropyWithLogits(Primitive):
    """-sum(labels log softmax(logits)) of each row, and its gradient: softmax(logits) - labels."""

    def run(self, logits, labels):
        return composed(self, self._losses, logits, labels)

    def _losses(self, logits, labels):
        shares = Tensor.of(_calls.call("log_softmax", [logits.array], dim=-1))
        return -(labels * shares).sum(-1), logits.softmax(-1) - labels


class SparseSoftmaxCrossEntropyWithLogits(Primitive):
    """The mean over rows of -log softmax(logits)[label]."""

    def __init__(self, is_grad: bool = False):
        if is_grad:
            raise ValueError("SparseSoftmaxCrossEntropyWithLogits with is_grad=True is not in this front end: differentiate it")

    def run(self, logits, labels):
        return composed(self, lambda x, y: Tensor.of(_core.cross_entropy(x.array, y.array)), logits, labels)


class SquaredDifference(Primitive):
    """(x - y)^2"""

    def run(self, x, y):
        return composed(self, lambda a, b: (a - b).square(), as_tensor(x), as_tensor(y))


class DivNoNan(Primitive):
    """x / y, and 0 where y is 0."""

    def run(self, x, y):
        return composed(self, self._quotient, as_tensor(x), as_tensor(y))

    @staticmethod
    def _quotient(x, y):
        is_zero = y == 0
        quotient = x / Tensor.of(_calls.call("where", [is_zero.array, *_calls.pair(1, y.array)]))
        return Tensor.of(_calls.call("where", [is_zero.array, *_calls.pair(0, quotient.array)]))


def _divided(x: Tensor, y: Tensor) -> tuple[Tensor, str]:
    """x / y, as floating numbers, and the type in which x and y meet."""
    a, b = _calls.pair(x.array, y.array)
    dtype = a.dtype
    wide = dtype if _calls.is_floating(dtype) else "float64"
    return Tensor.of(_calls.call("div", [_calls.cast(a, wide), _calls.cast(b, wide)])), dtype


class FloorDiv(Primitive):
    """The largest whole number that is at most x / y, in the type of x and y."""

    def run(self, x, y):
        return composed(self, self._whole, *_both(x, y))

    @staticmethod
    def _whole(x, y):
        quotient, dtype = _divided(x, y)
        return quotient.floor().astype(dtype)


class FloorMod(Primitive):
    """x - floor(x / y) y: of the sign of y."""

    def run(self, x, y):
        return composed(self, lambda a, b: a - FloorDiv._whole(a, b) * b, *_both(x, y))


class Mod(Primitive):
    """x - y times x / y without its fraction: of the sign of x."""

    def run(self, x, y):
        return composed(self, self._rest, *_both(x, y))

    @staticmethod
    def _rest(x, y):
        quotient, dtype = _divided(x, y)
        whole = quotient.abs().floor() * Tensor.of(_calls.call("sign", [quotient.array]))
        return x - whole.astype(dtype) * y


def _both(x, y) -> tuple[Tensor, Tensor]:
    """As tensors; a number takes the type of the tensor beside it if that can hold it."""
    if isinstance(x, Tensor) and isinstance(y, Tensor):
        return x, y
    a, b = _calls.pair(x.array if isinstance(x, Tensor) else x, y.array if isinstance(y, Tensor) else y)
    return Tensor.of(a), Tensor.of(b)


__all__ = ["Conv2D", "MaxPool", "AvgPool", "PReLU", "TopK", "CumSum", "LayerNorm", "L2Normalize",
           "SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits", "SquaredDifference", "DivNoNan",
           "FloorDiv", "FloorMod", "Mod"]

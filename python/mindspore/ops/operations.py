"""Primitives of linear algebra, arithmetic and activations, and what shows tensors. The others are in `shapes`."""

from __future__ import annotations

import itertools

from shardwright import _core

from .. import _calls
from .._missing import missing
from .._compile import show
from .._trace import current
from ..common.tensor import Tensor
from .primitive import Primitive, as_tensor
from .shapes import *  # noqa: F403
from .collectives import *  # noqa: F403
from .collectives import __all__ as _of_ranks
from .networks import *  # noqa: F403
from .networks import __all__ as _of_networks
from .shapes import __all__ as _of_shapes


class MatMul(Primitive):
    """x y, with the last two dims of either swapped first."""

    def __init__(self, transpose_a: bool = False, transpose_b: bool = False):
        self.transpose_a, self.transpose_b = transpose_a, transpose_b

    def run(self, x, y):
        if self.attrs.get("enable_nd_tp") and self._in and self.strategies():
            return self._with_more_dims(x, y)
        return self._product(x, y, **self._read_strategies(len(x.shape), len(y.shape)))

    def _product(self, x, y, **strategies):
        a, b = _calls.pair(x.array, y.array)
        return Tensor.of(_calls.call("matmul", [a, b], name=self.node_name, transpose_a=self.transpose_a,
                                     transpose_b=self.transpose_b, **strategies))

    def _read_strategies(self, x_dims: int, y_dims: int) -> dict:
        """Parts of a transposed operand are read as it is stored, or, if the cuts of k differ then, as it is used."""
        said = self.strategies()
        strategy = said.get("in_")
        if not strategy or not all(isinstance(s, tuple) and len(s) >= 2 for s in strategy) or len(strategy) != 2:
            return said
        first, second = strategy
        k_of_first = first[-2] if self.transpose_a else first[-1]
        k_of_second = second[-1] if self.transpose_b else second[-2]
        if k_of_first != k_of_second:
            if self.transpose_b and second[-2] == k_of_first:
                second = (*second[:-2], second[-1], second[-2])
            elif self.transpose_a and first[-1] == k_of_second:
                first = (*first[:-2], first[-1], first[-2])
        return {**said, "in_": (first, second)}

    def _with_more_dims(self, x, y):
        """Tensor parallelism in several dims: x lies over more axes than the product needs, and y as is said.

        x(.., (k, n)) and y(k, n) make (.., (n, k)): x is gathered over n, and sums are scattered over k.
        """
        of_x, of_y = self._in
        rows, columns = of_x.dims[:-1], of_x.dims[-1]
        k, n = of_y.dims
        if not isinstance(columns, tuple) or columns != (k, n):
            raise ValueError(f"{self.node_name}: with enable_nd_tp the last dim of x lies over {(k, n)}, the axes of "
                             f"y, not over {columns}")
        edge = _core.reshard(x.array, of_x.split, _calls.name_of(self.node_name + ".in"))
        product = self._product(Tensor.of(edge), y, in_=(of_x.at(*rows, k).split, of_y.split))
        out = self._out[0].split if self._out else of_x.at(*rows, (n, k)).split
        return Tensor.of(_core.reshard(product.array, out, _calls.name_of(self.node_name + ".out")))


class BatchMatMul(MatMul):
    """The same for tensors with leading dims."""


class BiasAdd(Primitive):
    """A bias for each element of dim 1 (of the last, where there are two)."""

    def __init__(self, data_format: str = "NCHW"):
        self.data_format = data_format

    def run(self, x, bias):
        if len(x.shape) > 2 and self.data_format == "NCHW":
            bias = Tensor.of(_calls.call("reshape", [bias.array], shape=[bias.shape[0]] + [1] * (len(x.shape) - 2)))
        return self.binary("add", x, bias)


def _unary(op: str, **attributes) -> type[Primitive]:
    class Unary(Primitive):
        __doc__ = f"The core's operator {op}."

        def run(self, x):
            return self.call(op, x, **attributes)

    return Unary


def _binary(op: str) -> type[Primitive]:
    class Binary(Primitive):
        __doc__ = f"The core's operator {op}, of tensors whose shapes broadcast, or a tensor and a number."

        def run(self, x, y):
            return self.binary(op, x, y)

    return Binary


def _named(kinds: dict[str, type[Primitive]]) -> dict[str, type[Primitive]]:
    for name, kind in kinds.items():
        kind.__name__ = kind.__qualname__ = name
    return kinds


_of_one = _named({
    "ReLU": _unary("relu"), "Sigmoid": _unary("sigmoid"), "Tanh": _unary("tanh"), "SiLU": _unary("silu"),
    "GeLU": _unary("gelu", approximate="tanh"), "FastGeLU": _unary("gelu", approximate="sigmoid"),
    "Neg": _unary("neg"), "Exp": _unary("exp"), "Log": _unary("log"), "Sqrt": _unary("sqrt"), "Rsqrt": _unary("rsqrt"),
    "Abs": _unary("abs"), "Sign": _unary("sign"), "Floor": _unary("floor"),
    "Ceil": _unary("ceil"), "Round": _unary("round"), "Erf": _unary("erf"), "Reciprocal": _unary("reciprocal"),
    "Inv": _unary("reciprocal"), "Softplus": _unary("softplus"), "HSwish": _unary("hard_swish"), "Elu": _unary("elu"),
    "LogicalNot": _unary("logical_not"), "Sin": _unary("sin"), "Cos": _unary("cos")})
_of_two = _named({
    "Add": _binary("add"), "TensorAdd": _binary("add"), "Sub": _binary("sub"), "Mul": _binary("mul"),
    "Div": _binary("div"), "RealDiv": _binary("div"), "Maximum": _binary("maximum"), "Minimum": _binary("minimum"),
    "Pow": _binary("pow"), "Atan2": _binary("atan2"), "Equal": _binary("equal"), "NotEqual": _binary("not_equal"),
    "Less": _binary("less"), "LessEqual": _binary("less_equal"), "Greater": _binary("greater"),
    "GreaterEqual": _binary("greater_equal"), "LogicalAnd": _binary("logical_and"), "LogicalOr": _binary("logical_or")})


class Square(Primitive):
    """x^2"""

    def run(self, x):
        x = as_tensor(x)
        return self.call("square", x) if _calls.is_floating(x.dtype.name) else self.binary("mul", x, x)


_of_one["Square"] = Square
_of_one["Gelu"] = _of_one["GeLU"]  # an older name
globals().update(_of_one)
globals().update(_of_two)


class _OverDim(Primitive):
    op = ""

    def __init__(self, axis: int = -1):
        self.axis = axis[0] if isinstance(axis, tuple) else axis

    def run(self, x):
        return self.call(self.op, x, dim=self.axis)


class Softmax(_OverDim):
    """e^x over its sum along a dim."""

    op = "softmax"


class LogSoftmax(_OverDim):
    """The logarithm of softmax."""

    op = "log_softmax"


_calls_outside = itertools.count()  # of dropouts outside of programs, each with its own mask


class Dropout(Primitive):
    """While training, zero with probability 1 - keep_prob, else x / keep_prob; and which of it was kept."""

    def __init__(self, keep_prob: float = 0.5, Seed0: int = 0, Seed1: int = 0):
        if not 0 < keep_prob <= 1:
            raise ValueError(f"keep_prob is above 0 and at most 1, not {keep_prob}")
        self.keep_prob, self.seed = keep_prob, Seed0 * 65536 + Seed1

    def run(self, x):
        if self.keep_prob == 1:
            return x, x == x
        y = Tensor.of(_core.dropout(x.array, 1 - self.keep_prob, _calls.name_of(self.node_name), self.seed,
                                    next(_calls_outside)))
        return y, y != 0


class Select(Primitive):
    """x where the condition holds, else y."""

    def run(self, cond, x, y):
        a, b = _calls.pair(as_tensor(x).array, as_tensor(y).array)
        return self.call("where", cond, Tensor.of(a), Tensor.of(b))


class Print(Primitive):
    """Shows its arguments, each on a line: in programs behind each step."""

    def run(self, *args):
        tracing = current()
        if tracing:
            tracing.prints.append(args)
        else:
            show(args)
        return args[-1]


class Assign(Primitive):
    """Behind the step, or at once outside of programs, the parameter holds the value."""

    def run(self, variable, value):
        variable.set_data(as_tensor(value).astype(variable.dtype))
        return variable


class AssignAdd(Primitive):
    """The same for what it holds plus the value."""

    def run(self, variable, value):
        return Assign()(variable, variable.value() + value)


class AssignSub(Primitive):
    """The same for what it holds less the value."""

    def run(self, variable, value):
        return Assign()(variable, variable.value() - value)


class Depend(Primitive):
    """The value; behind what it depends on, as everything runs in order."""

    def run(self, value, expr):
        return value


class Identity(Primitive):
    def run(self, x):
        return x


__all__ = [*_of_one, *_of_two, *_of_shapes, *_of_ranks, *_of_networks,
           "MatMul", "BatchMatMul", "BiasAdd", "Softmax", "LogSoftmax", "Dropout",
           "Select", "Print", "Assign", "AssignAdd", "AssignSub", "Depend", "Identity", "Primitive"]
__getattr__ = missing("mindspore.ops.operations", globals())

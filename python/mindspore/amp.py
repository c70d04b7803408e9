"""Mixed precision: networks that compute in f16, and losses that are scaled so that small gradients do not vanish."""

from __future__ import annotations

from . import context
from ._missing import missing, near
from .common import dtype as mstype
from .common.parameter import Parameter
from .common.tensor import Tensor
from .nn.cell import Cell
from .nn.layers import Conv2d, Dense
from .nn import norms
from .ops import functional as F
from .ops import operations as P
from .train.loss_scale_manager import DynamicLossScaleManager, FixedLossScaleManager, LossScaleManager

_levels = ("O0", "O1", "O2", "O3", "auto")
# What O1 computes in a short type: products, which take most of the time, and what is exact in any type.
_short_cells = (Conv2d, Dense)
_short_operators = (P.Conv2D, P.MatMul, P.BatchMatMul, P.PReLU, P.ReLU)


def level_called(name: str) -> str:
    """O0, O1, O2 or O3; `auto` is what the device target says. Raises: ValueError of another."""
    if name not in _levels:
        raise ValueError(f"amp_level '{name}' is not in this front end{near(str(name), _levels)}; there are "
                         f"{', '.join(_levels)}")
    of_target = {"GPU": "O2", "Ascend": "O3", "Davinci": "O3"}
    return of_target.get(context.get_context("device_target"), "O0") if name == "auto" else name


def auto_mixed_precision(network: Cell, amp_level: str = "O0", dtype=mstype.float16) -> Cell:
    """Has a network compute in a short type: O3 all of it, O2 all but norms, O1 products and ReLU, whose results are f32
    again. Parameters stay f32. Returns it."""
    if not isinstance(network, Cell):
        raise TypeError(f"auto_mixed_precision takes a Cell, not {network!r}")
    level = level_called(amp_level)
    if level == "O0":
        return network
    if dtype not in (mstype.float16, mstype.bfloat16):
        raise ValueError(f"auto_mixed_precision computes in Float16 or BFloat16, not in {dtype}")
    context.touch()
    if level == "O1":
        _shorten_products(network, dtype)
        return network
    network.to_float(dtype)
    if level == "O2":
        for _, cell in network.cells_and_names():
            if isinstance(cell, norms.kinds):
                cell.to_float(mstype.float32)
    return network


def _shorten_products(cell: Cell, dtype) -> None:
    if isinstance(cell, _short_cells):
        cell.to_float_and_back(dtype)
        return
    for operator in vars(cell).values():
        if isinstance(operator, _short_operators):
            operator.to_float_and_back(dtype.name)
    for child in cell.name_cells().values():
        _shorten_products(child, dtype)


class InFloat32(Cell):
    """A network whose result is cast to f32, for a loss."""

    def __init__(self, network: Cell):
        super().__init__(auto_prefix=False)
        self.network = network

    def construct(self, *inputs):
        result = self.network(*inputs)
        return tuple(map(in_float32, result)) if isinstance(result, tuple) else in_float32(result)


def in_float32(x):
    return F.cast(x, mstype.float32) if isinstance(x, Tensor) and x.dtype in (mstype.float16, mstype.bfloat16) else x


def _mapped(function, inputs):
    return type(inputs)(function(x) for x in inputs) if isinstance(inputs, (tuple, list)) else function(inputs)


def all_finite(inputs) -> Tensor:
    """Whether all elements of all tensors are numbers."""
    listed = inputs if isinstance(inputs, (tuple, list)) else [inputs]
    return F.all(F.stack([F.all(F.isfinite(x)) for x in listed]))


class LossScaler:
    """Multiplies a loss, divides gradients, and changes by whether these are finite."""

    def scale(self, inputs):
        raise NotImplementedError

    def unscale(self, inputs):
        raise NotImplementedError

    def adjust(self, grads_finite):
        raise NotImplementedError


class StaticLossScaler(LossScaler):
    """Always the same factor."""

    def __init__(self, scale_value: float):
        if not isinstance(scale_value, (int, float)) or scale_value < 1:
            raise ValueError(f"scale_value is 1 or more, not {scale_value!r}")
        self.scale_value = Parameter(Tensor(float(scale_value), mstype.float32), name="scale_value", requires_grad=False)

    def scale(self, inputs):
        return _mapped(lambda x: x * F.cast(self.scale_value, x.dtype), inputs)

    def unscale(self, inputs):
        return _mapped(lambda x: x / F.cast(self.scale_value, x.dtype), inputs)

    def adjust(self, grads_finite):
        return False


class DynamicLossScaler(StaticLossScaler):
    """scale_factor times as much behind scale_window steps whose gradients are finite, divided by it where they are not."""

    def __init__(self, scale_value: float, scale_factor: int, scale_window: int):
        super().__init__(scale_value)
        for name, value in (("scale_factor", scale_factor), ("scale_window", scale_window)):
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} is a whole number above 0, not {value!r}")
        self.scale_factor, self.scale_window = scale_factor, scale_window
        self.counter = Parameter(Tensor(0.0, mstype.float32), name="counter", requires_grad=False)

    def adjust(self, grads_finite):
        scale, count = self.scale_value.value(), self.counter.value()
        is_good = F.cast(grads_finite, mstype.bool_)
        larger = F.where(count == self.scale_window - 1, scale * float(self.scale_factor), scale)
        larger = F.where(F.isfinite(larger), larger, scale)
        smaller = F.maximum(scale / float(self.scale_factor), 1.0)
        F.assign(self.scale_value, F.where(is_good, larger, smaller))
        counted = F.where(count == self.scale_window - 1, F.zeros_like(count), count + 1.0)
        F.assign(self.counter, F.where(is_good, counted, F.zeros_like(count)))
        return True


__getattr__ = missing("mindspore.amp", globals())

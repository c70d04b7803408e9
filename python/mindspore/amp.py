"""Mixed precision: networks that compute in f16, and losses that are scaled so that small gradients do not vanish."""

from __future__ import annotations

from . import context
from ._missing import missing, near
from .common import dtype as mstype
from .common.tensor import Tensor
from .nn.cell import Cell
from .nn.layers import Conv2d, Dense
from .nn.norms import BatchNorm1d, BatchNorm2d, LayerNorm
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
            if isinstance(cell, (BatchNorm1d, BatchNorm2d, LayerNorm)):
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


__getattr__ = missing("mindspore.amp", globals())

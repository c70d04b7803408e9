"""Train steps whose loss is scaled, and which leave out the update where gradients overflow."""

from __future__ import annotations

from ..._autodiff import gradients_of
from ..._compile import Unit
from ..._missing import missing
from ..._trace import current
from ...common import dtype as mstype
from ...common.parameter import Parameter
from ...common.tensor import Tensor
from ...ops import functional as F
from ..cell import Cell
from .cell_wrapper import TrainOneStepCell


class FixedLossScaleUpdateCell(Cell):
    """The scale stays."""

    def __init__(self, loss_scale_value: float):
        super().__init__()
        self.scale = float(loss_scale_value)

    def get_loss_scale(self) -> float:
        return self.scale

    def move(self, is_overflow: bool) -> None:
        """Behind a step."""


class DynamicLossScaleUpdateCell(FixedLossScaleUpdateCell):
    """It shrinks by scale_factor where gradients overflow, and grows by it behind scale_window good steps."""

    def __init__(self, loss_scale_value: float, scale_factor: float, scale_window: int):
        super().__init__(loss_scale_value)
        if loss_scale_value < 1 or scale_factor <= 1 or scale_window < 1:
            raise ValueError(f"loss_scale_value {loss_scale_value} and scale_window {scale_window} are 1 or more, and "
                             f"scale_factor {scale_factor} above 1")
        self.factor, self.window, self.good_steps = scale_factor, scale_window, 0

    def move(self, is_overflow: bool) -> None:
        self.good_steps = 0 if is_overflow else self.good_steps + 1
        if is_overflow:
            self.scale = max(self.scale / self.factor, 1.0)
        elif self.good_steps == self.window:
            self.scale, self.good_steps = self.scale * self.factor, 0


class TrainOneStepWithLossScaleCell(TrainOneStepCell):
    """Trains on one batch unless gradients overflow. Returns the loss, whether they did, and the scale.

    Two programs: gradients, and the update that is left out.
    """

    def __init__(self, network: Cell, optimizer, scale_sense):
        super().__init__(network, optimizer)
        number = scale_sense.item() if isinstance(scale_sense, Tensor) else scale_sense
        self.scale_sense = number if isinstance(number, Cell) else FixedLossScaleUpdateCell(number)
        self._scale = [Parameter(Tensor(1.0), name="loss_scale", requires_grad=False)]  # in a list: no parameter of the cell
        self._scaled = Unit(self._scaled_gradients, named=network.construct)

    def __call__(self, *inputs):
        if current():
            raise RuntimeError("TrainOneStepWithLossScaleCell is called between programs: not in AutoParallel, nor in a "
                               "jitted function")
        scale = self.scale_sense.get_loss_scale()
        self._scale[0].set_data(Tensor(scale, mstype.float32))
        loss, gradients, size = self._scaled(*inputs)
        if self.grad_reducer is not None:
            gradients, size = self.grad_reducer(gradients), self.grad_reducer.all_reduce(size)
        is_overflow = not size.item() < 3e38
        if not is_overflow:
            self.optimizer(gradients)
        self.scale_sense.move(is_overflow)
        return loss, Tensor(is_overflow), Tensor(scale, mstype.float32)

    def _scaled_gradients(self, *inputs):
        """The loss, gradients, and the sum of their sizes, which is no number if one of theirs is none."""
        loss, scale = self.network(*inputs), self._scale[0].value()
        gradients = gradients_of(F.cast(loss, mstype.float32) * scale, self.weights)
        gradients = tuple(F.cast(g, w.dtype) / scale for g, w in zip(gradients, self.weights))
        sizes = [F.sum(F.abs(F.cast(g, mstype.float32))) for g in gradients]
        total = sizes[0]
        for size in sizes[1:]:
            total = total + size
        return loss, gradients, total


__getattr__ = missing("mindspore.nn.wrap.loss_scale", globals())

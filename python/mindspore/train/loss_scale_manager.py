"""How losses are scaled, so that small gradients do not vanish in a short type."""

from __future__ import annotations

from .._missing import missing
from ..nn.wrap.loss_scale import DynamicLossScaleUpdateCell, FixedLossScaleUpdateCell


class LossScaleManager:
    """Subclasses say how losses are scaled."""

    def get_loss_scale(self) -> float:
        raise NotImplementedError

    def get_update_cell(self):
        """What a train step asks at each step, or None."""
        raise NotImplementedError


class FixedLossScaleManager(LossScaleManager):
    """One scale. Unless drop_overflow_update, the optimizer's loss_scale should be the same."""

    def __init__(self, loss_scale: float = 128.0, drop_overflow_update: bool = True):
        if loss_scale < 1:
            raise ValueError(f"loss_scale is 1 or more, not {loss_scale}")
        self._loss_scale, self._drop_overflow_update = float(loss_scale), drop_overflow_update

    def get_loss_scale(self):
        return self._loss_scale

    def get_drop_overflow_update(self) -> bool:
        return self._drop_overflow_update

    def get_update_cell(self):
        return FixedLossScaleUpdateCell(self._loss_scale) if self._drop_overflow_update else None


class DynamicLossScaleManager(LossScaleManager):
    """It grows by scale_factor behind scale_window good steps, and shrinks by it where gradients overflow."""

    def __init__(self, init_loss_scale: float = 2**24, scale_factor: int = 2, scale_window: int = 2000):
        if init_loss_scale < 1 or scale_factor <= 1 or scale_window < 1:
            raise ValueError(f"init_loss_scale {init_loss_scale} and scale_window {scale_window} are 1 or more, and "
                             f"scale_factor {scale_factor} above 1")
        self._of_cell = (float(init_loss_scale), scale_factor, scale_window)

    def get_loss_scale(self):
        return self._of_cell[0]

    def get_drop_overflow_update(self) -> bool:
        return True

    def get_update_cell(self):
        return DynamicLossScaleUpdateCell(*self._of_cell)


__getattr__ = missing("mindspore.train.loss_scale_manager", globals())

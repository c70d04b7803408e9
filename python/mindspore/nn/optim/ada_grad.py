"""Adagrad."""

from __future__ import annotations

from ..._missing import missing
from ...ops import functional as F
from .by_formula import ByFormula


class Adagrad(ByFormula):
    """a' = a + g^2;  w' = w - rate g / sqrt(a')"""

    def __init__(self, params, accum: float = 0.1, learning_rate=0.001, update_slots: bool = True,
                 loss_scale: float = 1.0, weight_decay: float = 0.0):
        if accum < 0:
            raise ValueError(f"accum of Adagrad is 0 or more, not {accum}")
        self.starts = {"accum": accum}
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        self.update_slots = update_slots

    def formula(self, weight, gradient, rate, decay, states):
        sums = states["accum"] + gradient * gradient if self.update_slots else states["accum"]
        return weight - rate * gradient / F.sqrt(sums), {"accum": sums}


__getattr__ = missing("mindspore.nn.optim.ada_grad", globals())

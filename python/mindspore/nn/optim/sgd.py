"""Stochastic gradient descent, with momentum or without."""

from __future__ import annotations

from ..._missing import missing
from .optimizer import Optimizer


class SGD(Optimizer):
    """m' = momentum m + g;  w' = w - rate m', with nesterov w - rate (g + momentum m')."""

    state_names = {"momentum": "accum"}

    def __init__(self, params, learning_rate=0.1, momentum: float = 0.0, dampening: float = 0.0,
                 weight_decay: float = 0.0, nesterov: bool = False, loss_scale: float = 1.0):
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        if momentum < 0:
            raise ValueError(f"momentum is 0 or more, not {momentum}")
        if dampening != 0:
            raise ValueError(f"SGD with dampening={dampening} is not in this front end; there is 0")
        if nesterov and momentum == 0:
            raise ValueError("SGD with nesterov=True needs a momentum above 0")
        self.momentum, self.nesterov = momentum, nesterov
        self.core_name = "momentum" if momentum else "sgd"

    def settings(self):
        return {"momentum": float(self.momentum), "nesterov": self.nesterov} if self.momentum else {}


__getattr__ = missing("mindspore.nn.optim.sgd", globals())

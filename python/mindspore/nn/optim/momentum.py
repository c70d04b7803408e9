"""Stochastic gradient descent with momentum."""

from __future__ import annotations

from ..._missing import missing
from ...common import dtype as mstype
from ...common.tensor import Tensor
from .optimizer import Optimizer


class Momentum(Optimizer):
    """m' = momentum m + g;  w' = w - rate m', with use_nesterov w - rate (g + momentum m')."""

    core_name = "momentum"
    state_names = {"momentum": "moments"}

    def __init__(self, params, learning_rate, momentum: float, weight_decay: float = 0.0, loss_scale: float = 1.0,
                 use_nesterov: bool = False):
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        if not isinstance(momentum, (int, float)) or momentum < 0:
            raise ValueError(f"momentum is 0 or more, not {momentum!r}")
        self.momentum, self.use_nesterov = float(momentum), bool(use_nesterov)

    def scalars(self):
        return {"momentum": Tensor(self.momentum, mstype.float32)}

    def settings(self):
        return {"momentum": self.momentum, "nesterov": self.use_nesterov}


__getattr__ = missing("mindspore.nn.optim.momentum", globals())

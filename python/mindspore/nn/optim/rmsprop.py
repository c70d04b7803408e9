"""RMSProp."""

from __future__ import annotations

from ..._missing import missing
from ...ops import functional as F
from .by_formula import ByFormula


class RMSProp(ByFormula):
    """s' = decay s + (1 - decay) g^2;  m' = momentum m + rate g / sqrt(s' + epsilon);  w' = w - m'

    centered: n' = decay n + (1 - decay) g, and s' - n'^2 stands in the root. s starts with ones.
    """

    def __init__(self, params, learning_rate=0.1, decay: float = 0.9, momentum: float = 0.0, epsilon: float = 1e-10,
                 use_locking: bool = False, centered: bool = False, loss_scale: float = 1.0, weight_decay: float = 0.0):
        if decay < 0 or momentum < 0 or epsilon <= 0:
            raise ValueError(f"RMSProp takes decay {decay} and momentum {momentum} from 0 on, epsilon {epsilon} above 0")
        self.starts = {"mean_square": 1.0, "moment": 0.0, **({"mean_grad": 0.0} if centered else {})}
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        self.decay, self.momentum, self.epsilon, self.centered = decay, momentum, epsilon, centered

    def formula(self, weight, gradient, rate, decay, states):
        rest = 1 - self.decay
        square = states["mean_square"] + (gradient * gradient - states["mean_square"]) * rest
        mean = {"mean_grad": states["mean_grad"] + (gradient - states["mean_grad"]) * rest} if self.centered else {}
        spread = square - F.square(mean["mean_grad"]) if self.centered else square
        moment = rate * gradient / F.sqrt(spread + self.epsilon) + states["moment"] * self.momentum
        return weight - moment, {"mean_square": square, "moment": moment, **mean}


__getattr__ = missing("mindspore.nn.optim.rmsprop", globals())

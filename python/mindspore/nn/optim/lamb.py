"""Lamb (You et al. 2020)."""

from __future__ import annotations

import math

from ..._missing import missing
from ...ops import functional as F
from .by_formula import ByFormula


class Lamb(ByFormula):
    """m' = beta1 m + (1 - beta1) g;  v' = beta2 v + (1 - beta2) g^2;  d = m^ / (sqrt(v^) + eps) + weight_decay w

    w' = w - rate |w| / |d| d for each parameter, where the ratio is 1 if either norm is 0.
    """

    starts = {"lamb_m": 0.0, "lamb_v": 0.0}
    decays_gradients = False

    def __init__(self, params, learning_rate, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-6,
                 weight_decay: float = 0.0):
        if not (0 < beta1 < 1 and 0 < beta2 < 1 and eps > 0):
            raise ValueError(f"Lamb takes beta1 {beta1} and beta2 {beta2} between 0 and 1, eps {eps} above 0")
        super().__init__(learning_rate, params, weight_decay)
        self.beta1, self.beta2, self.eps = beta1, beta2, eps

    def formula(self, weight, gradient, rate, decay, states):
        m = states["lamb_m"] + (gradient - states["lamb_m"]) * (1 - self.beta1)
        v = states["lamb_v"] + (gradient * gradient - states["lamb_v"]) * (1 - self.beta2)
        t = self.step_number()
        first, second = (F.sub(1.0, F.exp(t * math.log(beta))) for beta in (self.beta1, self.beta2))
        direction = m / first / (F.sqrt(v / second) + self.eps)
        if decay is not None:
            direction = direction + weight * decay
        norm, size = F.sqrt(F.sum(direction * direction)), F.sqrt(F.sum(weight * weight))
        ratio = F.where(F.logical_and(norm > 0, size > 0), size / F.maximum(norm, 1e-38), F.ones_like(norm))
        return weight - rate * ratio * direction, {"lamb_m": m, "lamb_v": v}


__getattr__ = missing("mindspore.nn.optim.lamb", globals())

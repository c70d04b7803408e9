"""Optimizers with newer arguments, over those of `nn`."""

from __future__ import annotations

import math

from .._missing import missing
from ..nn.optim.by_formula import ByFormula
from ..ops import functional as F


class _AdamBase(ByFormula):
    """m and v as Adam's;  w' = w - rate m^ / (sqrt(v^) + eps), with amsgrad the largest v so far in v's place."""

    is_decoupled = False  # the weight decays by itself

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, amsgrad=False, *, maximize=False):
        if not (0 <= betas[0] < 1 and 0 <= betas[1] < 1 and eps >= 0):
            raise ValueError(f"{type(self).__name__} takes betas {betas} from 0 to below 1, and eps {eps} from 0 on")
        self.starts = {"exp_avg": 0.0, "exp_avg_sq": 0.0, **({"max_exp_avg_sq": 0.0} if amsgrad else {})}
        self.decays_gradients = not self.is_decoupled
        super().__init__(lr, params, weight_decay)
        for group in self.groups:
            group.decays_all = True  # betas and gammas, too
        self.betas, self.eps, self.amsgrad, self.maximize = betas, float(eps), amsgrad, maximize

    def formula(self, weight, gradient, rate, decay, states):
        first, second = self.betas
        gradient = -gradient if self.maximize else gradient
        if self.is_decoupled and decay is not None:
            weight = weight - weight * (rate * decay)
        m = states["exp_avg"] + (gradient - states["exp_avg"]) * (1 - first)
        v = states["exp_avg_sq"] + (gradient * gradient - states["exp_avg_sq"]) * (1 - second)
        t = self.step_number()
        shares = [F.sub(1.0, F.exp(t * math.log(beta))) if beta else F.ones_like(t) for beta in self.betas]
        out = {"exp_avg": m, "exp_avg_sq": v}
        if self.amsgrad:
            out["max_exp_avg_sq"] = v = F.maximum(states["max_exp_avg_sq"], v)
        return weight - rate / shares[0] * m / (F.sqrt(v) / F.sqrt(shares[1]) + self.eps), out


class Adam(_AdamBase):
    __doc__ = _AdamBase.__doc__


class AdamW(_AdamBase):
    """The same, and w decays by rate weight_decay w."""

    is_decoupled = True

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=False, *, maximize=False):
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)


class SGD(ByFormula):
    """m' = momentum m + (1 - dampening) g, in the first step g;  w' = w - rate m', with nesterov w - rate (g + momentum m')."""

    def __init__(self, params, lr=1e-3, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False, *, maximize=False):
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("SGD with nesterov=True needs a momentum above 0 and no dampening")
        self.starts = {"accum": 0.0} if momentum else {}
        super().__init__(lr, params, weight_decay)
        for group in self.groups:
            group.decays_all = True
        self.momentum, self.dampening, self.nesterov, self.maximize = momentum, dampening, nesterov, maximize

    def formula(self, weight, gradient, rate, decay, states):
        gradient = -gradient if self.maximize else gradient
        if not self.momentum:
            return weight - rate * gradient, {}
        is_first = F.cast(self.step_number() == 1, gradient.dtype)
        moment = gradient * (is_first * self.dampening + (1 - self.dampening)) + states["accum"] * self.momentum
        step = gradient + moment * self.momentum if self.nesterov else moment
        return weight - rate * step, {"accum": moment}


__getattr__ = missing("mindspore.mint.optim", globals())

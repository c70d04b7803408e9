"""Optimizers that are a formula each: how states start, what is set, and what becomes of a weight."""

from __future__ import annotations

import math

from ...common import dtype as mstype
from ...common.tensor import Tensor
from ...ops import functional as F
from ...ops.pointwise import where
from ...ops.primitive import by_core
from .adam import powers
from .by_formula import ByFormula


def _bool(x):
    return F.cast(x, "float32")


class FTRL(ByFormula):
    """a' = a + g^2;  z' = z + g - (a'^-p - a^-p) / rate w;  w' = 0 where |z'| <= l1, else (sign(z') l1 - z') / (a'^-p / rate + 2 l2)

    p is lr_power.
    """

    def __init__(self, params, initial_accum=0.1, learning_rate=0.001, lr_power=-0.5, l1=0.0, l2=0.0, use_locking=False, loss_scale=1.0,
                 weight_decay=0.0):
        if initial_accum < 0 or lr_power > 0 or l1 < 0 or l2 < 0:
            raise ValueError(f"FTRL takes initial_accum {initial_accum}, l1 {l1} and l2 {l2} from 0 on, and lr_power {lr_power} up to 0")
        self.starts = {"moments": initial_accum, "linear": 0.0}
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        self.l1, self.l2, self.lr_power = float(l1), float(l2), float(lr_power)

    def formula(self, weight, gradient, rate, decay, states):
        sums = states["moments"] + gradient * gradient
        new, old = (F.pow(s, -self.lr_power) for s in (sums, states["moments"]))
        linear = states["linear"] + gradient - (new - old) / rate * weight
        size = F.abs(linear)
        step = (F.sign(linear) * self.l1 - linear) / (new / rate + 2 * self.l2)
        return where(size > self.l1, step, F.zeros_like(step)), {"moments": sums, "linear": linear}


class Adadelta(ByFormula):
    """a' = rho a + (1 - rho) g^2;  d = sqrt(u + eps) / sqrt(a' + eps) g;  u' = rho u + (1 - rho) d^2;  w' = w - rate d"""

    starts = {"accum": 0.0, "accum_update": 0.0}

    def __init__(self, params, learning_rate=1.0, rho=0.9, epsilon=1e-6, loss_scale=1.0, weight_decay=0.0):
        if not 0 <= rho < 1 or epsilon <= 0:
            raise ValueError(f"Adadelta takes rho {rho} from 0 to below 1 and epsilon {epsilon} above 0")
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        self.rho, self.epsilon = float(rho), float(epsilon)

    def formula(self, weight, gradient, rate, decay, states):
        sums = states["accum"] * self.rho + gradient * gradient * (1 - self.rho)
        step = F.sqrt(states["accum_update"] + self.epsilon) / F.sqrt(sums + self.epsilon) * gradient
        updates = states["accum_update"] * self.rho + step * step * (1 - self.rho)
        return weight - rate * step, {"accum": sums, "accum_update": updates}


class AdaMax(ByFormula):
    """m' = beta1 m + (1 - beta1) g;  v' = max(beta2 v, |g|);  w' = w - rate / (1 - beta1^t) m' / (v' + eps)"""

    starts = {"moment1": 0.0, "moment2": 0.0}

    def __init__(self, params, learning_rate=0.001, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0, loss_scale=1.0):
        if not (0 < beta1 < 1 and 0 < beta2 < 1 and eps > 0):
            raise ValueError(f"AdaMax takes beta1 {beta1} and beta2 {beta2} between 0 and 1, eps {eps} above 0")
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        self.beta1, self.beta2, self.eps = float(beta1), float(beta2), float(eps)

    def scalars(self):
        return powers(self, ("beta1",), (1,))

    def formula(self, weight, gradient, rate, decay, states):
        m = states["moment1"] * self.beta1 + gradient * (1 - self.beta1)
        v = F.maximum(states["moment2"] * self.beta2, F.abs(gradient))
        share = F.sub(1.0, F.exp(self.step_number() * math.log(self.beta1)))
        return weight - rate / share * m / (v + self.eps), {"moment1": m, "moment2": v}


class Rprop(ByFormula):
    """Steps of sizes that grow where a gradient keeps its sign, and shrink where it does not."""

    starts = {"prev": 0.0, "step_size": 0.0}

    def __init__(self, params, learning_rate=0.1, etas=(0.5, 1.2), step_sizes=(1e-6, 50.0), weight_decay=0.0):
        if len(etas) != 2 or len(step_sizes) != 2 or not 0 < etas[0] < 1 < etas[1] or step_sizes[0] > step_sizes[1]:
            raise ValueError(f"Rprop takes etas {etas} with one below and one above 1, and growing step_sizes {step_sizes}")
        super().__init__(learning_rate, params, weight_decay)
        self.etas, self.step_sizes = etas, step_sizes

    def formula(self, weight, gradient, rate, decay, states):
        is_first = _bool(self.step_number() == 1)
        size = states["step_size"] * (1 - is_first) + rate * is_first
        sign = F.sign(gradient * states["prev"])
        factor = where(sign > 0, float(self.etas[1]), where(sign < 0, float(self.etas[0]), F.ones_like(sign)))
        size = by_core("clip", size * factor, min=float(self.step_sizes[0]), max=float(self.step_sizes[1]))
        gradient = where(sign < 0, F.zeros_like(gradient), gradient)
        return weight - F.sign(gradient) * size, {"prev": gradient, "step_size": size}


class ProximalAdagrad(ByFormula):
    """a' = a + g^2;  r = rate / sqrt(a');  p = w - r g;  w' = sign(p) max(|p| - r l1, 0) / (1 + r l2)"""

    def __init__(self, params, accum=0.1, learning_rate=0.001, l1=0.0, l2=0.0, use_locking=False, loss_scale=1.0, weight_decay=0.0):
        if accum < 0 or l1 < 0 or l2 < 0:
            raise ValueError(f"ProximalAdagrad takes accum {accum}, l1 {l1} and l2 {l2} from 0 on")
        self.starts = {"accum": accum}
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        self.l1, self.l2 = float(l1), float(l2)

    def formula(self, weight, gradient, rate, decay, states):
        sums = states["accum"] + gradient * gradient
        rates = rate / F.sqrt(sums)
        step = weight - rates * gradient
        if self.l1:
            step = F.sign(step) * F.relu(F.abs(step) - rates * self.l1)
        return step / (rates * self.l2 + 1), {"accum": sums}


class ASGD(ByFormula):
    """w' = (1 - lambd eta) w - eta g;  eta' = rate / (1 + lambd rate t)^alpha; a mean of weights beside them from step t0 on."""

    starts = {"ax_": 0.0}

    def __init__(self, params, learning_rate=0.1, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0.0):
        super().__init__(learning_rate, params, weight_decay)
        self.lambd, self.alpha, self.t0 = float(lambd), float(alpha), float(t0)

    def derived(self):
        out = {}
        for group, rate in zip(self.groups, self.rates_now()):
            eta = rate / (1 + self.lambd * rate * self.global_step) ** self.alpha
            for p in group.parameters:
                out[f"mu_{p.name}"] = Tensor(1 / max(self.global_step - self.t0, 1.0), mstype.float32)
                out[f"eta_{p.name}"] = Tensor(eta, mstype.float32)
        return out

    def formula(self, weight, gradient, rate, decay, states):
        t = self.step_number()
        before = F.maximum(t - 1.0, 0.0)
        eta = rate / F.pow(before * rate * self.lambd + 1.0, self.alpha)
        weight = weight * (1.0 - eta * self.lambd) - eta * gradient
        mu = 1.0 / F.maximum(before - self.t0, 1.0)
        mean = states["ax_"] + (weight - states["ax_"]) * mu
        return weight, {"ax_": mean}

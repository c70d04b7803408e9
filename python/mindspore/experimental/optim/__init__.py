"""Optimizers with newer arguments, as formulas."""

from __future__ import annotations

import math

from ..._missing import missing
from ...mint.optim import SGD, AdamW
from ...nn.optim import formulas
from ...nn.optim.by_formula import ByFormula
from ...ops import functional as F


class _Newer(ByFormula):
    """Weight decay is of all parameters, and `settings` are numbers by their names."""

    def __init__(self, params, lr, starts: dict, weight_decay=0.0, maximize=False, **settings):
        self.starts = starts
        super().__init__(lr, params, weight_decay)
        for group in self.groups:
            group.decays_all = True
        self.maximize = maximize
        for name, value in settings.items():
            object.__setattr__(self, name, value)

    def _way(self, gradient):
        return -gradient if self.maximize else gradient

    def _share(self, beta: float):
        """1 - beta^t"""
        return F.sub(1.0, F.exp(self.step_number() * math.log(beta)))

    def _moments(self, gradient, states):
        first, second = self.betas
        return (states["exp_avg"] * first + gradient * (1 - first), states["exp_avg_sq"] * second + gradient * gradient * (1 - second))


_of_adam = {"exp_avg": 0.0, "exp_avg_sq": 0.0}


class Adam(_Newer):
    """w' = w - rate sqrt(1 - beta2^t) / (1 - beta1^t) m' / (sqrt(v') + eps)"""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, amsgrad=False, *, maximize=False):
        if amsgrad:
            raise ValueError("experimental.optim.Adam with amsgrad=True is not in this front end; mint.optim.Adam has it")
        super().__init__(params, lr, _of_adam, weight_decay, maximize, betas=betas, eps=float(eps))

    def formula(self, weight, gradient, rate, decay, states):
        m, v = self._moments(self._way(gradient), states)
        step = rate * F.sqrt(self._share(self.betas[1])) / self._share(self.betas[0])
        return weight - step * m / (F.sqrt(v) + self.eps), {"exp_avg": m, "exp_avg_sq": v}


class NAdam(_Newer):
    """Adam with a momentum that grows, looked at a step ahead (Dozat 2016)."""

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, momentum_decay=4e-3):
        super().__init__(params, lr, {**_of_adam, "mu_product": 1.0}, weight_decay, betas=betas, eps=float(eps), decay=momentum_decay)

    def _mu(self, t):
        return self.betas[0] * (1.0 - 0.5 * F.exp(t * (self.decay * math.log(0.96))))

    def formula(self, weight, gradient, rate, decay, states):
        t = self.step_number()
        mu, ahead = self._mu(t), self._mu(t + 1.0)
        product = states["mu_product"] * mu
        m, v = self._moments(gradient, states)
        root = F.sqrt(v / self._share(self.betas[1])) + self.eps
        weight = weight - rate * (1.0 - mu) / (1.0 - product) * gradient / root
        return weight - rate * ahead / (1.0 - product * ahead) * m / root, {"exp_avg": m, "exp_avg_sq": v, "mu_product": product}


class RAdam(_Newer):
    """Adam whose steps are not divided by a variance that is not known yet (Liu et al. 2020)."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0):
        super().__init__(params, lr, _of_adam, weight_decay, betas=betas, eps=float(eps))

    def formula(self, weight, gradient, rate, decay, states):
        second, t = self.betas[1], self.step_number()
        m, v = self._moments(gradient, states)
        share, most = self._share(second), 2 / (1 - second) - 1
        length = most - 2.0 * t * F.exp(t * math.log(second)) / share
        known = F.maximum(length, 5.0)
        rectified = F.sqrt((known - 4.0) * (known - 2.0) * most / ((most - 4) * (most - 2) * known))
        root = F.sqrt(share) / (F.sqrt(v) + self.eps)
        factor = F.where(F.broadcast_to(length > 5.0, tuple(weight.shape)), root * rectified, F.ones_like(root))
        return weight - m / self._share(self.betas[0]) * rate * factor, {"exp_avg": m, "exp_avg_sq": v}


class RMSprop(_Newer):
    """s' = alpha s + (1 - alpha) g^2;  w' = w - rate g / (sqrt(s') + eps), with momentum of these steps"""

    def __init__(self, params, lr=0.01, alpha=0.99, eps=1e-8, weight_decay=0.0, momentum=0.0, centered=False, maximize=False):
        starts = {"mean_square": 0.0, **({"mean_grad": 0.0} if centered else {}), **({"moment": 0.0} if momentum else {})}
        super().__init__(params, lr, starts, weight_decay, maximize, alpha=alpha, eps=float(eps), momentum=momentum, centered=centered)

    def formula(self, weight, gradient, rate, decay, states):
        gradient = self._way(gradient)
        out = {"mean_square": states["mean_square"] * self.alpha + gradient * gradient * (1 - self.alpha)}
        spread = out["mean_square"]
        if self.centered:
            out["mean_grad"] = states["mean_grad"] * self.alpha + gradient * (1 - self.alpha)
            spread = spread - F.square(out["mean_grad"])
        step = gradient / (F.sqrt(spread) + self.eps)
        if self.momentum:
            out["moment"] = step = states["moment"] * self.momentum + step
        return weight - rate * step, out


class Adagrad(_Newer):
    """a' = a + g^2;  w' = w - rate / (1 + t lr_decay) g / (sqrt(a') + eps), t counting from 0"""

    def __init__(self, params, lr=0.01, lr_decay=0.0, weight_decay=0.0, initial_accumulator_value=0.0, eps=1e-10, *, maximize=False):
        super().__init__(params, lr, {"accum": float(initial_accumulator_value)}, weight_decay, maximize, lr_decay=lr_decay, eps=float(eps))

    def formula(self, weight, gradient, rate, decay, states):
        gradient = self._way(gradient)
        sums = states["accum"] + gradient * gradient
        rate = rate / ((self.step_number() - 1.0) * self.lr_decay + 1.0)
        return weight - rate * gradient / (F.sqrt(sums) + self.eps), {"accum": sums}


class Adamax(_Newer):
    """v' = max(beta2 v, |g| + eps);  w' = w - rate / (1 - beta1^t) m' / v'"""

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, *, maximize=False):
        super().__init__(params, lr, {"exp_avg": 0.0, "exp_inf": 0.0}, weight_decay, maximize, betas=betas, eps=float(eps))

    def formula(self, weight, gradient, rate, decay, states):
        gradient = self._way(gradient)
        first, second = self.betas
        m = states["exp_avg"] * first + gradient * (1 - first)
        most = F.maximum(states["exp_inf"] * second, F.abs(gradient) + self.eps)
        return weight - rate / self._share(first) * m / most, {"exp_avg": m, "exp_inf": most}


class Adadelta(formulas.Adadelta):
    """That of nn."""

    def __init__(self, params, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0.0):
        super().__init__(params, lr, rho, eps, 1.0, weight_decay)


class Rprop(formulas.Rprop):
    """That of nn."""

    def __init__(self, params, lr=0.01, etas=(0.5, 1.2), step_sizes=(1e-6, 50.0)):
        super().__init__(params, lr, etas, step_sizes)


class ASGD(formulas.ASGD):
    """That of nn."""

    def __init__(self, params, lr=0.01, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0.0):
        super().__init__(params, lr, lambd, alpha, t0, weight_decay)


__getattr__ = missing("mindspore.experimental.optim", globals())

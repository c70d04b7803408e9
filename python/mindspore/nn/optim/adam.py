"""Adam."""

from __future__ import annotations

import math

import numpy

from ..._missing import missing
from ...common.tensor import Tensor
from ...ops import functional as F
from .by_formula import ByFormula
from .optimizer import Optimizer


def powers(optimizer: Optimizer, names, shape: tuple = ()) -> dict[str, Tensor]:
    """beta^t by its names, as parameters of the optimizer show it."""
    values = {name: getattr(optimizer, name) ** optimizer.global_step for name in names}
    return {f"{name}_power": Tensor(numpy.full(shape, value, numpy.float32)) for name, value in values.items()}


class Adam(Optimizer):
    """m' = beta1 m + (1 - beta1) g;  v' = beta2 v + (1 - beta2) g^2;  

    w' = w - rate sqrt(1 - beta2^t) / (1 - beta1^t) m' / (sqrt(v') + eps)
    """

    core_name = "adam"
    state_names = {"moment1": "moment1", "moment2": "moment2"}

    def __new__(cls, params=(), learning_rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, use_locking=False,
                use_nesterov=False, weight_decay=0.0, loss_scale=1.0, use_amsgrad=False, **more):
        if use_nesterov and use_amsgrad:
            raise ValueError("Adam with use_nesterov and use_amsgrad both is not in this front end")
        kind = _NesterovAdam if use_nesterov else _AmsgradAdam if use_amsgrad else cls
        return super().__new__(kind if cls is Adam else cls)

    def __init__(self, params, learning_rate=1e-3, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8,
                 use_locking: bool = False, use_nesterov: bool = False, weight_decay: float = 0.0,
                 loss_scale: float = 1.0, use_amsgrad: bool = False, use_lazy: bool = False, use_offload: bool = False):
        """use_lazy is for gradients of rows, of which there are none here; use_offload has no effect."""
        if not (0 < beta1 < 1 and 0 < beta2 < 1 and eps > 0):
            raise ValueError(f"{type(self).__name__} takes beta1 {beta1} and beta2 {beta2} between 0 and 1, eps {eps} above 0")
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        self.beta1, self.beta2, self.eps = beta1, beta2, eps

    power_shape: tuple = ()

    def settings(self):
        return {"beta1": self.beta1, "beta2": self.beta2, "epsilon": self.eps, "plain_epsilon": True}

    def scalars(self):
        return powers(self, ("beta1", "beta2"), self.power_shape)


class _NesterovAdam(Adam, ByFormula):
    """m and v as Adam's;  w' = w - rate sqrt(1 - beta2^t) / (1 - beta1^t) (beta1 m' + (1 - beta1) g) / (sqrt(v') + eps)"""

    starts = {"moment1": 0.0, "moment2": 0.0}

    def formula(self, weight, gradient, rate, decay, states):
        m = states["moment1"] + (gradient - states["moment1"]) * (1 - self.beta1)
        v = states["moment2"] + (gradient * gradient - states["moment2"]) * (1 - self.beta2)
        t = self.step_number()
        first, second = (F.sub(1.0, F.exp(t * math.log(beta))) for beta in (self.beta1, self.beta2))
        ahead = m * self.beta1 + gradient * (1 - self.beta1)
        return weight - rate * F.sqrt(second) / first * ahead / (F.sqrt(v) + self.eps), {"moment1": m, "moment2": v}


class _AmsgradAdam(Adam, ByFormula):
    """m and v as Adam's, and the largest v so far in v's place."""

    starts = {"moment1": 0.0, "moment2": 0.0, "vhat": 0.0}

    def formula(self, weight, gradient, rate, decay, states):
        m = states["moment1"] + (gradient - states["moment1"]) * (1 - self.beta1)
        v = states["moment2"] + (gradient * gradient - states["moment2"]) * (1 - self.beta2)
        most = F.maximum(states["vhat"], v)
        t = self.step_number()
        first, second = (F.sub(1.0, F.exp(t * math.log(beta))) for beta in (self.beta1, self.beta2))
        step = rate * F.sqrt(second) / first * m / (F.sqrt(most) + self.eps)
        return weight - step, {"moment1": m, "moment2": v, "vhat": most}


class LazyAdam(Adam):
    """Adam: rows of a table that a batch has none of are left alone only where gradients are rows, which they are not here."""

    power_shape = (1,)


class AdamOffload(Adam):
    """Adam; its states lie where `set_offload_context` and `Parameter(device=)` say."""


class AdamWeightDecay(ByFormula):
    """m' = beta1 m + (1 - beta1) g;  v' = beta2 v + (1 - beta2) g^2;  w' = w - rate (m' / (sqrt(v') + eps) + weight_decay w)

    There is no correction of the first steps.
    """

    starts = {"adam_m": 0.0, "adam_v": 0.0}
    decays_gradients = False

    def __init__(self, params, learning_rate=1e-3, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-6,
                 weight_decay: float = 0.0):
        if not (0 < beta1 < 1 and 0 < beta2 < 1 and eps > 0):
            raise ValueError(f"AdamWeightDecay takes beta1 {beta1} and beta2 {beta2} between 0 and 1, eps {eps} above 0")
        super().__init__(learning_rate, params, weight_decay)
        self.beta1, self.beta2, self.eps = beta1, beta2, eps

    def formula(self, weight, gradient, rate, decay, states):
        m = states["adam_m"] + (gradient - states["adam_m"]) * (1 - self.beta1)
        v = states["adam_v"] + (gradient * gradient - states["adam_v"]) * (1 - self.beta2)
        direction = m / (F.sqrt(v) + self.eps)
        if decay is not None:
            direction = direction + weight * decay
        return weight - rate * direction, {"adam_m": m, "adam_v": v}


__getattr__ = missing("mindspore.nn.optim.adam", globals())

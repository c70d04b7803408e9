"""Adam."""

from __future__ import annotations

from ..._missing import missing
from .optimizer import Optimizer


class Adam(Optimizer):
    """m' = beta1 m + (1 - beta1) g;  v' = beta2 v + (1 - beta2) g^2;  w' = w - rate m^ / (sqrt(v^) + eps)."""

    core_name = "adam"
    state_names = {"moment1": "moment1", "moment2": "moment2"}

    def __init__(self, params, learning_rate=1e-3, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8,
                 use_locking: bool = False, use_nesterov: bool = False, weight_decay: float = 0.0,
                 loss_scale: float = 1.0):
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        if use_nesterov:
            raise ValueError("Adam with use_nesterov=True is not in this front end")
        self.beta1, self.beta2, self.eps = beta1, beta2, eps

    def settings(self):
        return {"beta1": self.beta1, "beta2": self.beta2, "epsilon": self.eps}


__getattr__ = missing("mindspore.nn.optim.adam", globals())

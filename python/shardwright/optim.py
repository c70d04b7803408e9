"""Optimizers: what a train step does with gradients."""

from __future__ import annotations

import dataclasses
import math
import numbers

from ._names import missing_name


@dataclasses.dataclass(frozen=True)
class Optimizer:
    """`name` of the table, its settings, and the norm that all gradients together are scaled down to (0: none)."""

    name: str
    settings: dict
    clip_norm: float = 0.0

    def __post_init__(self) -> None:
        for key, value in {**self.settings, "clip_norm": self.clip_norm}.items():
            if not isinstance(value, numbers.Real) or not math.isfinite(value) or value < 0:
                raise ValueError(f"{self.name}: {key}={value!r} should be a number from 0 on")


def sgd(lr: float = 0.01, weight_decay: float = 0.0, clip_norm: float = 0.0) -> Optimizer:
    """w - lr (g + weight_decay w)."""
    return Optimizer("sgd", {"rate": lr, "weight_decay": weight_decay}, clip_norm)


def momentum(lr: float = 0.01, momentum: float = 0.9, nesterov: bool = False, weight_decay: float = 0.0,
             clip_norm: float = 0.0) -> Optimizer:
    """m = momentum m + g; w - lr m."""
    settings = {"rate": lr, "momentum": momentum, "weight_decay": weight_decay, "nesterov": nesterov}
    return Optimizer("momentum", settings, clip_norm)


def adagrad(lr: float = 0.01, epsilon: float = 1e-10, weight_decay: float = 0.0, clip_norm: float = 0.0) -> Optimizer:
    """s = s + g^2; w - lr g / (sqrt(s) + epsilon)."""
    return Optimizer("adagrad", {"rate": lr, "epsilon": epsilon, "weight_decay": weight_decay}, clip_norm)


def lazy_adam(lr: float = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8,
              clip_norm: float = 0.0) -> Optimizer:
    """Adam that leaves the moments of a table's rows alone where a batch has none of them: PyTorch's SparseAdam."""
    return Optimizer("lazy_adam", {"rate": lr, "beta1": beta1, "beta2": beta2, "epsilon": epsilon}, clip_norm)


def adam(lr: float = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8, weight_decay: float = 0.0,
         clip_norm: float = 0.0) -> Optimizer:
    """Adam; weight decay is added to the gradient."""
    settings = {"rate": lr, "beta1": beta1, "beta2": beta2, "epsilon": epsilon, "weight_decay": weight_decay}
    return Optimizer("adam", settings, clip_norm)


def adamw(lr: float = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8,
          weight_decay: float = 0.01, clip_norm: float = 0.0) -> Optimizer:
    """Adam with weight decay of its own."""
    settings = {"rate": lr, "beta1": beta1, "beta2": beta2, "epsilon": epsilon, "weight_decay": weight_decay}
    return Optimizer("adamw", settings, clip_norm)


__getattr__ = missing_name(__name__, ["adagrad", "adam", "adamw", "lazy_adam", "momentum", "sgd"], {"lr_scheduler": "shardwright.RateSchedule"})

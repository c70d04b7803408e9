"""Optimizers of PyTorch as ours."""

from __future__ import annotations

from typing import Any, Mapping

import torch

from .. import optim
from .._core import Parameter
from .._errors import ShardwrightError
from ..optim import Optimizer


def rate_of(optimizer: torch.optim.Optimizer) -> float:
    """The learning rate of now, which schedulers change."""
    return float(optimizer.param_groups[0]["lr"])


def optimizer_of(optimizer: Any, module: torch.nn.Module) -> Optimizer:
    """Raises: ShardwrightError that names what ours does not do."""
    if isinstance(optimizer, Optimizer):
        return optimizer
    kind = type(optimizer).__name__
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(f"optimizer: {optimizer!r} should be one of shardwright.optim or torch.optim")
    group = _one_group(optimizer, module)
    if group.get("maximize"):
        raise ShardwrightError(f"{kind}(maximize=True) has no counterpart here; give the loss its other sign")
    rate, decay = float(group["lr"]), float(group.get("weight_decay", 0))
    if kind == "SGD":
        if group["dampening"]:
            raise ShardwrightError(f"SGD(dampening={group['dampening']}) has no counterpart here")
        if group["momentum"]:
            return optim.momentum(rate, float(group["momentum"]), bool(group["nesterov"]), decay)
        return optim.sgd(rate, decay)
    if kind in ("Adam", "AdamW"):
        if group["amsgrad"]:
            raise ShardwrightError(f"{kind}(amsgrad=True) has no counterpart here")
        made = optim.adamw if kind == "AdamW" or group.get("decoupled_weight_decay") else optim.adam
        return made(rate, float(group["betas"][0]), float(group["betas"][1]), float(group["eps"]), decay)
    if kind == "Adagrad":
        for key in ("lr_decay", "initial_accumulator_value"):
            if group[key]:
                raise ShardwrightError(f"Adagrad({key}={group[key]}) has no counterpart here")
        return optim.adagrad(rate, float(group["eps"]), decay)
    if kind == "SparseAdam":
        return optim.lazy_adam(rate, float(group["betas"][0]), float(group["betas"][1]), float(group["eps"]))
    raise ShardwrightError(f"torch.optim.{kind} has no counterpart here; there are SGD, Adam, AdamW, Adagrad, SparseAdam")


def check_tables(optimizer: Any, params: Mapping[str, Parameter]) -> None:
    """Raises: ShardwrightError if PyTorch would refuse a gradient that is no rows of a table."""
    if type(optimizer).__name__ != "SparseAdam":
        return
    for name, p in params.items():
        if not p.is_state and not p.is_sparse:
            raise ShardwrightError(f"SparseAdam: '{name}' is no weight of an embedding with sparse=True, and PyTorch's takes no "
                                   "other; shardwright.optim.lazy_adam trains both")


def _one_group(optimizer: torch.optim.Optimizer, module: torch.nn.Module) -> dict[str, Any]:
    """Raises: ShardwrightError if parameters are trained in different ways, or some are not trained."""
    groups = [{k: v for k, v in g.items() if k not in ("params", "initial_lr")} for g in optimizer.param_groups]
    for key in groups[0]:
        values = [g.get(key) for g in groups]
        if any(v != values[0] for v in values):
            raise ShardwrightError(f"{type(optimizer).__name__} has groups of parameters with {key}={values[0]} and "
                                   f"{next(v for v in values if v != values[0])}; all parameters are trained alike here")
    trained = {id(p) for g in optimizer.param_groups for p in g["params"]}
    for name, p in module.named_parameters():
        if p.requires_grad and id(p) not in trained:
            raise ShardwrightError(f"'{name}' is not among the optimizer's parameters; set its requires_grad to False")
    return groups[0]

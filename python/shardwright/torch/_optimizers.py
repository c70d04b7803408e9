"""Optimizers of PyTorch as ours."""

from __future__ import annotations

from typing import Any, Mapping

import torch

from .. import optim
from .._core import Parameter
from .._errors import ShardwrightError
from ..optim import Optimizer


def rates_of(optimizer: torch.optim.Optimizer) -> list[float]:
    """The learning rates of now, which schedulers change: one for each group of parameters."""
    return [float(group["lr"]) for group in optimizer.param_groups]


def optimizer_of(optimizer: Any, module: torch.nn.Module) -> tuple[Optimizer, dict[str, dict[str, Any]]]:
    """Ours, and by name what parameters of other groups than the first have instead of its settings, and which group that is.

    Raises: ShardwrightError that names what ours does not do.
    """
    if isinstance(optimizer, Optimizer):
        return optimizer, {}
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(f"optimizer: {optimizer!r} should be one of shardwright.optim or torch.optim")
    _check_all_are_trained(optimizer, module)
    kind = type(optimizer).__name__
    keeps = any(group.get("momentum") for group in optimizer.param_groups)
    made = [_made(kind, group, keeps) for group in optimizer.param_groups]
    if len({one.name for one in made}) > 1:
        raise ShardwrightError(f"{kind} has groups of parameters with and without decoupled_weight_decay, which are two optimizers here")
    first = made[0]
    of_group = [{"rate_group": i, **{k: v for k, v in one.settings.items() if k == "rate" or v != first.settings[k]}}
                for i, one in enumerate(made)]
    groups = {id(p): i for i, group in enumerate(optimizer.param_groups) for p in group["params"]}
    return first, {name: of_group[groups[id(p)]] for name, p in module.named_parameters() if groups.get(id(p), 0) > 0}


def _made(kind: str, group: dict[str, Any], keeps: bool) -> Optimizer:
    """keeps: some group has a momentum."""
    if group.get("maximize"):
        raise ShardwrightError(f"{kind}(maximize=True) has no counterpart here; give the loss its other sign")
    rate, decay = float(group["lr"]), float(group.get("weight_decay", 0))
    if kind == "SGD":
        if group["dampening"]:
            raise ShardwrightError(f"SGD(dampening={group['dampening']}) has no counterpart here")
        if keeps:
            return optim.momentum(rate, float(group["momentum"]), bool(group["nesterov"]), decay)
        return optim.sgd(rate, decay)
    if kind in ("Adam", "AdamW"):
        if group["amsgrad"]:
            raise ShardwrightError(f"{kind}(amsgrad=True) has no counterpart here")
        of_kind = optim.adamw if kind == "AdamW" or group.get("decoupled_weight_decay") else optim.adam
        return of_kind(rate, float(group["betas"][0]), float(group["betas"][1]), float(group["eps"]), decay)
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


def _check_all_are_trained(optimizer: torch.optim.Optimizer, module: torch.nn.Module) -> None:
    """Raises: ShardwrightError if some are not."""
    trained = {id(p) for g in optimizer.param_groups for p in g["params"]}
    for name, p in module.named_parameters():
        if p.requires_grad and id(p) not in trained:
            raise ShardwrightError(f"'{name}' is not among the optimizer's parameters; set its requires_grad to False")

"""Functional sharding: how values lie at the edge of a cell, function or operator."""

from __future__ import annotations

from typing import Callable

from shardwright import _core

from .. import _calls, _regions, context
from .._trace import current
from ..common.tensor import Tensor
from .layout import Layout


def shard(fn: Callable, in_strategy, out_strategy=None, parameter_plan=None, device: str = "Ascend",
          level: int = 0) -> Callable:
    """`fn` (a cell, a function, or an operator) whose inputs and results lie so; what is inside is found."""
    region = _regions.Region(in_strategy, out_strategy, parameter_plan)

    def sharded(*args, **kwargs):
        if not (current() and context.is_auto()):
            return fn(*args, **kwargs)
        cell = fn if hasattr(fn, "get_parameters") else None
        return region(fn, args, kwargs, _calls.name_of(getattr(fn, "__name__", type(fn).__name__)), cell)

    return sharded


def sync_pipeline_shared_parameters(net) -> None:
    """Parameters that several stages share are equal in all of them: programs hand them on. Raises: TypeError."""
    if not hasattr(net, "cells_and_names"):
        raise TypeError(f"sync_pipeline_shared_parameters takes a Cell, not {net!r}")


def reshard(tensor: Tensor, layout: Layout) -> Tensor:
    """The same tensor, lying as the layout says where it is used."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"reshard takes a tensor, not {tensor!r}")
    if not isinstance(layout, Layout):
        raise TypeError(f"reshard takes a Layout, not {layout!r}")
    if not (current() and context.is_auto()):
        return tensor
    return Tensor.of(_core.reshard(tensor.array, layout.split, _calls.name_of("reshard")))

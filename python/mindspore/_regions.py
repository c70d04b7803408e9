"""Parts of a function that the core treats as one: sharded, or computed again in the backward."""

from __future__ import annotations

from typing import Any, Callable

from shardwright import _core
from shardwright._tree import leaves, map_leaves

from . import _calls, context
from .common.tensor import Tensor


def _through(enter: Callable, function: Callable, args: tuple, kwargs: dict) -> Any:
    """`function(*args)`, where `enter(f, arrays)` sees its tensors as arrays and calls f with others for them."""
    tree = [list(args), kwargs]
    inputs = [leaf for _, leaf in leaves(tree) if isinstance(leaf, Tensor)]
    results: list = []

    def inner(*arrays):
        fresh = iter(Tensor.of(a) for a in arrays)
        own_args, own_kwargs = map_leaves(lambda _, leaf: next(fresh) if isinstance(leaf, Tensor) else leaf, tree)
        results.append(function(*own_args, **own_kwargs))
        return [leaf.array for _, leaf in leaves(results[0]) if isinstance(leaf, Tensor)]

    outputs = iter(enter(inner, [t.array for t in inputs]))
    return map_leaves(lambda _, leaf: Tensor.of(next(outputs)) if isinstance(leaf, Tensor) else leaf, results[0])


def recomputed(function: Callable, args: tuple, kwargs: dict, name: str, settings: dict) -> Any:
    """What is made inside is dropped behind the forward; settings: as Cell.recompute takes them."""
    def enter(inner, arrays):
        return _core.recomputed(inner, arrays, settings.get("mp_comm_recompute", True),
                                settings.get("recompute_slice_activation", False), name)

    return _through(enter, function, args, kwargs)


class Region:
    """How the tensors of a cell or function lie at its edge, and its parameters inside."""

    def __init__(self, in_strategy, out_strategy=None, parameter_plan: dict | None = None):
        if in_strategy is not None and not isinstance(in_strategy, tuple):
            raise TypeError(f"in_strategy is a tuple with an entry for each input, not {in_strategy!r}")
        self.in_strategy = in_strategy
        self.out_strategy = out_strategy
        self.parameters = {name.removeprefix("self."): split_of(how)
                           for name, how in (parameter_plan or {}).items()}

    def known_parameters(self, cell) -> dict:
        """The plan for parameters that the cell has; of others a line is told."""
        names = ["." + p.name for p in cell.get_parameters()]
        known = {p: how for p, how in self.parameters.items() if any(n.endswith("." + p) for n in names)}
        for name in self.parameters.keys() - known.keys():
            context.tell(f"mindspore: parameter_plan of {type(cell).__name__} has no effect on '{name}': it has "
                         + ", ".join(n[1:] for n in names))
        return known

    def __call__(self, function: Callable, args: tuple, kwargs: dict, name: str, cell=None) -> Any:
        plan = self.parameters if cell is None else self.known_parameters(cell)

        def enter(inner, arrays):
            return _core.sharded(inner, arrays, splits_of(self.in_strategy), splits_of(self.out_strategy),
                                 plan, name or _calls.name_of("sharded"))

        return _through(enter, function, args, kwargs)


def split_of(how):
    """As the core reads it: parts per dim, or a split over a device matrix."""
    return getattr(how, "split", how)


def splits_of(strategy):
    """The same of a strategy: a tuple with an entry for each tensor, or None."""
    return None if strategy is None else tuple(split_of(how) for how in strategy)

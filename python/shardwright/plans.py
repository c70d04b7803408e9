"""Plans for people: how a step is split over devices and what it takes."""

from __future__ import annotations

from typing import Any, Sequence

from . import _core
from .optim import Optimizer, sgd

__all__ = ["Plan", "Spec", "plan"]


class Spec:
    """Shape and type of an array that need not exist: what `plan` of a step may be asked about."""

    def __init__(self, shape: Sequence[int], dtype: str = "float32"):
        self.shape, self.dtype = tuple(shape), dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __repr__(self) -> str:
        return f"Spec({list(self.shape)}, '{self.dtype}')"


class Plan:
    """How a step is split over devices, and what it takes. In a notebook it shows itself as a table."""

    def __init__(self, planned: _core.PlannedStep):
        self._planned = planned
        self.json: str = planned.plan_json()
        """As `shardwright train --plan` takes it."""
        self.table: str = planned.explain()
        self.step_seconds: float = planned.step_seconds
        """Predicted for the cluster that it is for."""
        self.memory_bytes: int = planned.arena_bytes
        """Of the device that takes most."""
        self.memory: dict[str, int] = planned.memory
        """What the bytes are for, by kind."""
        self.collectives: dict[str, int] = planned.collectives
        """How many of each kind a step runs."""

    def save(self, path: str) -> None:
        """Writes the plan, or with a path that ends with .html a page for people. Raises: OSError if it cannot."""
        self._planned.save(path)

    def __repr__(self) -> str:
        return self.table

    def _repr_html_(self) -> str:
        return self._planned.html()


def plan(model: str, optimizer: Optimizer | None = None, *, devices: int | None = None,
         **options: Any) -> Plan:
    """How a named model (or a graph or ONNX file) would be trained; memory is taken for none of it.

    options: as those of `train_step`, with `cluster="h100:64"` and the like for machines that are elsewhere, which
    say how many devices there are. Of a function: `train_step(...).plan(*batch)`.
    """
    chosen = optimizer or sgd()
    return Plan(_core.PlannedStep(model, chosen.name, chosen.settings, chosen.clip_norm,
                                  options_text({"devices": devices, **options})))


def options_text(options: dict[str, Any]) -> dict[str, str]:
    """As the table of settings reads them. Raises: ShardwrightError if there is no such option, or a value is none."""
    out: dict[str, str] = {}
    for name, value in options.items():
        if value is not None:
            out[name] = ("1" if value else "0") if isinstance(value, bool) else str(value)
    _core.check_options(out)
    return out

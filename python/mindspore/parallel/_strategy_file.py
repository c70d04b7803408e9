"""Strategy files: how operators are split, and how parameters lie, as protobuf or JSON (`.json`).

The core reads and writes them (annotations/strategy_file.h says how they look); here is what checkpoints ask of one. A file of a
group, ParallelGroupMap = {2: {1: ranks}}, says which ranks have the same slices as the one that wrote it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Sequence

from shardwright import _core

from .. import _files, _protobuf
from ._placement import Placement

_states = {"moments", "moment1", "moment2", "accum", "stat", "adam_m", "adam_v", "mean_square", "mean_gradient"}


@dataclass
class Strategy:
    """Of one stage, or of all of them."""

    stage: int = 0
    operators: dict[str, tuple[int, list[list[int]]]] = field(default_factory=dict)  # the stage, and parts of inputs
    layouts: dict[str, dict[int, Placement]] = field(default_factory=dict)  # by parameter and stage
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)  # whole ones, where they are known
    inputs: dict[str, list[Placement]] = field(default_factory=dict)  # of operators

    def stages(self) -> list[int]:
        return sorted({stage for by_stage in self.layouts.values() for stage in by_stage})

    @cached_property
    def devices(self) -> list[int]:
        """Of each stage; of one that the file does not have as many as of its first."""
        counts: dict[int, set[int]] = {}
        for by_stage in self.layouts.values():
            for stage, placement in by_stage.items():
                counts.setdefault(stage, set()).add(placement.devices)
        for found in counts.values():
            if len(found) > 1:
                raise ValueError(f"device matrices of one stage have {' and '.join(map(str, sorted(found)))} devices")
        first = min(counts, default=0)
        return [next(iter(counts.get(s, counts[first]))) for s in range(max(counts, default=-1) + 1)]

    def first_rank(self, stage: int) -> int:
        return sum(self.devices[:stage])

    def stage_of(self, rank: int) -> int:
        """Raises: ValueError of a rank that there is not."""
        for stage in range(len(self.devices)):
            if 0 <= rank < self.first_rank(stage + 1):
                return stage
        raise ValueError(f"there is no rank {rank}: the strategy is for {sum(self.devices)} devices")

    def of(self, name: str) -> dict[int, Placement] | None:
        """How a parameter lies, by stage. A state that is not there lies as its parameter: `moments.NAME` as NAME."""
        found = self.layouts.get(name)
        kind, _, parameter = name.partition(".")
        return self.layouts.get(parameter) if found is None and kind in _states else found


# ---- reading and writing ----

def read(path) -> Strategy:
    """Raises: ValueError where there is no such file, or of what is none."""
    if not isinstance(path, (str, Path)):
        raise TypeError(f"a strategy file is named by a string, not by {path!r}")
    try:
        stage, operators, parameters = _core.read_strategies(str(path))
    except OSError:
        if Path(path).is_file():
            raise
        raise ValueError(f"there is no strategy file '{path}'") from None
    out = Strategy(stage, {name: (of_stage, parts) for name, of_stage, parts, _ in operators})
    try:
        out.inputs = {name: [_placement(layout) for layout in layouts] for name, _, _, layouts in operators if layouts}
        for name, of_stage, layout, shape in parameters:
            out.layouts.setdefault(name, {})[of_stage] = _placement(layout)
            if shape:
                out.shapes[name] = tuple(shape)
    except ValueError as error:  # of more devices than are cut up here
        raise ValueError(f"{path}: is no strategy file: {error}") from None
    return out


def _placement(layout: tuple) -> Placement:
    sizes, dims = layout
    return Placement(tuple(sizes), tuple(map(tuple, dims)))


def layouts_in(path) -> Strategy:
    """A file that says how parameters lie."""
    found = read(path)
    if not found.layouts:
        raise ValueError(f"the strategy file '{path}' has no parameters")
    return found


def write(path, strategy: Strategy) -> None:
    """Of several stages, in the names of parameters."""
    operators = [(name, stage, parts, [(p.mesh, p.map) for p in strategy.inputs.get(name, ())])
                 for name, (stage, parts) in strategy.operators.items()]
    parameters = [(name, stage, (p.mesh, p.map), strategy.shapes.get(name, ()))
                  for name, by_stage in strategy.layouts.items() for stage, p in by_stage.items()]
    _files.put(path, [_core.strategy_bytes((strategy.stage, operators, parameters), str(path).endswith(".json"))])


def full_json(path: str) -> str:
    """Raises: TypeError, ValueError of another path."""
    if not isinstance(path, str):
        raise TypeError(f"the path is a string, not {path!r}")
    if not path.startswith("/") or not path.endswith(".json"):
        raise ValueError(f"the path is the full path of a .json file, not '{path}'")
    return path


# ---- of groups, and of stages ----

def write_group(path, ranks: list[int]) -> None:
    """Ranks that have the same slices."""
    _files.put(path, [_protobuf.field(2, _protobuf.numbers(1, ranks))])


def read_group(path) -> list[int]:
    """Raises: ValueError where there is no such file, or of what is none."""
    if not isinstance(path, str):
        raise TypeError(f"a file of a group is named by a string, not by {path!r}")
    try:
        found = [rank for number, said in _protobuf.fields(Path(path).read_bytes()) if number == 2
                 for _, rank in _protobuf.fields(said)]
    except OSError:
        raise ValueError(f"there is no file of a group '{path}'") from None
    except ValueError as error:
        raise ValueError(f"'{path}' is no file of a group: {error}") from None
    if not found or not all(isinstance(rank, int) for rank in found):
        raise ValueError(f"'{path}' is no file of a group: it says no ranks")
    return found


def joined(strategies: Sequence[Strategy]) -> Strategy:
    """Files of stages as one; of two of one stage the first."""
    out = Strategy(1)
    seen: set[int] = set()
    for one in strategies:
        said = {stage for stage, _ in one.operators.values()}
        is_of_one = one.stages() in ([0], []) and len(said) <= 1
        stages = {min(said, default=one.stage)} if is_of_one else set(one.stages())
        if stages & seen:
            continue
        seen |= stages
        out.operators.update(one.operators)
        out.inputs.update(one.inputs)
        out.shapes.update(one.shapes)
        for name, by_stage in one.layouts.items():
            own = {next(iter(stages)): p for p in by_stage.values()} if is_of_one else by_stage
            out.layouts.setdefault(name, {}).update(own)
    if len(seen) == 1:  # its names say no stage
        out.stage = 0
    return out

"""Strategy files: how operators are split, and how parameters lie, as protobuf or JSON (`.json`).

ParallelStrategyMap = {1: stage, 2: {1: operator, 2: {1: stage, 2: {1: parts} per input}, 15: layout per input},
                       3: {1: parameter, 2: layout}}
layout = {1: {1: device matrix}, 2: {1: tensor map}, 3: slice shape, 4: offsets, 5: field, 6, 7: the optimizer's shards}

A file of a group, ParallelGroupMap = {2: {1: ranks}}, says which ranks have the same slices as the one that wrote it.

Where a dim is cut by several axes there is one tensor map for each dim. Parts do not tell which rank has which: field 15,
which is ours and others pass over, and parallel_layout_value_item of JSON, do. Files of several stages are joined into one
in which parameters are called `STAGE-NAME`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Callable, Iterator, Sequence

from .. import _files, _protobuf
from ._placement import Placement

_states = {"moments", "moment1", "moment2", "accum", "stat", "adam_m", "adam_v", "mean_square", "mean_gradient"}
_most_stages = 4096


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


# ---- reading ----

def read(path) -> Strategy:
    """Raises: ValueError where there is no such file, or of what is none."""
    if not isinstance(path, (str, Path)):
        raise TypeError(f"a strategy file is named by a string, not by {path!r}")
    try:
        data = Path(path).read_bytes()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        raise ValueError(f"there is no strategy file '{path}'") from None
    try:
        found = _of_json(data) if str(path).endswith(".json") else _of_protobuf(data)
        if not found.layouts and not found.operators:
            raise ValueError("it says nothing of operators or parameters")
        found.devices
    except (ValueError, RecursionError) as error:
        raise ValueError(f"'{path}' is no strategy file: {error}") from None
    return found


def layouts_in(path) -> Strategy:
    """A file that says how parameters lie."""
    found = read(path)
    if not found.layouts:
        raise ValueError(f"the strategy file '{path}' has no parameters")
    return found


_joined_name = re.compile(r"(\d{1,6})-(.+)", re.DOTALL)


def _add(to: Strategy, name: str, mesh, tensor_map, step: int, size: int) -> None:
    try:
        placement = Placement.of_map(mesh, tensor_map)
        if step and size and size != 1:
            placement = placement.with_optimizer(size)
    except ValueError as error:
        raise ValueError(f"parameter {name!r:.200}: {error}") from None
    joined = _joined_name.fullmatch(name)
    stage, name = (int(joined[1]), joined[2]) if joined else (0, name)
    to.layouts.setdefault(name, {})[_stage(stage)] = placement


def _stage(number) -> int:
    if type(number) is not int or not 0 <= number < _most_stages:
        raise ValueError(f"{str(number)[:60]} stands where a stage should be")
    return number


def _of_protobuf(data: bytes) -> Strategy:
    out = Strategy()
    for number, value in _protobuf.fields(data):
        if number == 1:
            out.stage = _stage(_protobuf.signed(value))
        elif number == 2:
            _add_operator(out, value)
        elif number == 3:
            name, message = _item(value)
            _add(out, name, *_layout_of(name, message))
    return out


def _item(value) -> tuple[str, memoryview]:
    fields = dict(_protobuf.fields(value))
    if not fields.keys() >= {1, 2}:
        raise ValueError("an entry has no name or nothing beside it")
    return _protobuf.text(fields[1]), fields[2]


def _add_operator(to: Strategy, item) -> None:
    name, message = _item(item)
    stage, splits = 0, []
    for number, value in _protobuf.fields(message):
        if number == 1:
            stage = _stage(_protobuf.signed(value))
        elif number == 2:
            splits.append(_list(value))
    to.operators[name] = stage, splits
    _add_inputs(to, name, [_layout_of(name, value)[:2] for number, value in _protobuf.fields(item) if number == 15])


def _add_inputs(to: Strategy, name: str, layouts: list) -> None:
    placed = [Placement.of_map(mesh, tensor_map) for mesh, tensor_map in layouts]
    if len({one.mesh for one in placed}) > 1:
        raise ValueError(f"operator {name!r:.200} has several device matrices")
    if placed:
        to.inputs[name] = placed


def _list(message) -> list[int]:
    return [n for number, value in _protobuf.fields(message) if number == 1 for n in _protobuf.repeated(value)]


def _layout_of(name: str, message) -> tuple:
    """Device matrix, tensor map, and step and size of the optimizer's shards."""
    mesh, maps, numbers = None, [], {5: 0, 6: 0, 7: 0}
    for number, part in _protobuf.fields(message):
        if number == 1:
            mesh = _list(part)
        elif number == 2:
            maps.append(_list(part))
        elif number in numbers:
            numbers[number] = _protobuf.signed(part)
    if mesh is None or not maps:
        raise ValueError(f"{name!r:.200} has no device matrix or tensor map")
    is_nested = len(maps) > 1
    if is_nested and not maps[-1]:
        maps.pop()  # it tells a nested map of one dim from one that is not nested
    return mesh, maps if is_nested else maps[0], numbers[6], numbers[7]


def _of_json(data: bytes) -> Strategy:
    said = json.loads(data)
    out = Strategy(_stage(_object(said).get("current_stage", 0)))
    for name, item in _object(said.get("parallel_strategy_item") or {}).items():
        splits = _object(item).get("parallel_strategy")
        if not _is_list_of(splits, lambda split: _is_list_of(split, lambda n: type(n) is int)):
            raise ValueError(f"operator {name!r:.200} has no parallel_strategy")
        out.operators[name] = _stage(item.get("stage", 0)), splits
    for name, item in _object(said.get("parallel_layout_value_item") or {}).items():
        _add_inputs(out, name, [_matrix_and_map(name, layout) for layout in _object(item).values()])
    for name, item in _object(said.get("parallel_layout_item") or {}).items():
        _add(out, name, *_matrix_and_map(name, item), _number(item.get("opt_weight_shard_step", 0)),
             _number(item.get("opt_weight_shard_size", 0)))
    return out


def _matrix_and_map(name: str, said) -> tuple[list, list]:
    mesh, tensor_map = _object(said).get("dev_matrix"), said.get("tensor_map")
    if not isinstance(mesh, list) or not isinstance(tensor_map, list):
        raise ValueError(f"{name!r:.200} has no dev_matrix or tensor_map")
    return mesh, tensor_map


def _is_list_of(value, is_one: Callable) -> bool:
    return isinstance(value, list) and all(map(is_one, value))


def _object(value) -> dict:
    if not isinstance(value, dict):
        raise ValueError(f"{str(value)[:60]} stands where an object should be")
    return value


def _number(value) -> int:
    if type(value) is not int:
        raise ValueError(f"{str(value)[:60]} stands where a whole number should be")
    return value


def full_json(path: str) -> str:
    """Raises: TypeError, ValueError of another path."""
    if not isinstance(path, str):
        raise TypeError(f"the path is a string, not {path!r}")
    if not path.startswith("/") or not path.endswith(".json"):
        raise ValueError(f"the path is the full path of a .json file, not '{path}'")
    return path


# ---- writing ----

def write(path, strategy: Strategy, is_joined: bool = False) -> None:
    """`is_joined`: of several stages, in the names of parameters."""
    if str(path).endswith(".json"):
        _files.put(path, [json.dumps(_json_of(strategy, is_joined), indent=1).encode()])
    else:
        _files.put(path, _protobuf_of(strategy, is_joined))


def _named(strategy: Strategy, is_joined: bool) -> Iterator[tuple[str, str, Placement]]:
    for name, by_stage in strategy.layouts.items():
        for stage, placement in by_stage.items():
            yield f"{stage}-{name}" if is_joined else name, name, placement


def _protobuf_of(strategy: Strategy, is_joined: bool) -> Iterator[bytes]:
    put, numbers = _protobuf.field, _protobuf.numbers
    yield put(1, strategy.stage)
    for name, (stage, splits) in strategy.operators.items():
        said = put(1, stage) + b"".join(put(2, numbers(1, split)) for split in splits)
        layouts = b"".join(put(15, _layout_bytes(p)) for p in strategy.inputs.get(name, ()))
        yield put(2, put(1, name.encode()) + put(2, said) + layouts)
    for shown, _, placement in _named(strategy, is_joined):
        yield put(3, put(1, shown.encode()) + put(2, _layout_bytes(placement)))


def _layout_bytes(placement: Placement) -> bytes:
    put, numbers = _protobuf.field, _protobuf.numbers
    maps = b"".join(put(2, numbers(1, one)) for one in _maps(placement.tensor_map))
    return put(1, numbers(1, placement.mesh)) + maps + put(3, b"") + put(4, b"") + put(5, 0) + put(6, 0) + put(7, 0)


def _maps(tensor_map: list) -> list[list[int]]:
    """One, or one for each dim, if a dim has several axes; an empty one more where that cannot be told from one."""
    if not any(isinstance(dim, list) for dim in tensor_map):
        return [tensor_map]
    maps = [dim if isinstance(dim, list) else [dim] for dim in tensor_map]
    return maps if len(maps) > 1 else [*maps, []]


def _json_of(strategy: Strategy, is_joined: bool) -> dict:
    operators = {name: {"stage": stage, "parallel_strategy": splits}
                 for name, (stage, splits) in strategy.operators.items()}
    layouts = {shown: {"dev_matrix": list(placement.mesh), "tensor_map": placement.tensor_map,
                       "tensor_shape": list(strategy.shapes.get(name, ())), "field": 0,
                       "opt_weight_shard_step": 0, "opt_weight_shard_size": 0}
               for shown, name, placement in _named(strategy, is_joined)}
    inputs = {name: {str(i): _value_item(p) for i, p in enumerate(placed)} for name, placed in strategy.inputs.items()}
    return {"current_stage": strategy.stage, "parallel_strategy_item": operators, "parallel_layout_item": layouts,
            "parallel_layout_value_item": inputs}


def _value_item(placement: Placement) -> dict:
    nested = [dim if isinstance(dim, list) else [dim] for dim in placement.tensor_map]
    return {"dev_matrix": list(placement.mesh), "tensor_map": nested, "interleaved_parallel": False,
            "alias_name": placement.names}


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
    return out

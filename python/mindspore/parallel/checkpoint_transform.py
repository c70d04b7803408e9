"""Checkpoints of slices under one strategy made into those under another: functions of files, without devices."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import Callable, Iterable, Mapping

import numpy

from .._missing import missing
from ..train import files
from ..train.files import Stored
from . import _strategy_file
from ._placement import Box, Placement, common, size_of, slices
from ._strategy_file import Strategy
from .function import sync_pipeline_shared_parameters  # noqa: F401  # it has this place there, too

Tensors = Mapping[str, Stored]


class Transform:
    """From slices that lie as `source` says to those of `target`; None is whole tensors on one rank."""

    def __init__(self, source: Strategy | None, target: Strategy | None):
        self.source, self.target = source, target

    @classmethod
    def of_files(cls, source, target) -> Transform:
        return cls(*(None if f is None else _strategy_file.layouts_in(f) for f in (source, target)))

    @property
    def target_count(self) -> int:
        return sum(self.target.devices) if self.target else 1

    def ranks_for(self, rank: int) -> list[int]:
        """Ranks whose files make that of `rank`. A name that the source does not have is in the first of them."""
        if self.source is None:
            return [0]
        needed: set[int] = set()
        known: dict[tuple, list[int]] = {}  # most parameters lie alike
        for name, by_stage in self.source.layouts.items():
            goal, stage = self._goal(name, rank), min(by_stage)
            if goal is not None:
                key = stage, by_stage[stage], goal
                if key not in known:
                    known[key] = self._ranks_of(name, *key)
                needed.update(known[key])
        return sorted(needed) or [0]

    def _ranks_of(self, name: str, stage: int, start: Placement, goal: Placement | None) -> list[int]:
        goal, device = goal
        goal = goal or Placement.whole(len(start.map))
        if len(goal.map) != len(start.map):
            raise ValueError(f"parameter '{name}' has {len(start.map)} dims in the one strategy and {len(goal.map)} in "
                             "the other")
        shape = [math.lcm(a, b) for a, b in zip(start.cuts, goal.cuts)]
        wanted, seen, out = goal.box(device, shape), set(), []
        for local in range(start.devices):
            box = start.box(local, shape)
            if box not in seen and common(box, wanted):
                out.append(self.source.first_rank(stage) + local)
            seen.add(box)
        return out

    def _goal(self, name: str, rank: int) -> tuple[Placement | None, int] | None:
        """How the name lies on a rank of the target, and the rank's number in its stage; nothing if it is elsewhere."""
        if self.target is None:
            return None, 0
        by_stage = self.target.of(name)
        if by_stage is None:
            return None, 0
        stage = self.target.stage_of(rank)
        return (by_stage[stage], rank - self.target.first_rank(stage)) if stage in by_stage else None

    def of_rank(self, rank: int, tensors: Mapping[int, Tensors]) -> dict[str, Stored]:
        """What `rank` has. `tensors`: by rank of the source. Raises: ValueError where some are missing."""
        self._check_stages(rank, tensors)
        names = dict.fromkeys(name for held in tensors.values() for name in held)
        out = {}
        for name in names:
            goal = self._goal(name, rank)
            if goal is not None:
                out[name] = self._piece(name, *goal, {r: held[name] for r, held in tensors.items() if name in held})
        return out

    def _check_stages(self, rank: int, tensors: Mapping[int, Tensors]) -> None:
        for name, by_stage in self.source.layouts.items() if self.source else ():
            stages = {self.source.stage_of(r) for r in tensors}
            if self._goal(name, rank) is not None and not stages & by_stage.keys():
                raise ValueError(f"parameter '{name}' is in stage {min(by_stage)}, of which there is no rank among "
                                 f"{', '.join(map(str, tensors))}")

    def _piece(self, name: str, goal: Placement | None, device: int, held: dict[int, Stored]) -> Stored:
        by_stage = self.source.of(name) if self.source else None
        if by_stage is None:
            return _cut(name, _same(name, held), goal, device)
        parts = []
        for stage, start in by_stage.items():
            first = self.source.first_rank(stage)
            parts += [(start, r - first, one) for r, one in held.items() if 0 <= r - first < start.devices]
            if parts:
                break
        return _joined(name, parts, goal, device)


def _same(name: str, held: dict[int, Stored]) -> Stored:
    """Of a name that is in no strategy, which is whole on all ranks."""
    first, *others = held.values()
    for other in others:
        if other.dtype is not first.dtype or other.bits.tobytes() != first.bits.tobytes():
            raise ValueError(f"'{name}' is not in the source strategy, but it is not the same on ranks "
                             f"{', '.join(map(str, held))}")
    return first


def _cut(name: str, whole: Stored, goal: Placement | None, device: int) -> Stored:
    if goal is None:
        return whole
    return _joined(name, [(Placement.whole(whole.bits.ndim), 0, whole)], goal, device)


def _joined(name: str, parts: list[tuple[Placement, int, Stored]], goal: Placement | None, device: int) -> Stored:
    """What a device has under `goal` (None: all of it), from what others have."""
    try:
        start, _, one = parts[0]
        shape = start.whole_shape(one.bits.shape)
        wanted = (goal or Placement.whole(len(shape))).box(device, shape)
        pieces: dict[Box, numpy.ndarray] = {}
        for start, local, part in parts:
            box = start.box(local, shape)
            both = common(box, wanted)
            if both is None or both in pieces:
                continue
            if part.bits.shape != one.bits.shape or part.dtype is not one.dtype:
                raise ValueError(f"slices are {one.dtype}{list(one.bits.shape)} and "
                                 f"{part.dtype}{list(part.bits.shape)}")
            pieces[both] = part.bits[slices(both, box)]
        if sum(map(size_of, pieces)) < size_of(wanted):
            raise ValueError("the files of some ranks that have parts of it are missing")
        out = numpy.empty([last - first for first, last in wanted], one.bits.dtype)
        for both, bits in pieces.items():
            out[slices(both, wanted)] = bits
    except ValueError as error:
        raise ValueError(f"parameter '{name}': {error}") from None
    return Stored(one.dtype, out)


# ---- of files ----

def merge_pipeline_strategys(src_strategy_dirs: str, dst_strategy_file: str) -> None:
    """The strategy files of all stages, one each in a folder, as one file. Raises: NotADirectoryError."""
    folder = Path(src_strategy_dirs)
    if not folder.is_dir():
        raise NotADirectoryError(f"src_strategy_dirs '{src_strategy_dirs}' is no folder")
    found = {end: sorted(folder.glob(f"*{end}"), key=_natural) for end in (".ckpt", ".json")}
    if found[".ckpt"] and found[".json"]:
        raise ValueError(f"'{folder}' has strategy files of both forms, .ckpt and .json; one is needed")
    paths = found[".ckpt"] or found[".json"]
    if not paths:
        raise ValueError(f"'{folder}' has no strategy files (*.ckpt or *.json)")
    all_of_them = _strategy_file.joined([_strategy_file.layouts_in(path) for path in paths])
    _strategy_file.write(dst_strategy_file, all_of_them)


def _natural(path: Path) -> list:
    """So that rank_10 is behind rank_9."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path.name)]


def rank_list_for_transform(rank_id: int, src_strategy_file: str | None = None,
                            dst_strategy_file: str | None = None) -> list[int]:
    """Ranks whose files are needed for that of `rank_id`."""
    _check_rank(rank_id)
    return Transform.of_files(src_strategy_file, dst_strategy_file).ranks_for(rank_id)


def _check_rank(rank_id) -> None:
    if not isinstance(rank_id, int) or isinstance(rank_id, bool):
        raise TypeError(f"rank_id is a whole number, not {rank_id!r}")


def transform_checkpoint_by_rank(rank_id: int, checkpoint_files_map: dict[int, str], save_checkpoint_file_name: str,
                                 src_strategy_file: str | None = None, dst_strategy_file: str | None = None) -> None:
    """Writes the file of one rank from those of others, `{rank: file}`."""
    _check_rank(rank_id)
    if not isinstance(checkpoint_files_map, dict):
        raise TypeError(f"checkpoint_files_map is a dict of files by rank, not {checkpoint_files_map!r}")
    if not isinstance(save_checkpoint_file_name, str):
        raise TypeError(f"save_checkpoint_file_name is a string, not {save_checkpoint_file_name!r}")
    if not save_checkpoint_file_name.endswith((".ckpt", ".safetensors")):
        raise ValueError(f"save_checkpoint_file_name '{save_checkpoint_file_name}' ends with .ckpt or .safetensors")
    change = Transform.of_files(src_strategy_file, dst_strategy_file)
    needed = change.ranks_for(rank_id)
    for rank in checkpoint_files_map:
        _check_rank(rank)
    tensors = {rank: files.read(path) for rank, path in sorted(checkpoint_files_map.items())}
    if not tensors:
        raise ValueError(f"the checkpoints of ranks {', '.join(map(str, needed))} are needed for rank {rank_id}")
    files.write(save_checkpoint_file_name, change.of_rank(rank_id, tensors))


def transform_checkpoints(src_checkpoints_dir: str | None = None, dst_checkpoints_dir: str | None = None,
                          ckpt_prefix: str | None = None, src_strategy_file: str | None = None,
                          dst_strategy_file: str | None = None, process_num: int = 1,
                          output_format: str = "ckpt") -> None:
    """Of `DIR/rank_R/*.ckpt` (the last of them in the order of their names) makes `DIR/rank_R/PREFIXR.ckpt`."""
    if not isinstance(src_checkpoints_dir, str) or not os.path.isdir(src_checkpoints_dir):
        raise NotADirectoryError(f"src_checkpoints_dir {src_checkpoints_dir!r} is no folder")
    if not isinstance(ckpt_prefix, str) or not isinstance(dst_checkpoints_dir, str):
        raise TypeError(f"dst_checkpoints_dir and ckpt_prefix are strings, not {dst_checkpoints_dir!r} and "
                        f"{ckpt_prefix!r}")
    files.check_format(output_format)
    change = Transform.of_files(src_strategy_file, dst_strategy_file)
    found = checkpoints_in(src_checkpoints_dir, "*.ckpt", "*.safetensors")
    needed = {rank: change.ranks_for(rank) for rank in range(change.target_count)}
    for rank, sources in needed.items():
        for source in sources:
            if source not in found:
                raise ValueError(f"the checkpoint of rank {source} is needed for rank {rank}, but there is no "
                                 f"'{src_checkpoints_dir}/rank_{source}/*.ckpt'")
    for rank, tensors in _loaded(needed, lambda source: files.read(found[source])):
        path = os.path.join(dst_checkpoints_dir, f"rank_{rank}", f"{ckpt_prefix}{rank}.{output_format}")
        files.write(path, change.of_rank(rank, tensors))


def convert_checkpoints(src_checkpoints_dir: str, dst_checkpoints_dir: str, ckpt_prefix: str,
                        src_strategy_file: str | None = None, dst_strategy_file: str | None = None,
                        process_num: int = 1, output_format: str = "safetensors") -> None:
    """The newer name, of another format."""
    transform_checkpoints(src_checkpoints_dir, dst_checkpoints_dir, ckpt_prefix, src_strategy_file, dst_strategy_file,
                          process_num, output_format)


rank_list_for_convert, convert_checkpoint_by_rank = rank_list_for_transform, transform_checkpoint_by_rank


def checkpoints_in(folder: str, *patterns: str) -> dict[int, Path]:
    """The last file of each `rank_R` in a folder."""
    out = {}
    for path in Path(folder).glob("rank_*"):
        if path.name.removeprefix("rank_").isdecimal():
            last = max((p for pattern in patterns for p in path.glob(pattern)), default=None)
            if last:
                out[int(path.name.removeprefix("rank_"))] = last
    return out


def _loaded(needed: dict[int, list[int]], read: Callable[[int], Tensors]) -> Iterable[tuple[int, dict[int, Tensors]]]:
    """For each rank the tensors of those that it needs; each is read once and dropped behind its last use."""
    last_use = {source: rank for rank, sources in needed.items() for source in sources}
    held: dict[int, Tensors] = {}
    for rank, sources in needed.items():
        for source in sources:
            if source not in held:
                held[source] = read(source)
        yield rank, {source: held[source] for source in sources}
        for source in [s for s in held if last_use[s] == rank]:
            del held[source]


__getattr__ = missing("mindspore.parallel.checkpoint_transform", globals())

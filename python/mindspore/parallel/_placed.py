"""Programs and what they keep: how parameters lie in them, and what this rank has of each.

Of programs that keep one parameter that which trains it counts, else the newest: its slices are those of checkpoints,
and its strategy file says how they lie.
"""

from __future__ import annotations

import os
import re
import weakref
from typing import Any, Iterable, Iterator

from shardwright import _core

from .. import context
from . import _strategy_file
from ._placement import Placement
from ._strategy_file import Strategy

_of_optimizers = re.compile(r"(optimizer\d*|lars)\.(rate|step|decay)")  # settings and counts, which checkpoints have otherwise


class Placed:
    """A program. `shown`: names of what it keeps, as checkpoints have them, by its own."""

    def __init__(self, program, optimizers: Iterable[Any]):
        self._program = weakref.ref(program)
        self.trains = False
        leaves = program.leaves
        states = {}
        for optimizer in optimizers:
            self.trains = True
            states.update({id(t.data_now()): name for name, t in optimizer.states().items()})
        self.shown = {name: states.get(id(leaf), name) for name, leaf in leaves.items()}
        self.states = {name for name, leaf in leaves.items() if id(leaf) in states}
        self.own_names = {id(leaf): name for name, leaf in leaves.items()}
        self._leaves = list(leaves.values())  # as long as they are here nothing else has their ids
        self.layouts = {name: said for name, said in program.layouts().items()
                        if name in leaves and not _of_optimizers.match(name)}
        self.stages = context.get_auto_parallel_context("pipeline_stages")

    @property
    def program(self):
        return self._program()

    def stage_of(self, said: dict) -> int:
        return said["first_rank"] * self.stages // max(1, context.device_count())

    def own_shape(self, said: dict) -> list[int] | None:
        """What this rank has of it; nothing if it is of another stage. One process that stands for all has all."""
        if not context.is_rank_view():
            return said["shape"]
        place = _core.own_rank() - said["first_rank"]
        return said["boxes"][place][1] if 0 <= place < len(said["boxes"]) else None

    def ranks_with_the_same(self) -> list[int]:
        """This rank, and those that have just its slices of everything."""
        def boxes(rank: int) -> list:
            return [said["boxes"][rank - said["first_rank"]] if 0 <= rank - said["first_rank"] < len(said["boxes"]) else None
                    for said in self.layouts.values()]

        own = boxes(_core.own_rank())
        return [rank for rank in range(context.device_count()) if boxes(rank) == own]

    def layout_lists(self) -> dict[str, list]:
        """{parameter: [device matrix, tensor map, slice shape, field, uniform split, optimizer group]}."""
        out = {}
        for name, said in self.layouts.items():
            if self.own_shape(said) is not None:
                placement = _placement(name, said)
                out[self.shown[name]] = [list(placement.mesh), placement.tensor_map,
                                         list(placement.slice_shape(said["shape"])), 0, True, ""]
        return out

    def strategy(self, is_of_all: bool, only_trained: bool) -> Strategy:
        """Of all stages, or of this rank's."""
        own = None if is_of_all else _core.own_rank() * self.stages // context.device_count()
        out = Strategy(own or 0)
        for name, said in self.program.operators().items():
            stage = said["stage"] % self.stages
            if said["in"] and own in (None, stage):
                mesh = tuple(said["mesh"])
                out.inputs[name] = [Placement(mesh, tuple(tuple(dim) for dim in one)) for one in said["in"]]
                out.operators[name] = stage, [list(placement.cuts) for placement in out.inputs[name]]
        for name, said in self.layouts.items():
            stage, shown = self.stage_of(said), self.shown[name]
            if own in (None, stage) and not (only_trained and name in self.states):
                out.layouts[shown] = {stage if is_of_all else 0: _placement(name, said)}
                out.shapes[shown] = tuple(said["shape"])
        return out


def _placement(name: str, said: dict) -> Placement:
    placement = Placement(tuple(said["mesh"]), tuple(tuple(dim) for dim in said["map"]))
    for rank, (offset, extent) in enumerate(said["boxes"]):
        if placement.box(rank, said["shape"]) != tuple((o, o + e) for o, e in zip(offset, extent)):
            raise ValueError(f"parameter '{name}' of shape {said['shape']} lies in parts that no strategy file can say")
    return placement


_all: list[Placed] = []  # the newest first
_written_by_training: set[str] = set()


def add(program, tracing) -> None:
    """A program that has been compiled; its strategy file is written, if the context names one."""
    if not context.is_auto():
        return
    _all[:] = [p for p in _all if p.program is not None]
    placed = Placed(program, (getattr(update, "optimizer", update) for update in tracing.updates))
    if placed.layouts:
        _all.insert(0, placed)
        _write(placed)


def find(leaf) -> Placed | None:
    """The program whose slices of a parameter count."""
    holding = [p for p in _all if p.program is not None and id(leaf) in p.own_names]
    return next((p for p in holding if p.trains), holding[0] if holding else None)


def of_program(program) -> Placed | None:
    return next((p for p in _all if p.program is program), None)


# ---- strategy files that the context names ----

def file_said(which: str) -> str:
    """That which the context loads, or saves; empty if there is none."""
    config = context.get_auto_parallel_context("strategy_ckpt_config") or {}
    return config.get(f"{which}_file") or context.get_auto_parallel_context(f"strategy_ckpt_{which}_file")


def _write(placed: Placed) -> None:
    config = context.get_auto_parallel_context("strategy_ckpt_config") or {}
    for path in _to_be_written(placed, file_said("save"), context.get_auto_parallel_context("op_strategy_save_file")):
        _strategy_file.write(path, placed.strategy(not context.is_rank_view(), config.get("only_trainable_params", False)))
    for path in _to_be_written(placed, context.get_auto_parallel_context("group_ckpt_save_file")
                               or os.environ.get("GROUP_INFO_FILE")):
        _strategy_file.write_group(path, placed.ranks_with_the_same())


def _to_be_written(placed: Placed, *paths: str | None) -> Iterator[str]:
    """Of files that are named, those that a program that trains has not written before one that does not."""
    for path in map(os.path.abspath, filter(None, paths)):
        if path in _written_by_training and not placed.trains:
            continue
        if placed.trains:
            _written_by_training.add(path)
        yield path


def loaded_splits(tracing) -> dict[str, dict]:
    """What the strategy files that the context loads say of the operators of a trace, as annotations.

    An operator whose inputs have other numbers of dims than those of the file is left as it is.
    """
    out = {}
    for path in filter(None, (file_said("load"), context.get_auto_parallel_context("op_strategy_load_file"))):
        known = _strategy_file.read(path)
        theirs = known.operators.keys() | known.inputs.keys()
        if theirs and tracing.core.operators and theirs.isdisjoint(tracing.core.operators):
            context.tell(f"mindspore: '{path}' says how '{min(theirs)}' and others are split, of which this program has none")
        for name in tracing.core.operators:
            splits = known.operators.get(name, (0, []))[1]
            if splits and [len(split) for split in splits] != tracing.dims.get(name, [len(split) for split in splits]):
                context.tell(f"mindspore: '{path}' says how '{name}' is split for inputs of other dims; it is not heeded")
            elif name in known.inputs:
                out[name] = _by_axes(known.inputs[name])
            elif splits:
                out[name] = {"in": splits}
    return out


def _by_axes(inputs: list[Placement]) -> dict:
    names = inputs[0].names
    return {"in": [[[names[a] for a in dim] or "None" for dim in one.map] for one in inputs],
            "device_matrix": list(inputs[0].mesh), "names": names}


# ---- slices ----

def own_part(leaf):
    """What this rank has of a parameter, under the program that counts: an array; nothing if it is of another stage."""
    placed = find(leaf)
    if placed is None or not context.is_rank_view():
        return leaf.own()[0]
    placed.program.refresh()
    own = placed.program.own(placed.own_names[id(leaf)])
    return own[0] if own is not None else None


def take(leaf, value, name: str) -> None:
    """Sets a parameter to all of it, or to this rank's part. Raises: RuntimeError of another shape."""
    shape = list(value.shape)
    if shape == list(leaf.shape):
        leaf.set(value)
        return
    placed = find(leaf)
    own = placed and placed.own_shape(placed.layouts[placed.own_names[id(leaf)]])
    if not own or shape != own:
        part = f", of which this rank has {tuple(own)}" if own and own != list(leaf.shape) else ""
        how = "" if placed else "; slices are taken once the network is compiled: infer_train_layout, build"
        raise RuntimeError(f"parameter '{name}' has shape {tuple(leaf.shape)}{part}, but {tuple(shape)} in the "
                           f"checkpoint{how}")
    placed.program.set_own(placed.own_names[id(leaf)], value)


def others_have_taken(leaves: Iterable) -> None:
    """Ranks of other stages have set theirs, which these programs are told here, too."""
    for placed in {id(p): p for p in map(find, leaves) if p}.values():
        for name, said in placed.layouts.items():
            if placed.own_shape(said) is None:
                placed.program.set_own(name, _core.Tensor(0.0))

"""Checkpoints of many ranks as one: files of slices, of parts of a network, and of other formats."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, Callable

from shardwright import _core

from .. import _files, context
from .._missing import missing
from ..common.parameter import Parameter
from ..nn.cell import Cell
from ..parallel import _placed, _strategy_file
from ..parallel._placement import Placement
from ..parallel._strategy_file import Strategy
from ..parallel.checkpoint_transform import Transform, checkpoints_in
from . import files
from .checkpoints import load_checkpoint, load_param_into_net, parameter_of
from .files import Stored

_longest_part = 2 << 30  # bytes of a file of whole tensors


# ---- of all ranks ----

def build_searched_strategy(strategy_filename: str) -> dict[str, Placement]:
    """How parameters lie, by name, as the file says. Of several stages those of the first that has one."""
    layouts = _strategy_file.layouts_in(strategy_filename).layouts
    return {name: by_stage[min(by_stage)] for name, by_stage in layouts.items()}


def restore_group_info_list(group_info_file_name: str) -> list[int]:
    """Ranks whose checkpoints have what that of the rank has which wrote the file (`group_ckpt_save_file`)."""
    return _strategy_file.read_group(group_info_file_name)


def _strategy_of(said, what: str) -> Strategy | None:
    """A file, or {parameter: [device matrix, tensor map, ...]}; None is whole tensors."""
    if said is None or isinstance(said, (str, Path)):
        return None if said is None else _strategy_file.layouts_in(said)
    if not isinstance(said, dict):
        raise TypeError(f"{what} is a dict of layouts or a strategy file, not {said!r}")
    return Strategy(layouts={name: {0: _placement_of(name, layout)} for name, layout in said.items()}) if said else None


def _placement_of(name: str, layout) -> Placement:
    if isinstance(layout, Placement):
        return layout
    if not isinstance(layout, (list, tuple)) or len(layout) < 2:
        raise ValueError(f"the layout of '{name}' is [device matrix, tensor map, ...], not {layout!r}")
    return Placement.of_map(layout[0], layout[1])


def load_distributed_checkpoint(network: Cell, checkpoint_filenames: list[str] | None = None, predict_strategy=None,
                                train_strategy_filename: str | None = None, strict_load: bool = False, dec_key=None,
                                dec_mode: str = "AES-GCM", format: str = "ckpt",
                                unified_safetensors_dir: str | None = None, dst_safetensors_dir: str | None = None,
                                rank_id: int | None = None, output_format: str = "safetensors",
                                name_map: dict | None = None, max_process_num: int = 64,
                                return_param_dict: bool = False) -> dict[str, Parameter] | None:
    """Makes slices of all ranks (`checkpoint_filenames`, in the order of ranks, that lie as `train_strategy_filename`
    says) into those of this rank as `predict_strategy` says, and the network takes them. None is whole tensors."""
    if dec_key is not None:
        raise ValueError("encrypted checkpoints (enc_key, dec_key) are not in this front end")
    if dst_safetensors_dir is not None:
        raise ValueError("dst_safetensors_dir is not in this front end; transform_checkpoints writes files")
    if not isinstance(network, Cell):
        raise TypeError(f"load_distributed_checkpoint takes a Cell, not {network!r}")
    files.check_format(format)
    is_cut = context.is_rank_view() or rank_id is not None
    target = _strategy_of(predict_strategy, "predict_strategy") if is_cut else None
    rank = _core.own_rank() if rank_id is None else rank_id
    rank = rank % sum(target.devices) if target else 0
    wanted = set(network.parameters_dict())
    if unified_safetensors_dir is not None:
        found = Transform(None, target).of_rank(rank, {0: _unified(unified_safetensors_dir, wanted, name_map)})
    else:
        found = _of_ranks(checkpoint_filenames, train_strategy_filename, target, rank, format, wanted)
    parameters = {name: parameter_of(name, tensor) for name, tensor in found.items()}
    load_param_into_net(network, parameters, strict_load)
    return parameters if return_param_dict else None


def _of_ranks(paths, strategy_file, target: Strategy | None, rank: int, format: str,
              wanted: set[str]) -> dict[str, Stored]:
    if not isinstance(paths, (list, tuple)) or not paths:
        raise ValueError(f"checkpoint_filenames is a list of files in the order of ranks, not {paths!r}")
    strategy_file = strategy_file or _placed.file_said("load")
    if not strategy_file:
        raise ValueError("train_strategy_filename, or strategy_ckpt_load_file in the context, names the strategy file of "
                         "training")
    source = _strategy_file.layouts_in(strategy_file)
    if sum(source.devices) != len(paths):
        raise ValueError(f"checkpoint_filenames has {len(paths)} files, but '{strategy_file}' is for "
                         f"{sum(source.devices)} ranks")
    source.layouts = {name: by_stage for name, by_stage in source.layouts.items() if name in wanted}
    change = Transform(source, target)
    tensors = {r: {name: t for name, t in files.read(paths[r], format).items() if name in wanted}
               for r in change.ranks_for(rank)}
    return change.of_rank(rank, tensors)


def merge_sliced_parameter(sliced_parameters: list[Parameter], strategy: dict[str, Any] | None = None) -> Parameter:
    """A parameter from the slices of ranks, in their order: as build_searched_strategy says, or along dim 0."""
    if not isinstance(sliced_parameters, (list, tuple)) or not sliced_parameters:
        raise TypeError("sliced_parameters is a list of parameters, one for each rank")
    for one in sliced_parameters:
        if not isinstance(one, Parameter):
            raise TypeError(f"sliced_parameters holds parameters, not {one!r}")
    first = sliced_parameters[0]
    if any(one.name != first.name for one in sliced_parameters):
        names = sorted({p.name for p in sliced_parameters})
        raise RuntimeError(f"slices are of several parameters: {', '.join(names)}")
    if strategy is None:
        placement = Placement((len(sliced_parameters),), ((0,), *((),) * (first.ndim - 1)))
    elif not isinstance(strategy, dict):
        raise TypeError(f"strategy is a dict, as build_searched_strategy returns it, not {strategy!r}")
    elif first.name not in strategy:
        raise KeyError(f"parameter '{first.name}' is not in the strategy")
    else:
        placement = _placement_of(first.name, strategy[first.name])
    if placement.devices != len(sliced_parameters):
        raise ValueError(f"parameter '{first.name}' lies on {placement.devices} ranks, but there are "
                         f"{len(sliced_parameters)} slices")
    source = Strategy(layouts={first.name: {0: placement}})
    slices = {rank: {first.name: files.stored(p.data_now())} for rank, p in enumerate(sliced_parameters)}
    whole = Transform(source, None).of_rank(0, slices)[first.name]
    return Parameter(files.tensor_of(whole), first.name, first.requires_grad, first.layerwise_parallel)


# ---- of parts ----

def load_segmented_checkpoints(ckpt_file_dir: str, net: Cell | None = None, strict_load: bool = False,
                               filter_prefix=None, dec_key=None, dec_mode: str = "AES-GCM", specify_prefix=None,
                               choice_func=None) -> dict[str, Parameter]:
    """All `.ckpt` files of a folder together, each with a part of the parameters."""
    if not isinstance(ckpt_file_dir, str) or not os.path.isdir(ckpt_file_dir):
        raise ValueError(f"ckpt_file_dir {ckpt_file_dir!r} is no folder")
    found: dict[str, Parameter] = {}
    for path in sorted(Path(ckpt_file_dir).glob("*.ckpt")):
        found.update(load_checkpoint(str(path), None, strict_load, filter_prefix, dec_key, dec_mode, specify_prefix,
                                     choice_func))
    if not found:
        raise ValueError(f"'{ckpt_file_dir}' has no checkpoints (*.ckpt)")
    if net is not None:
        load_param_into_net(net, found, strict_load)
    return found


def unified_safetensors(src_dir: str, src_strategy_file: str | None, dst_dir: str, merge_with_redundancy: bool = True,
                        file_suffix: str | None = None, max_process_num: int = 64,
                        choice_func: Callable | None = None) -> None:
    """Files of ranks (`SRC/rank_R/*SUFFIX.safetensors`) as whole tensors: `DST/partN.safetensors`, and in
    `param_name_map.json` which file has which."""
    found = checkpoints_in(src_dir, f"*{file_suffix or ''}.safetensors")
    change = Transform.of_files(src_strategy_file, None)
    needed = change.ranks_for(0)
    for rank in needed:
        if rank not in found:
            raise ValueError(f"the checkpoint of rank {rank} is needed, but there is no "
                             f"'{src_dir}/rank_{rank}/*.safetensors'")
    whole = change.of_rank(0, {rank: files.read(found[rank]) for rank in needed})
    parts: list[dict[str, Stored]] = [{}]
    for name, tensor in whole.items():
        shown = choice_func(name) if choice_func else name
        if not isinstance(shown, (str, bool)) or shown is False:
            continue
        if parts[-1] and sum(t.bits.nbytes for t in parts[-1].values()) + tensor.bits.nbytes > _longest_part:
            parts.append({})
        parts[-1][shown if isinstance(shown, str) else name] = tensor
    where = {}
    for number, part in enumerate(parts):
        files.write(Path(dst_dir) / f"part{number}.safetensors", part)
        where.update(dict.fromkeys(part, f"part{number}.safetensors"))
    _files.put(Path(dst_dir) / "param_name_map.json", [json.dumps(where, indent=1).encode()])


def _unified(folder: str, wanted: set[str], name_map: dict | None) -> dict[str, Stored]:
    """What unified_safetensors has written, of the names that are wanted. name_map: the network's by the file's."""
    path = Path(folder) / "param_name_map.json"
    try:
        where = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise ValueError(f"there is no '{path}': unified_safetensors writes it") from None
    except ValueError as error:
        raise ValueError(f"'{path}' is no map of names: {error}") from None
    if not isinstance(where, dict) or not all(isinstance(f, str) and f == os.path.basename(f) for f in where.values()):
        raise ValueError(f"'{path}' is no map of names to files beside it")
    shown = {name: (name_map or {}).get(name, name) for name in where}
    read = {f: files.read(path.parent / f) for f in dict.fromkeys(where[n] for n in where if shown[n] in wanted)}
    return {shown[n]: read[f][n] for n, f in where.items() if shown[n] in wanted and n in read[f]}


def set_op_strategy_config(mode: str = "SAVE", path: str = "") -> None:
    """Where it is written how operators are split (SAVE), or said (LOAD): the full path of a `.json`."""
    if mode not in ("SAVE", "LOAD"):
        raise KeyError(f"mode is SAVE or LOAD, not {mode!r}")
    context.set_auto_parallel_context(**{f"op_strategy_{mode.lower()}_file": _strategy_file.full_json(path)})


# ---- of the other format ----

def ckpt_to_safetensors(file_path: str, save_path: str | None = None, name_map: dict[str, str] | None = None,
                        file_name_regex: str | None = None, processes_num: int = 1, convert_redundancy=None) -> None:
    """A file, or all of a folder with its `rank_R`, as safetensors beside them or under `save_path`."""
    _convert(file_path, save_path, name_map, file_name_regex, "ckpt", "safetensors")


def safetensors_to_ckpt(file_path: str, save_path: str | None = None, name_map: dict[str, str] | None = None,
                        file_name_regex: str | None = None, processes_num: int = 1, convert_redundancy=None) -> None:
    """The other way round."""
    _convert(file_path, save_path, name_map, file_name_regex, "safetensors", "ckpt")


def _convert(file_path: str, save_path: str | None, name_map: dict | None, regex: str | None, of: str, to: str) -> None:
    root = Path(file_path)
    if root.is_dir():
        paths = sorted(p for p in root.rglob(f"*.{of}") if not regex or re.search(regex, p.name))
    else:
        paths, root = [root], root.parent
        if root.suffix == f".{to}" or not str(file_path).endswith(f".{of}"):
            raise ValueError(f"'{file_path}' is no .{of} file and no folder")
    if not paths:
        raise ValueError(f"'{file_path}' has no .{of} files")
    for path in paths:
        goal = (Path(save_path) / path.relative_to(root) if save_path else path).with_suffix(f".{to}")
        files.write(goal, {(name_map or {}).get(name, name): t for name, t in files.read(path, of).items()}, to)


__getattr__ = missing("mindspore.train.distributed", globals())

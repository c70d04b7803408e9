"""Checkpoints: named tensors in files, and networks that take them."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from .. import context
from .._missing import missing, near
from ..common.parameter import Parameter
from ..common.tensor import Tensor
from ..nn.cell import Cell
from ..nn.optim.optimizer import Optimizer
from . import files

_formats = {"ckpt": (files.ckpt_bytes, files.read_ckpt),
            "safetensors": (files.safetensors_bytes, files.read_safetensors)}


def _format(name: str):
    if name not in _formats:
        raise ValueError(f"format '{name}' is unknown{near(name, _formats)}; there are {', '.join(_formats)}")
    return _formats[name]


def optimizers_of(net: Cell) -> list[Optimizer]:
    return [cell for _, cell in net.cells_and_names() if isinstance(cell, Optimizer)]


def _tensors_of(save_obj) -> dict[str, Tensor]:
    if isinstance(save_obj, Cell):
        found: dict[str, Tensor] = dict(save_obj.parameters_and_names())
        for optimizer in optimizers_of(save_obj):
            found.update(optimizer.states())
        return found
    if isinstance(save_obj, dict):
        return dict(save_obj)
    if isinstance(save_obj, list):
        return {said["name"]: said["data"] for said in save_obj}
    raise TypeError(f"a checkpoint is of a Cell, a list of {{name, data}} or a dict, not of {save_obj!r}")


def save_checkpoint(save_obj, ckpt_file_name: str, integrated_save: bool = True, async_save: bool = False,
                    append_dict: dict | None = None, enc_key=None, enc_mode: str = "AES-GCM", choice_func=None,
                    format: str = "ckpt", **settings) -> None:
    """Whole tensors, with `append_dict`'s numbers beside them. The file is there whole or not at all, and read-only."""
    if enc_key is not None:
        raise ValueError("encrypted checkpoints are not in this front end")
    if not integrated_save:
        context.tell("integrated_save=False: whole tensors are saved; this front end has no files of slices")
    write, _ = _format(format)
    tensors = {n: t for n, t in _tensors_of(save_obj).items() if choice_func is None or choice_func(n)}
    for name, value in (append_dict or {}).items():
        tensors[name] = value if isinstance(value, Tensor) else Tensor(value)
    path = Path(ckpt_file_name if ckpt_file_name.endswith(f".{format}") else f"{ckpt_file_name}.{format}")
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with open(beside, "wb") as file:
        for part in write({n: t if isinstance(t, Tensor) else Tensor(t) for n, t in tensors.items()}):
            file.write(part)
    os.chmod(beside, stat.S_IRUSR)
    os.replace(beside, path)


def load_checkpoint(ckpt_file_name: str, net: Cell | None = None, strict_load: bool = False, filter_prefix=None,
                    dec_key=None, dec_mode: str = "AES-GCM", specify_prefix=None, choice_func=None,
                    format: str = "ckpt", **settings) -> dict[str, Parameter]:
    """Parameters by name; `net` takes them, too. Raises: ValueError of what is no such file."""
    _, read = _format(format)
    path = Path(ckpt_file_name)
    if not path.exists():
        raise ValueError(f"there is no checkpoint '{ckpt_file_name}'")
    try:
        tensors = read(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"'{ckpt_file_name}' is no {format} file: {error}") from None
    skipped = (filter_prefix,) if isinstance(filter_prefix, str) else tuple(filter_prefix or ())
    found = {name: Parameter(tensor, name=name) for name, tensor in tensors.items()
             if not name.startswith(skipped or ("\0",)) and (choice_func is None or choice_func(name))}
    if not found:
        raise ValueError(f"'{ckpt_file_name}' holds nothing that is asked for")
    if net is not None:
        load_param_into_net(net, found, strict_load)
    return found


def load_param_into_net(net: Cell, parameter_dict: dict[str, Any], strict_load: bool = False,
                        remove_redundancy: bool = False) -> tuple[list[str], list[str]]:
    """Sets parameters, and states of optimizers inside. Returns names that were not in the dict, and not in the net.

    Raises: TypeError of what is no cell and no dict, RuntimeError of another shape or type.
    """
    if not isinstance(net, Cell) or not isinstance(parameter_dict, dict):
        raise TypeError("load_param_into_net takes a Cell and a dict of parameters")
    own = dict(net.parameters_and_names())
    left = dict(parameter_dict)
    not_loaded = []
    for name, parameter in own.items():
        value = left.pop(name, None)
        if value is None:
            not_loaded.append(name)
            continue
        if tuple(value.shape) != tuple(parameter.shape):
            raise RuntimeError(f"parameter '{name}' has shape {tuple(parameter.shape)}, but {tuple(value.shape)} in "
                               "the checkpoint")
        if value.dtype is not parameter.dtype and strict_load:
            raise RuntimeError(f"parameter '{name}' is {parameter.dtype}, but {value.dtype} in the checkpoint")
        parameter.set_data(Tensor.of(value.data_now()).astype(parameter.dtype))
    for optimizer in optimizers_of(net):
        for name in optimizer.load_states(left):
            del left[name]
    if not_loaded:
        context.tell(f"mindspore: not in the checkpoint: {', '.join(not_loaded)}")
    return not_loaded, list(left)


__getattr__ = missing("mindspore.train.serialization", globals())

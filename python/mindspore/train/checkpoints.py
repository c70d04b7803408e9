"""Checkpoints: named tensors in files, and networks that take them."""

from __future__ import annotations

import atexit
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Callable

import numpy
from shardwright import _core

from .. import context
from .._missing import missing
from ..common import dtype as mstype
from ..common.parameter import Parameter
from ..common.tensor import Tensor
from ..nn.cell import Cell
from ..nn.optim.optimizer import Optimizer
from ..parallel import _placed
from . import files


def optimizers_of(net: Cell) -> list[Optimizer]:
    return [cell for _, cell in net.cells_and_names() if isinstance(cell, Optimizer)]


def _tensors_of(save_obj) -> dict[str, Any]:
    if isinstance(save_obj, Cell):
        found: dict[str, Any] = dict(save_obj.parameters_and_names())
        for optimizer in optimizers_of(save_obj):
            found.update(optimizer.states())
        return found
    if isinstance(save_obj, dict):
        return dict(save_obj)
    if isinstance(save_obj, list):
        if save_obj and all(isinstance(p, Parameter) for p in save_obj):
            return {p.name: p for p in save_obj}
        for said in save_obj:
            if not isinstance(said, dict) or not said.keys() >= {"name", "data"}:
                raise TypeError(f"a list that is saved holds parameters, or dicts of 'name' and 'data', not {said!r}")
        return {said["name"]: said["data"] for said in save_obj}
    raise TypeError(f"a checkpoint is of a Cell, a list of {{name, data}} or a dict, not of {save_obj!r}")


# ---- saving ----

class _Beside:
    """Writes files one after the other on a thread; what goes wrong is told at the next one, or at the end."""

    def __init__(self):
        self._thread = ThreadPoolExecutor(1)
        self._last: Future | None = None
        atexit.register(self.wait)

    def __call__(self, write: Callable, *args) -> None:
        self.wait()
        self._last = self._thread.submit(write, *args)

    def wait(self) -> None:
        last, self._last = self._last, None
        if last is not None:
            last.result()


_beside = _Beside()
wait_for_files = _beside.wait


def refuse(enc_key, settings: dict, known: tuple[str, ...]) -> None:
    """What has no effect is told. Raises: ValueError of keys, TypeError of unknown settings."""
    if enc_key is not None:
        raise ValueError("encrypted checkpoints (enc_key, dec_key) are not in this front end")
    for name, value in settings.items():
        if name not in known:
            raise TypeError(f"'{name}' is unknown here; there are {', '.join(known)}")
        if value:
            context.tell(f"mindspore: {name} has no effect on checkpoints here")


def save_checkpoint(save_obj, ckpt_file_name: str, integrated_save: bool = True, async_save: bool | str = False,
                    append_dict: dict | None = None, enc_key=None, enc_mode: str = "AES-GCM", choice_func=None,
                    crc_check: bool = False, format: str = "ckpt", **settings) -> None:
    """Tensors, with `append_dict`'s beside them. The file is there whole or not at all, and read-only.

    `integrated_save`: whole tensors, for which all ranks save at the same time; else what this rank has. `async_save`:
    the elements are taken now and written beside what the program goes on with. Raises: OSError naming the file.
    """
    refuse(enc_key, settings, ("remove_redundancy", "map_param_inc", "global_step_num"))
    files.check_format(format)
    if not isinstance(ckpt_file_name, str):
        raise TypeError(f"ckpt_file_name is a string, not {ckpt_file_name!r}")
    found = {n: t for n, t in _tensors_of(save_obj).items() if choice_func is None or choice_func(n)}
    for name, value in (append_dict or {}).items():
        if not isinstance(value, (Tensor, bool, int, float, str)):
            raise TypeError(f"append_dict holds numbers, texts and tensors; '{name}' is {value!r}")
        found[name] = value
    tensors = _stored(found, integrated_save)
    files.check_storable(tensors, format)
    path = ckpt_file_name if ckpt_file_name.endswith(f".{format}") else f"{ckpt_file_name}.{format}"
    if async_save:
        _beside(files.write, path, tensors, format, crc_check)
    else:
        files.write(path, tensors, format, crc_check)


def _stored(found: dict[str, Any], is_whole: bool) -> dict[str, files.Stored]:
    """Whole, or what this rank has, without parameters of other stages."""
    if not is_whole and context.is_auto() and not context.is_rank_view() and context.device_count() > 1:
        context.tell("mindspore: integrated_save=False: this process stands for all ranks, so tensors are saved whole; "
                     "under mpirun each rank saves its part")
    out = {}
    for name, value in found.items():
        if isinstance(value, (str, numpy.ndarray)):
            out[name] = files.stored_text(value) if isinstance(value, str) else files.stored_as_it_is(value)
            continue
        data = (value if isinstance(value, Tensor) else Tensor(value)).data_now()
        if isinstance(data, _core.Parameter):
            data = data.gathered() if is_whole else _placed.own_part(data)
        if data is not None:
            out[name] = files.stored(data)
    return out


# ---- loading ----

def load_checkpoint(ckpt_file_name: str, net: Cell | None = None, strict_load: bool = False, filter_prefix=None,
                    dec_key=None, dec_mode: str = "AES-GCM", specify_prefix=None, choice_func=None,
                    crc_check: bool = False, format: str = "ckpt", **settings) -> dict[str, Any]:
    """Parameters, and texts, by name; `net` takes them, too. Raises: ValueError of what is no such file."""
    refuse(dec_key, settings, ("remove_redundancy",))
    files.check_format(format)
    if not isinstance(ckpt_file_name, str):
        raise TypeError(f"ckpt_file_name is a string, not {ckpt_file_name!r}")
    skipped, asked = _prefixes("filter_prefix", filter_prefix), _prefixes("specify_prefix", specify_prefix)
    wait_for_files()
    found = {name: parameter_of(name, tensor) for name, tensor in files.read(ckpt_file_name, format, crc_check).items()
             if not (skipped and name.startswith(skipped)) and (not asked or name.startswith(asked))
             and (choice_func is None or choice_func(name))}
    if not found:
        raise ValueError(f"'{ckpt_file_name}' holds nothing that is asked for")
    if net is not None:
        load_param_into_net(net, found, strict_load)
    return found


def load_checkpoint_async(ckpt_file_name: str, net: Cell | None = None, *args, **settings) -> Future:
    """`load_checkpoint` while the program goes on; `result()` has its parameters, or raises its error.

    It has ended when it returns if a `net` takes them: none changes while it is traced.
    """
    reader = ThreadPoolExecutor(1)
    future = reader.submit(load_checkpoint, ckpt_file_name, net, *args, **settings)
    reader.shutdown(wait=net is not None)
    return future


def parameter_of(name: str, one: files.Stored) -> Parameter | str:
    """A text is itself."""
    text = files.text_in(one)
    return Parameter(files.tensor_of(one, name), name=name) if text is None else text


def _prefixes(what: str, said) -> tuple[str, ...]:
    given = (said,) if isinstance(said, str) else tuple(said or ())
    if any(not isinstance(p, str) or not p for p in given):
        raise ValueError(f"{what} is one or several beginnings of names, not {said!r}")
    return given


def load_param_into_net(net: Cell, parameter_dict: dict[str, Any], strict_load: bool = False,
                        remove_redundancy: bool = False) -> tuple[list[str], list[str]]:
    """Sets parameters, and states of optimizers inside. Returns names that were not in the dict, and not in the net.

    Raises: TypeError of what is no cell and no dict, RuntimeError of another shape or type.
    """
    if not isinstance(net, Cell) or not isinstance(parameter_dict, dict):
        raise TypeError("load_param_into_net takes a Cell and a dict of parameters")
    refuse(None, {"remove_redundancy": remove_redundancy}, ("remove_redundancy",))
    for name, value in parameter_dict.items():
        if not isinstance(name, str) or not isinstance(value, (Tensor, str)):
            raise TypeError(f"parameter_dict holds parameters by name; '{name}' is {value!r}")
    own = dict(net.parameters_and_names())
    left = {name: value for name, value in parameter_dict.items() if isinstance(value, Tensor)}
    not_loaded = []
    for name, parameter in own.items():
        value = left.pop(name, None)
        if value is None:
            not_loaded.append(name)
        else:
            _take(name, parameter.data_now(), value, strict_load)
    for optimizer in optimizers_of(net):
        _take_states(optimizer, left, strict_load)
    _placed.others_have_taken(p.data_now() for p in own.values())
    if not_loaded:
        context.tell(f"mindspore: not in the checkpoint: {', '.join(not_loaded)}")
    return not_loaded, [name for name, value in parameter_dict.items() if name in left or isinstance(value, str)]


def _take_states(optimizer: Optimizer, left: dict[str, Tensor], is_strict: bool) -> None:
    """What the optimizer has taken is no longer in `left`."""
    for name, state in optimizer.states().items():
        if name in left and isinstance(state.data_now(), _core.Parameter):
            _take(name, state.data_now(), left.pop(name), is_strict)
    for parameter in optimizer.parameters:  # of what is not compiled yet there are no states
        for kind in optimizer.state_names.values():
            value = left.get(f"{kind}.{parameter.name}")
            if value is not None and tuple(value.shape) != tuple(parameter.shape):
                raise RuntimeError(f"state '{kind}.{parameter.name}' has shape {tuple(parameter.shape)}, but "
                                   f"{tuple(value.shape)} in the checkpoint; slices are taken once the network is "
                                   "compiled: infer_train_layout, build")
    for name in optimizer.load_states(left):
        del left[name]


def _take(name: str, leaf, value: Tensor, is_strict: bool) -> None:
    own_type = mstype.type_of(leaf.dtype)
    is_castable = _kind(value.dtype) == _kind(own_type)
    if value.dtype is not own_type and (is_strict or not is_castable):
        raise RuntimeError(f"parameter '{name}' is {own_type}, but {value.dtype} in the checkpoint"
                           + ("; strict_load=False casts it" if is_castable else ""))
    tensor = Tensor.of(value.data_now()).astype(own_type)
    if {tuple(value.shape), tuple(leaf.shape)} == {(), (1,)}:
        tensor = tensor.reshape(tuple(leaf.shape))
    _placed.take(leaf, tensor.data_now(), name)


def _kind(dtype) -> str:
    """Types of one kind are cast without asking."""
    return "floating" if "float" in dtype.name else "bool" if dtype.name == "bool" else "whole"


__getattr__ = missing("mindspore.train.checkpoints", globals())

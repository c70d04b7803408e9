"""Layouts: which dims of a tensor are split over which axes of a device matrix."""

from __future__ import annotations

import copy
import math

from shardwright import _core

from .._missing import near


class Layout:
    """`Layout((2, 2, 2), ("dp", "sp", "mp"))("mp", ("sp", "dp"))`: dim 0 over mp, dim 1 over sp, then dp."""

    def __init__(self, device_matrix, alias_name=None, rank_list=None, *, name=None):
        alias_name = name if alias_name is None else alias_name
        _check_tuple("device_matrix", device_matrix, int)
        _check_tuple("alias_name", alias_name, str)
        if len(device_matrix) != len(alias_name):
            raise ValueError(f"device_matrix {device_matrix} and alias_name {alias_name} are of different lengths")
        for alias in alias_name:
            if not alias or alias == "None" or alias_name.count(alias) > 1:
                raise ValueError(f"alias_name {alias_name}: names are different, not empty and not 'None'")
        if "interleaved_parallel" in alias_name:
            raise ValueError("alias_name 'interleaved_parallel' is not in this front end")
        count = math.prod(device_matrix)
        if rank_list is not None and list(rank_list) != list(range(count)):
            raise ValueError(f"rank_list is {list(range(count))} here, not {list(rank_list)}")
        self._sizes, self._names = tuple(device_matrix), tuple(alias_name)
        self._mesh = _core.Mesh(list(device_matrix), list(alias_name))
        self._dims: tuple = ()
        self.split = None  # as the core has it

    def __call__(self, *dims) -> Layout:
        """A tensor's layout: per dim an axis, several (the first is the outermost), or "None"."""
        used: list[str] = []
        for dim in dims:
            for axis in dim if isinstance(dim, tuple) else (dim,):
                if axis == "None":
                    continue
                if axis not in self._names:
                    raise ValueError(f"axis {axis} is not found in {self._names}{near(str(axis), self._names)}")
                if axis in used:
                    raise ValueError(f"axis {axis} has been set more than one in {dims}")
                used.append(axis)
        placed = copy.copy(self)
        placed._dims = dims
        placed.split = self._mesh(*(None if d == "None" else d for d in dims))
        return placed

    def to_dict(self) -> dict:
        """device_matrix, tensor_map (axes counted from the right, -1: whole), alias_name, rank_list."""
        if self.split is None:
            raise ValueError("the layout is of no tensor yet: call it with an axis for each dim")

        def number(axis):
            return -1 if axis == "None" else len(self._names) - 1 - self._names.index(axis)

        tensor_map = tuple(tuple(number(a) for a in d) if isinstance(d, tuple) else number(d) for d in self._dims)
        return {"device_matrix": self._sizes, "tensor_map": tensor_map, "interleaved_parallel": False,
                "alias_name": self._names, "rank_list": list(range(math.prod(self._sizes)))}

    @property
    def dims(self) -> tuple:
        """As it was called with."""
        return self._dims

    def at(self, *dims) -> Layout:
        """The same device matrix with other dims."""
        return self(*dims)

    def __deepcopy__(self, memo) -> Layout:
        return copy.copy(self)

    def __repr__(self) -> str:
        shown = ", ".join(str(d) for d in self._dims)
        return f"Layout({self._sizes}, {self._names})" + (f"({shown})" if self.split is not None else "")


def _check_tuple(what: str, value, kind: type) -> None:
    if not isinstance(value, tuple):
        raise TypeError(f"{what} is a tuple, not {value!r}")
    for item in value:
        if not isinstance(item, kind) or isinstance(item, bool):
            raise TypeError(f"{what} holds {kind.__name__}s, not {item!r}")

"""How one tensor lies on the devices of a stage, as strategy files and checkpoints of slices have it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Iterable, Sequence

most_devices = 1 << 14
Box = tuple[tuple[int, int], ...]  # per dim where it begins and ends


@dataclass(frozen=True)
class Placement:
    """Dim d is cut by the axes `map[d]` of the device matrix `mesh`, counted from the left, the outermost first."""

    mesh: tuple[int, ...]
    map: tuple[tuple[int, ...], ...]

    def __post_init__(self):
        used = [axis for dim in self.map for axis in dim]
        if any(type(s) is not int or s < 1 for s in self.mesh) or math.prod(self.mesh) > most_devices:
            raise ValueError(f"the device matrix {_shown(self.mesh)} is none")
        if any(type(a) is not int or not 0 <= a < len(self.mesh) for a in used) or len(set(used)) < len(used):
            raise ValueError(f"the tensor map is none over the device matrix {_shown(self.mesh)}: axes from the left "
                             f"{_shown(self.map)}")

    @classmethod
    def whole(cls, dims: int, devices: int = 1) -> Placement:
        return cls((devices,), ((),) * dims)

    @classmethod
    def of_map(cls, mesh: Iterable[int], tensor_map: Iterable) -> Placement:
        """`tensor_map`: per dim an axis, or several; they count from the right, and -1 is none."""
        mesh = tuple(mesh)

        def axes(dim) -> tuple[int, ...]:
            dims = tuple(dim) if isinstance(dim, (list, tuple)) else (dim,)
            return tuple(len(mesh) - 1 - a if type(a) is int else a for a in dims if a != -1)

        return cls(mesh, tuple(axes(dim) for dim in tensor_map))

    @property
    def tensor_map(self) -> list:
        """Per dim an axis that counts from the right, -1, or a list of them."""
        return [-1 if not dim else _right(self, dim[0]) if len(dim) == 1 else [_right(self, a) for a in dim]
                for dim in self.map]

    @property
    def names(self) -> list[str]:
        """Of the axes."""
        return [f"axis{i}" for i in range(len(self.mesh))]

    @property
    def devices(self) -> int:
        return math.prod(self.mesh)

    @property
    def cuts(self) -> tuple[int, ...]:
        """Parts per dim."""
        return tuple(math.prod(self.mesh[a] for a in dim) for dim in self.map)

    def whole_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Of the tensor whose slices have this shape."""
        if len(shape) != len(self.map):
            raise ValueError(f"a slice of shape {list(shape)} does not lie as the tensor map {self.tensor_map} says")
        return tuple(s * c for s, c in zip(shape, self.cuts))

    def slice_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Of a tensor of this shape."""
        return tuple(last - first for first, last in self.box(0, shape))

    def box(self, device: int, shape: Sequence[int]) -> Box:
        """What a device of the stage has of a tensor of this shape."""
        if len(shape) != len(self.map) or any(s % c for s, c in zip(shape, self.cuts)):
            raise ValueError(f"a tensor of shape {list(shape)} cannot be cut into {list(self.cuts)} parts")
        place = []
        for size in reversed(self.mesh):
            place.insert(0, device % size)
            device //= size
        out = []
        for extent, dim in zip(shape, self.map):
            index, parts = 0, 1
            for axis in dim:
                index, parts = index * self.mesh[axis] + place[axis], parts * self.mesh[axis]
            out.append((index * (extent // parts), (index + 1) * (extent // parts)))
        return tuple(out)


def _right(placement: Placement, axis: int) -> int:
    return len(placement.mesh) - 1 - axis


def _shown(values) -> str:
    return str(list(values))[:80]


def common(a: Box, b: Box) -> Box | None:
    """What is in both."""
    out = tuple((max(f1, f2), min(l1, l2)) for (f1, l1), (f2, l2) in zip(a, b))
    return None if any(first >= last for first, last in out) else out


def size_of(box: Box) -> int:
    return math.prod(last - first for first, last in box)


def slices(box: Box, within: Box) -> tuple[slice, ...]:
    """Of the array that holds `within`, the elements of `box`."""
    return tuple(slice(first - start, last - start) for (first, last), (start, _) in zip(box, within))

"""What is done with any column in numpy. Data sets run them as functions of Python's."""

from __future__ import annotations

import enum
from typing import Callable, Sequence

import numpy

from .. import config
from ...common import dtype as mstype
from .made import Compose


class Relational(enum.Enum):
    """How elements are compared."""

    EQ, NE, GT, GE, LT, LE = "equal", "not_equal", "greater", "greater_equal", "less", "less_equal"


class Fill:
    """One value everywhere."""

    def __init__(self, fill_value):
        self.value = fill_value

    def __call__(self, x):
        return numpy.full_like(numpy.asarray(x), self.value)


class Slice:
    """Parts of the first dims: numbers, lists of them, slices, None (all) or `...`."""

    def __init__(self, *slices):
        self.slices = tuple(slice(None) if s is None else [s] if isinstance(s, int) else s for s in slices)

    def __call__(self, x):
        return numpy.asarray(x)[self.slices]


class Mask:
    """Whether elements compare so with a constant."""

    def __init__(self, operator: Relational, constant, dtype=mstype.bool_):
        self.function, self.constant, self.dtype = getattr(numpy, operator.value), constant, mstype.type_of(dtype).name

    def __call__(self, x):
        return self.function(x, self.constant).astype(self.dtype)


class PadEnd:
    """As large as a shape, with a value behind what is there, or cut off."""

    def __init__(self, pad_shape: Sequence[int | None], pad_value=0):
        self.shape, self.value = list(pad_shape), 0 if pad_value is None else pad_value

    def __call__(self, x):
        x = numpy.asarray(x)
        out = numpy.full([n if m is None else m for n, m in zip(x.shape, self.shape)], self.value, x.dtype)
        part = tuple(slice(0, min(n, m)) for n, m in zip(x.shape, out.shape))
        out[part] = x[part]
        return out


class Concatenate:
    """Columns one behind the other, around what is given."""

    def __init__(self, axis: int = 0, prepend=None, append=None):
        self.axis, self.before, self.behind = axis, prepend, append

    def __call__(self, *columns):
        parts = [p for p in (self.before, *columns, self.behind) if p is not None]
        return numpy.concatenate([numpy.asarray(p) for p in parts], self.axis)


class Duplicate:
    """The column twice."""

    def __call__(self, x):
        return x, numpy.array(x)


class _Of:
    """Several transforms, of which some are drawn."""

    def __init__(self, transforms: Sequence[Callable]):
        self.transforms = list(transforms)
        self.generator = numpy.random.default_rng(config.get_seed())


class RandomApply(_Of):
    """All of them, with a probability."""

    def __init__(self, transforms, prob: float = 0.5):
        super().__init__(transforms)
        self.prob = prob

    def __call__(self, *columns):
        return Compose(self.transforms)(*columns) if self.generator.random() < self.prob else columns[0] if len(columns) == 1 else columns


class RandomChoice(_Of):
    """One of them."""

    def __call__(self, *columns):
        return self.transforms[self.generator.integers(len(self.transforms))](*columns)


class RandomOrder(_Of):
    """All of them, in an order that is drawn."""

    def __call__(self, *columns):
        return Compose([self.transforms[k] for k in self.generator.permutation(len(self.transforms))])(*columns)


__all__ = [n for n, value in globals().items() if isinstance(value, type) and value.__module__ == __name__ and not n.startswith("_")]

"""What is done with any column."""

from __future__ import annotations

import numpy

from ..._missing import missing
from ...common import dtype as mstype


class TypeCast:
    """The same numbers as another type."""

    def __init__(self, output_type):
        self.dtype = mstype.dtype_to_nptype(mstype.type_of(output_type))

    def __call__(self, x):
        return numpy.asarray(x).astype(self.dtype)


class OneHot:
    """1 at the place of the number, else 0."""

    def __init__(self, num_classes: int):
        self.num_classes = num_classes

    def __call__(self, x):
        return numpy.eye(self.num_classes, dtype=numpy.int32)[x]


class Compose:
    """One after the other."""

    def __init__(self, transforms):
        self.transforms = list(transforms)

    def __call__(self, *columns):
        for transform in self.transforms:
            result = transform(*columns)
            columns = result if isinstance(result, tuple) else (result,)
        return columns[0] if len(columns) == 1 else columns


__getattr__ = missing("mindspore.dataset.transforms", globals())

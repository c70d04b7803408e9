"""Operations that the core has: in a data set they run there; called by themselves they give numpy arrays."""

from __future__ import annotations

from typing import Any

import numpy
from shardwright import data

from ...common.tensor import Tensor


class Made:
    """One transform of the core, or several one after the other."""

    def __init__(self, *transforms):
        self.transforms = list(transforms)

    def __call__(self, *columns) -> Any:
        values: tuple = tuple(x.asnumpy() if isinstance(x, Tensor) else data.held(x) for x in columns)
        for transform in self.transforms:
            values = transform(*values)
        arrays = tuple(numpy.asarray(x.numpy()) for x in values)
        return arrays[0] if len(arrays) == 1 else arrays


class Compose:
    """One after the other; functions of Python's, too."""

    def __init__(self, transforms):
        self.transforms = list(transforms)

    def __call__(self, *columns):
        for transform in self.transforms:
            result = transform(*columns)
            columns = result if isinstance(result, tuple) else (result,)
        return columns[0] if len(columns) == 1 else columns


def transforms_of(operations) -> list:
    """Of the core, of operations and of functions."""
    if isinstance(operations, Made):
        return operations.transforms
    if isinstance(operations, Compose):
        operations = operations.transforms
    if isinstance(operations, (list, tuple)):
        return [t for operation in operations for t in transforms_of(operation)]
    return [data.python_transform(operations)]

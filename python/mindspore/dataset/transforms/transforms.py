"""What is done with any column."""

from __future__ import annotations

import numpy
from shardwright import data

from ..._missing import missing
from ...common import dtype as mstype
from .made import Compose, Made


class TypeCast(Made):
    """The same numbers as another type."""

    def __init__(self, output_type):
        super().__init__(data.cast(mstype.type_of(output_type).name))


class OneHot(Made):
    """1 at the place of the number, else 0; called by itself in the type of the number."""

    def __call__(self, *columns):
        hot = super().__call__(*columns)
        kind = numpy.asarray(columns[0]).dtype
        return hot.astype(kind) if kind.kind in "iu" else hot

    def __init__(self, num_classes: int, smoothing_rate: float = 0.0):
        if smoothing_rate:
            raise ValueError("OneHot: smoothing_rate is not in this front end")
        super().__init__(data.one_hot(num_classes))


from .rows import *  # noqa: E402, F403

__getattr__ = missing("mindspore.dataset.transforms", globals())

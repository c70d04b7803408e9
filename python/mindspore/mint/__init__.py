"""Operators as functions, under newer names."""

from __future__ import annotations

from .._missing import missing
from ..common import dtype as mstype
from ..common.tensor import Tensor
from ..ops import functional as F
from ..ops.functional import (abs, add, argmax, div, exp, log, matmul, maximum, mean, minimum, mul, neg, pow,
                              relu, reshape, sigmoid, softmax, sqrt, square, sub, tanh, where)
from ..ops.functional import equal as eq
from . import distributed, nn


def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dims from start_dim to end_dim made into one."""
    return F.flatten(input, start_dim=start_dim, end_dim=end_dim)


def equal(input: Tensor, other: Tensor) -> bool | Tensor:
    """Whether shapes and all elements are the same: in a program, as a tensor."""
    if tuple(input.shape) != tuple(other.shape):
        return False
    same = F.cast(F.equal(input, other), mstype.float32).min() > 0
    return same if same.array.is_traced else bool(same)


def sum(input: Tensor, dim=None, keepdim: bool = False) -> Tensor:
    """Over some dims, or all."""
    return F.sum(input, dim, keepdim)


__getattr__ = missing("mindspore.mint", globals())

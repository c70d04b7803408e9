"""Operators as functions, under newer names."""

from .._missing import missing
from ..common.tensor import Tensor
from ..ops import functional as F
from ..ops.functional import (abs, add, argmax, div, equal, exp, log, matmul, maximum, mean, minimum, mul, neg, pow,
                              relu, reshape, sigmoid, softmax, sqrt, square, sub, tanh, where)
from . import nn


def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dims from start_dim to end_dim made into one."""
    return F.flatten(input, start_dim=start_dim, end_dim=end_dim)


def sum(input: Tensor, dim=None, keepdim: bool = False) -> Tensor:
    """Over some dims, or all."""
    return F.sum(input, dim, keepdim)


__getattr__ = missing("mindspore.mint", globals())

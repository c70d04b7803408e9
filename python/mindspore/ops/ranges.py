"""Tensors that are made of a few numbers."""

from __future__ import annotations

import numpy

from ..common import dtype as mstype
from ..common.tensor import Tensor
from .shapes import filled


def _of_numbers(values, dtype) -> Tensor:
    array = numpy.asarray(values)
    if dtype is None:
        dtype = mstype.int64 if array.dtype.kind in "iu" else mstype.float32
    return Tensor(array, dtype)


def _number(x):
    return x.item() if isinstance(x, Tensor) else x


def arange(start=0, end=None, step=1, *, dtype=None):
    start, end, step = _number(start), _number(end), _number(step)
    return _of_numbers(numpy.arange(0 if end is None else start, start if end is None else end, step), dtype)


def linspace(start, end, steps, *, dtype=None):
    return _of_numbers(numpy.linspace(_number(start), _number(end), int(_number(steps)), dtype=numpy.float32), dtype)


def logspace(start, end, steps, base=10, *, dtype=mstype.float32):
    return _of_numbers(numpy.logspace(_number(start), _number(end), int(_number(steps)), base=base), dtype)


def eye(n, m=None, dtype=None):
    return Tensor(numpy.eye(n, m, dtype=numpy.float32), dtype or mstype.float32)


def full_like(input, fill_value, *, dtype=None):
    return filled((mstype.type_of(dtype) if dtype is not None else input.dtype).name, input.shape, fill_value)


def _window(name: str):
    def function(window_length, periodic=True, *, dtype=None):
        values = getattr(numpy, name)(window_length + bool(periodic))
        return Tensor(values[:window_length], dtype or mstype.float64)

    return function


def hamming_window(window_length, periodic=True, alpha=0.54, beta=0.46, *, dtype=None):
    count = window_length if periodic else window_length - 1
    values = alpha - beta * numpy.cos(2 * numpy.pi * numpy.arange(window_length) / count)
    return Tensor(values.astype(numpy.float32), dtype or mstype.float32)


functions = {"arange": arange, "linspace": linspace, "logspace": logspace, "eye": eye, "full_like": full_like,
             "range": lambda start, end, step, maxlen=1000000: arange(start, end, step), "hamming_window": hamming_window,
             "hann_window": _window("hanning"), "bartlett_window": _window("bartlett"), "blackman_window": _window("blackman")}

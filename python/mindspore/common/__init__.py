"""Tensors, parameters, types and how parameters start."""

from .._missing import missing
from . import dtype, initializer, parameter, tensor
from .dtype import *  # noqa: F403
from .parameter import Parameter, ParameterTuple
from .tensor import IndexedSlices, RowTensor, Tensor

__getattr__ = missing("mindspore.common", globals())

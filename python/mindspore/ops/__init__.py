"""Operators as objects and as functions."""

from .._autodiff import GradOperation, grad, value_and_grad
from .._missing import missing
from . import composite, composed, functional, operations, primitive
from .composite import HyperMap, Map, MultitypeFuncGraph
from .functional import *  # noqa: F403
from .operations import *  # noqa: F403
from ..parallel.function import shard
from .primitive import Primitive

vars(operations).update(composed.kinds)
globals().update(composed.kinds)
from . import methods  # noqa: E402, which needs all of them

__getattr__ = missing("mindspore.ops", globals())

"""Optimizers."""

from ..._missing import missing
from . import adam, momentum, optimizer, sgd
from .adam import Adam
from .momentum import Momentum
from .optimizer import Optimizer
from .sgd import SGD

__getattr__ = missing("mindspore.nn.optim", globals())

"""Optimizers."""

from ..._missing import missing
from . import ada_grad, adam, lamb, lars, momentum, optimizer, rmsprop, sgd
from .ada_grad import Adagrad
from .adam import Adam, AdamWeightDecay
from .lamb import Lamb
from .lars import LARS
from .momentum import Momentum
from .optimizer import Optimizer
from .rmsprop import RMSProp
from .sgd import SGD

__getattr__ = missing("mindspore.nn.optim", globals())

"""Optimizers."""

from ..._missing import missing
from . import ada_grad, adam, formulas, lamb, lars, momentum, optimizer, rmsprop, sgd
from .ada_grad import Adagrad
from .adam import Adam, AdamOffload, AdamWeightDecay, LazyAdam
from .formulas import ASGD, FTRL, AdaMax, Adadelta, ProximalAdagrad, Rprop
from .lamb import Lamb
from .lars import LARS
from .momentum import Momentum
from .optimizer import Optimizer
from .rmsprop import RMSProp
from .sgd import SGD

__getattr__ = missing("mindspore.nn.optim", globals())

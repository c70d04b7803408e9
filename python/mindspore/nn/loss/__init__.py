"""Losses."""

from ..._missing import missing
from . import loss
from .loss import CrossEntropyLoss, L1Loss, LossBase, MAELoss, MSELoss, SoftmaxCrossEntropyWithLogits, _Loss

__getattr__ = missing("mindspore.nn.loss", globals())

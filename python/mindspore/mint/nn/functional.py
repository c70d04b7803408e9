"""Activations and losses as functions."""

from ..._missing import missing
from ...ops.functional import cross_entropy, dropout, gelu, l1_loss, mse_loss, relu, sigmoid, silu, softmax, tanh

__getattr__ = missing("mindspore.mint.nn.functional", globals())

"""Activations as cells, and functions of networks."""

from ..._missing import missing
from ...nn.layers import GELU, Identity, ReLU, Sigmoid, SiLU, Tanh
from . import functional

__getattr__ = missing("mindspore.mint.nn", globals())

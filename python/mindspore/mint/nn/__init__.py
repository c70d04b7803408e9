"""Functions of networks."""

from ..._missing import missing
from . import functional

__getattr__ = missing("mindspore.mint.nn", globals())

"""What was tried out there: optimizers with newer arguments."""

from .._missing import missing
from . import optim

__getattr__ = missing("mindspore.experimental", globals())

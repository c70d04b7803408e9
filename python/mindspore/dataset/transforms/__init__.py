"""What is done with any column."""

from . import transforms
from .transforms import Compose, OneHot, TypeCast, __getattr__

"""What is done with any column."""

from . import rows, transforms
from .rows import *  # noqa: F403
from .transforms import Compose, OneHot, TypeCast, __getattr__

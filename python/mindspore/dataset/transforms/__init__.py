"""What is done with any column."""

from . import c_transforms, transforms
from .transforms import Compose, OneHot, TypeCast, __getattr__

"""The old name of `transforms`."""

from .transforms import Compose, OneHot, TypeCast, __getattr__

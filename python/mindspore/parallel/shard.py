"""Functional sharding and layouts. In the package `parallel`, `shard` is the function."""

from .._missing import missing
from .function import shard
from .layout import Layout

__getattr__ = missing("mindspore.parallel.shard", globals())

"""How programs are split."""

from .._missing import missing
from . import function
from .function import reshard
from .shard import Layout, shard

__getattr__ = missing("mindspore.parallel", globals())

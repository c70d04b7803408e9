"""How programs are split."""

from .._missing import missing
from . import function
from .function import reshard, sync_pipeline_shared_parameters
from .shard import Layout, shard

__getattr__ = missing("mindspore.parallel", globals())

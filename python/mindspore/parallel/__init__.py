"""How programs are split."""

from .._missing import missing
from ..context import get_algo_parameters, reset_algo_parameters, set_algo_parameters
from . import function
from .function import reshard, sync_pipeline_shared_parameters
from .shard import Layout, shard

__getattr__ = missing("mindspore.parallel", globals())

"""How programs are split."""

from .._missing import missing
from ..context import get_algo_parameters, reset_algo_parameters, set_algo_parameters
from . import _auto_parallel_context, _utils, function
from .function import reshard, sync_pipeline_shared_parameters
from .shard import Layout, shard

_of_files = ("build_searched_strategy", "convert_checkpoint_by_rank", "convert_checkpoints",
             "load_distributed_checkpoint", "load_segmented_checkpoints", "merge_pipeline_strategys",
             "merge_sliced_parameter", "rank_list_for_convert", "rank_list_for_transform", "restore_group_info_list",
             "set_op_strategy_config", "transform_checkpoint_by_rank", "transform_checkpoints", "unified_safetensors")
_missing = missing("mindspore.parallel", globals())


def __getattr__(name: str):
    if name in _of_files:  # they need networks, which need this package
        from ..train import serialization
        return getattr(serialization, name)
    return _missing(name)

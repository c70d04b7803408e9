"""Checkpoints: under the names that they have there."""

from .._missing import missing
from ..parallel.checkpoint_transform import (convert_checkpoint_by_rank, convert_checkpoints, merge_pipeline_strategys,
                                             rank_list_for_convert, rank_list_for_transform,
                                             transform_checkpoint_by_rank, transform_checkpoints)
from .checkpoints import load_checkpoint, load_checkpoint_async, load_param_into_net, save_checkpoint
from .distributed import (build_searched_strategy, ckpt_to_safetensors, load_distributed_checkpoint,
                          load_segmented_checkpoints, merge_sliced_parameter, restore_group_info_list, safetensors_to_ckpt,
                          set_op_strategy_config, unified_safetensors)

__getattr__ = missing("mindspore.train.serialization", globals())

"""The names of MindSpore, over Shardwright: `import mindspore as ms` in a program that is written for it.

Programs run as ranks that mpirun starts, or in one process that stands for all of them, on as many virtual devices
as `python3 -m shardwright.run --devices N program.py` says.
"""

from . import (amp, common, communication, context, dataset, experimental, log, mindrecord, mint, nn, numpy, ops, parallel, profiler, runtime,
               train)
from ._autodiff import grad, value_and_grad
from ._compile import jit
from ._elsewhere import put_in_place
from ._hints import JitConfig, Symbol, lazy_inline, mutable
from ._missing import missing
from .common import dtype, initializer
from .common.dtype import *  # noqa: F403
from .common.parameter import Parameter, ParameterTuple
from .common.tensor import RowTensor, Tensor
from .profiler import Profiler
from .context import (GRAPH_MODE, PYNATIVE_MODE, ParallelMode, get_algo_parameters, get_auto_parallel_context,
                      get_context, get_seed, reset_algo_parameters, reset_auto_parallel_context, set_algo_parameters,
                      set_auto_parallel_context, set_context, set_device, set_offload_context, set_ps_context, set_seed)
from .parallel import Layout, reshard, shard, sync_pipeline_shared_parameters
from .parallel import nn as _  # found as mindspore.parallel.nn; it needs nn
from .train import (Callback, CheckpointConfig, DynamicLossScaleManager, FixedLossScaleManager, LossMonitor, Model,
                    ModelCheckpoint, TimeMonitor, build_searched_strategy, ckpt_to_safetensors, data_sink,
                    load_checkpoint, load_checkpoint_async, load_distributed_checkpoint, load_param_into_net,
                    load_segmented_checkpoints, merge_pipeline_strategys, merge_sliced_parameter,
                    rank_list_for_transform, restore_group_info_list, safetensors_to_ckpt, save_checkpoint,
                    transform_checkpoint_by_rank, transform_checkpoints, unified_safetensors)

__version__ = "2.4.1+shardwright"
ms_function = jit


def export(net, *inputs, file_name: str = "", file_format: str = "MINDIR", **settings) -> None:
    """Plans the network for these inputs. Raises: ValueError, as there is no file of such a format that we write."""
    net.compile(*inputs)
    raise ValueError(f"export to {file_format} is not in this front end: no such files are written; save_checkpoint writes weights")


__getattr__ = missing("mindspore", globals())
put_in_place()

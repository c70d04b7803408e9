"""The names of MindSpore, over Shardwright: `import mindspore as ms` in a program that is written for it.

Programs run as ranks that mpirun starts, or in one process that stands for all of them, on as many virtual devices
as `python3 -m shardwright.run --devices N program.py` says.
"""

from . import _started_apart  # first: it may start the program anew  # noqa: F401, I001
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

from .common.tensor import is_tensor
from .train import (Accuracy, ConfusionMatrix, CosineSimilarity, Dice, EarlyStopping, F1, Fbeta, History, LambdaCallback,
                    LearningRateScheduler, Loss, MAE, MSE, Metric, OnRequestExit, Perplexity, Precision, Recall, RunContext,
                    SummaryCollector, Top1CategoricalAccuracy, Top5CategoricalAccuracy, TopKCategoricalAccuracy)

__version__ = "2.4.1+shardwright"
ms_function = jit
manual_seed = set_seed


def tensor(input_data=None, dtype=None, shape=None, init=None, const_arg=False) -> Tensor:
    """As the class makes it."""
    return Tensor(input_data, dtype, shape, init)


def from_numpy(array) -> Tensor:
    return Tensor(array)


def jit_class(cls):
    """The class as it is."""
    return cls


def run_check() -> None:
    """Multiplies two small matrices, and says so."""
    product = Tensor([[1.0, 2.0], [3.0, 4.0]]) @ Tensor([[1.0], [1.0]])
    if product.tolist() != [[3.0], [7.0]]:
        raise RuntimeError(f"two small matrices multiply to {product.tolist()}, not to [[3.0], [7.0]]")
    print(f"MindSpore version: {__version__}\nThe result of multiplication calculation is correct, on platform [CPU]")




def export(net, *inputs, file_name: str = "", file_format: str = "MINDIR", **settings) -> None:
    """Plans the network for these inputs. Raises: ValueError, as there is no file of such a format that we write."""
    net.compile(*inputs)
    raise ValueError(f"export to {file_format} is not in this front end: no such files are written; save_checkpoint writes weights")


__getattr__ = missing("mindspore", globals())
put_in_place()

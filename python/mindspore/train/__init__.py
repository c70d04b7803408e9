"""Models and what is called while they train."""

from .._missing import missing
from ..nn.metrics import (Accuracy, ConfusionMatrix, CosineSimilarity, Dice, F1, Fbeta, Loss, MAE, MSE, Metric, Perplexity,
                          Precision, Recall, Top1CategoricalAccuracy, Top5CategoricalAccuracy, TopKCategoricalAccuracy)
from . import callback, loss_scale_manager, model, serialization
from .callback import (Callback, CheckpointConfig, EarlyStopping, History, LambdaCallback, LearningRateScheduler, LossMonitor,
                       ModelCheckpoint, OnRequestExit, RunContext, SummaryCollector, TimeMonitor, _InternalCallbackParam)
from .data_sink import data_sink
from .loss_scale_manager import DynamicLossScaleManager, FixedLossScaleManager
from .model import Model
from .serialization import (build_searched_strategy, ckpt_to_safetensors, load_checkpoint, load_checkpoint_async,
                            load_distributed_checkpoint, load_param_into_net, load_segmented_checkpoints,
                            merge_pipeline_strategys, merge_sliced_parameter, rank_list_for_transform,
                            restore_group_info_list, safetensors_to_ckpt, save_checkpoint,
                            transform_checkpoint_by_rank, transform_checkpoints, unified_safetensors)


__getattr__ = missing("mindspore.train", globals())

"""Cells around networks."""

from ..._missing import missing
from . import cell_wrapper, loss_scale
from .cell_wrapper import (DistributedGradReducer, GradAccumulationCell, MicroBatchInterleaved, PipelineCell,
                           PipelineGradReducer, TrainOneStepCell, WithEvalCell, WithLossCell)
from .loss_scale import DynamicLossScaleUpdateCell, FixedLossScaleUpdateCell, TrainOneStepWithLossScaleCell

__getattr__ = missing("mindspore.nn.wrap", globals())

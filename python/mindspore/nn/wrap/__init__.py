"""Cells around networks."""

from ..._missing import missing
from . import cell_wrapper
from .cell_wrapper import (DistributedGradReducer, GradAccumulationCell, MicroBatchInterleaved, PipelineCell,
                           PipelineGradReducer, TrainOneStepCell, WithEvalCell, WithLossCell)

__getattr__ = missing("mindspore.nn.wrap", globals())

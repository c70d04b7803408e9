"""Newer names of cells that cut the batch."""

from .._missing import missing
from ..nn.wrap.cell_wrapper import GradAccumulationCell as GradAccumulation
from ..nn.wrap.cell_wrapper import MicroBatchInterleaved, PipelineGradReducer
from ..nn.wrap.cell_wrapper import PipelineCell as Pipeline

__getattr__ = missing("mindspore.parallel.nn", globals())

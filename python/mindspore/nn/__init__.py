"""Cells, layers, losses, optimizers, and cells around them."""

from .._missing import missing
from . import cell, layers, loss, metrics, norms, optim, utils, wrap
from .cell import Cell, CellList, SequentialCell
from .layers import (AdaptiveAvgPool2d, AvgPool2d, Conv2d, Dense, Dropout, Embedding, Flatten, GELU, Identity,
                     MaxPool2d, ReLU, Sigmoid, SiLU, Softmax, Tanh, get_activation)
from .loss import CrossEntropyLoss, L1Loss, LossBase, MAELoss, MSELoss, SoftmaxCrossEntropyWithLogits
from .metrics import Accuracy, Loss, Metric
from .norms import BatchNorm1d, BatchNorm2d, LayerNorm
from .optim import SGD, Adam, Momentum, Optimizer
from .wrap import (DistributedGradReducer, GradAccumulationCell, MicroBatchInterleaved, PipelineCell,
                   PipelineGradReducer, TrainOneStepCell, WithEvalCell, WithLossCell)

__getattr__ = missing("mindspore.nn", globals())

"""Cells, layers, losses, optimizers, and cells around them."""

from .._missing import missing
from . import cell, dynamic_lr, layers, learning_rate_schedule, loss, metrics, norms, optim, utils, wrap
from .cell import Cell, CellList, SequentialCell
from .dynamic_lr import (cosine_decay_lr, exponential_decay_lr, inverse_decay_lr, natural_exp_decay_lr,
                         piecewise_constant_lr, polynomial_decay_lr, warmup_lr)
from .layers import (AdaptiveAvgPool2d, AvgPool2d, Conv2d, Dense, Dropout, Embedding, Flatten, GELU, Identity,
                     MaxPool2d, ReLU, Sigmoid, SiLU, Softmax, Tanh, get_activation)
from .learning_rate_schedule import (CosineDecayLR, ExponentialDecayLR, InverseDecayLR, LearningRateSchedule,
                                     NaturalExpDecayLR, PolynomialDecayLR, WarmUpLR)
from .loss import CrossEntropyLoss, L1Loss, LossBase, MAELoss, MSELoss, SoftmaxCrossEntropyWithLogits
from .metrics import Accuracy, Loss, Metric
from .norms import BatchNorm1d, BatchNorm2d, LayerNorm
from .optim import LARS, SGD, Adagrad, Adam, AdamWeightDecay, Lamb, Momentum, Optimizer, RMSProp
from .wrap import (DistributedGradReducer, DynamicLossScaleUpdateCell, FixedLossScaleUpdateCell, GradAccumulationCell,
                   MicroBatchInterleaved, PipelineCell, PipelineGradReducer, TrainOneStepCell,
                   TrainOneStepWithLossScaleCell, WithEvalCell, WithLossCell)

__getattr__ = missing("mindspore.nn", globals())

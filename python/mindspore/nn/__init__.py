"""Cells, layers, losses, optimizers, and cells around them."""

from .._missing import missing
from . import (cell, convolutions, dynamic_lr, functions, layers, learning_rate_schedule, loss, metrics, norms, optim, recurrent,
               transformers, utils, wrap)
from .cell import Cell, CellList, SequentialCell
from .convolutions import (BiDense, Conv1d, Conv1dTranspose, Conv2dBnAct, Conv2dTranspose, Conv3d, Conv3dTranspose, DenseBnAct)
from .dynamic_lr import (cosine_decay_lr, exponential_decay_lr, inverse_decay_lr, natural_exp_decay_lr,
                         piecewise_constant_lr, polynomial_decay_lr, warmup_lr)
from .layers import (AvgPool2d, Conv2d, Dense, Dropout, Embedding, EmbeddingLookup, Flatten, GELU, Identity,
                     MaxPool2d, PReLU, ReLU, Sigmoid, SiLU, Softmax, Tanh,
                     TimeDistributed, get_activation)
from .learning_rate_schedule import (CosineDecayLR, ExponentialDecayLR, InverseDecayLR, LearningRateSchedule,
                                     NaturalExpDecayLR, PolynomialDecayLR, WarmUpLR)
from .loss import CrossEntropyLoss, L1Loss, LossBase, MAELoss, MSELoss, SoftmaxCrossEntropyWithLogits, _Loss
from .metrics import (Accuracy, ConfusionMatrix, Dice, F1, Fbeta, Loss, MAE, MSE, Metric, Perplexity, Precision, Recall,
                      Top1CategoricalAccuracy, Top5CategoricalAccuracy, TopKCategoricalAccuracy)
from .norms import (BatchNorm1d, BatchNorm2d, BatchNorm3d, GroupNorm, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d, LayerNorm,
                    SyncBatchNorm)
from .optim import (ASGD, FTRL, LARS, SGD, AdaMax, Adadelta, Adagrad, Adam, AdamOffload, AdamWeightDecay, Lamb, LazyAdam, Momentum,
                    Optimizer, ProximalAdagrad, RMSProp, Rprop)
from .recurrent import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNCell
from .transformers import (MultiheadAttention, Transformer, TransformerDecoder, TransformerDecoderLayer, TransformerEncoder,
                           TransformerEncoderLayer)
from .wrap import (DistributedGradReducer, DynamicLossScaleUpdateCell, FixedLossScaleUpdateCell, GradAccumulationCell,
                   MicroBatchInterleaved, PipelineCell, PipelineGradReducer, TrainOneStepCell,
                   TrainOneStepWithLossScaleCell, WithEvalCell, WithLossCell)

globals().update(functions.cells)
metric = metrics
names = metrics.metrics_called
layers.activations.update({name.lower(): kind for name, kind in functions.cells.items() if name in (
    "ReLU6", "ELU", "LeakyReLU", "LogSoftmax", "HSwish", "HSigmoid", "LogSigmoid", "Mish", "Softsign")} | {"prelu": PReLU})
__getattr__ = missing("mindspore.nn", globals())

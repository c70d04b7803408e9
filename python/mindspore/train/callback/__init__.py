"""What is called while a model trains."""

from ..._missing import missing
from .base import Callback, CallbackParam, RunContext, _InternalCallbackParam
from .checkpoint import CheckpointConfig, ModelCheckpoint
from .exit import OnRequestExit
from .followers import EarlyStopping, History, LambdaCallback, LearningRateScheduler, SummaryCollector
from .monitors import LossMonitor, TimeMonitor

__getattr__ = missing("mindspore.train.callback", globals())

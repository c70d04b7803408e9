"""Models and what is called while they train."""

from .._missing import missing
from ..nn.metrics import Accuracy, Loss, Metric
from . import callback, model, serialization
from .callback import Callback, CheckpointConfig, LossMonitor, ModelCheckpoint, RunContext, TimeMonitor
from .data_sink import data_sink
from .model import Model
from .serialization import load_checkpoint, load_param_into_net, save_checkpoint

__getattr__ = missing("mindspore.train", globals())

"""Shardwright: write a network for one device; it finds how to split it over many, explains that, and trains it.

    import numpy as np, shardwright as sw

    class Net:
        def __init__(self):
            self.hidden, self.out = sw.nn.Dense(784, 512), sw.nn.Dense(512, 10)
        def __call__(self, x):
            return self.out(sw.ops.relu(self.hidden(x)))

    def loss(net, image, label):
        return sw.ops.cross_entropy(net(image), label)

    step = sw.train_step(loss, Net(), sw.optim.momentum(0.1), devices=8)
    print(step(images, labels).item())
    print(step.explain())

Under `mpirun -n 8 python3 program.py` each process is one of the 8 devices; every process gives the whole batch.
"""

from . import _methods, _names, _ranks, collectives, data, nn, ops, optim
from ._core import (EventFile, Mesh, Parameter, RateSchedule, Tensor, draw_digits, from_dlpack, load_safetensors,
                    save_safetensors, seed, set_seed)
from ._errors import ShardwrightError
from ._gradients import grad, value_and_grad
from .generation import generate
from .plans import Advice, Plan, Spec, advise, import_plan, plan
from .regions import recompute, reshard, shard
from .step import Jitted, ModelStep, PredictStep, TrainStep, jit, model_step, predict_step, train_step
from .training import Fitted, fit

__version__ = "0.1.0"
__all__ = ["Advice", "EventFile", "Fitted", "Jitted", "Mesh", "ModelStep", "Parameter", "Plan", "PredictStep", "RateSchedule",
           "ShardwrightError", "Spec", "Tensor", "TrainStep", "advise", "collectives", "data", "draw_digits", "fit", "from_dlpack", "generate", "grad",
           "import_plan", "jit", "load_safetensors", "model_step", "nn", "ops", "optim", "plan", "predict_step", "recompute", "reshard",
           "save_safetensors", "seed", "set_seed", "shard", "train_step", "value_and_grad"]

__getattr__ = _names.missing_name(__name__, __all__, {
    "tensor": "Tensor", "array": "Tensor", "device_count": "devices=N of train_step", "compile": "jit", "linear": "nn.Dense",
})

_ranks.watch()

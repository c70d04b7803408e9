"""Modules of PyTorch, planned and trained by Shardwright.

    import shardwright, shardwright.torch as st

    step = st.train_step(module, shardwright.optim.adamw(1e-3), loss=lambda m, x, y: F.cross_entropy(m(x), y), devices=4)
    for x, y in batches:
        print(step(x, y))             # the loss
    step.write_back()                 # the module has the trained weights

    print(st.plan(module, (x, y), loss=..., cluster="h100:64"))

The module and its loss are exported once (`torch.export`); the graph that comes of it is planned like any other.
"""

try:
    import torch as _torch
except ModuleNotFoundError as _missing:
    raise ImportError("shardwright.torch needs PyTorch 2.4 or newer, which is not installed") from _missing

if tuple(int(_part) for _part in _torch.__version__.split("+")[0].split(".")[:2]) < (2, 4):
    raise ImportError(f"shardwright.torch needs PyTorch 2.4 or newer; here is {_torch.__version__}")

from ._export import exported
from .step import TorchStep, emit, export, plan, train_step

__all__ = ["TorchStep", "emit", "export", "exported", "plan", "train_step"]

"""What evaluation counts."""

from __future__ import annotations

import numpy

from .._missing import missing, near
from ..common.tensor import Tensor


def _array(x) -> numpy.ndarray:
    return x.asnumpy() if isinstance(x, Tensor) else numpy.asarray(x)


class Metric:
    """`clear`, `update(*what a batch gives)`, `eval()`."""

    def clear(self) -> None:
        raise NotImplementedError

    def update(self, *inputs) -> None:
        raise NotImplementedError

    def eval(self) -> float:
        raise NotImplementedError


class Accuracy(Metric):
    """The share of rows whose largest output is that of the label."""

    def __init__(self, eval_type: str = "classification"):
        if eval_type != "classification":
            raise ValueError(f"Accuracy of '{eval_type}' is not in this front end; there is classification")
        self.clear()

    def clear(self) -> None:
        self.right = self.count = 0

    def update(self, *inputs) -> None:
        outputs, labels = _array(inputs[0]), _array(inputs[1])
        if labels.ndim == outputs.ndim:
            labels = labels.argmax(-1)
        self.right += int((outputs.argmax(-1) == labels).sum())
        self.count += labels.size

    def eval(self) -> float:
        if not self.count:
            raise RuntimeError("Accuracy has seen no batch yet")
        return self.right / self.count


class Loss(Metric):
    """The mean of losses of batches."""

    def __init__(self):
        self.clear()

    def clear(self) -> None:
        self.total = self.batches = 0

    def update(self, *inputs) -> None:
        self.total += float(_array(inputs[0]).mean())
        self.batches += 1

    def eval(self) -> float:
        if not self.batches:
            raise RuntimeError("Loss has seen no batch yet")
        return self.total / self.batches


_names = {"accuracy": Accuracy, "acc": Accuracy, "loss": Loss}


def metrics_called(metrics) -> dict[str, Metric]:
    """Of names, or a dict of metrics. Raises: KeyError of an unknown name."""
    if isinstance(metrics, dict):
        return dict(metrics)
    out = {}
    for name in metrics or ():
        if name not in _names:
            raise KeyError(f"metric '{name}' is unknown{near(name, _names)}; there are {', '.join(_names)}")
        out[name] = _names[name]()
    return out


__getattr__ = missing("mindspore.nn.metrics", globals())

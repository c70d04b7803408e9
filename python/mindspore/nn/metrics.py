"""What evaluation counts."""

from __future__ import annotations

import math
import sys

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


def _pair(inputs: tuple, who: str) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Outputs and labels. Raises: ValueError of another number of inputs."""
    if len(inputs) != 2:
        raise ValueError(f"{who} takes outputs and labels, not {len(inputs)} inputs")
    return _array(inputs[0]), _array(inputs[1])


def _numbers(outputs: numpy.ndarray, labels: numpy.ndarray) -> numpy.ndarray:
    """Of labels that are a 1 among zeros its places."""
    return labels.argmax(1) if labels.ndim == outputs.ndim else labels


class _OfLabels(Metric):
    """Of rows with one label each (classification), or with a 0 or 1 for each class (multilabel)."""

    def __init__(self, eval_type: str = "classification"):
        if eval_type not in ("classification", "multilabel"):
            raise ValueError(f"{type(self).__name__} is of classification or multilabel, not '{eval_type}'")
        self.eval_type = eval_type
        self.clear()

    def _seen(self) -> None:
        if not self.count:
            raise RuntimeError(f"{type(self).__name__} has seen no batch yet")


class Accuracy(_OfLabels):
    """The share of rows whose largest output is that of the label, or all of whose outputs are the labels."""

    def clear(self) -> None:
        self.right = self.count = 0

    def update(self, *inputs) -> None:
        outputs, labels = _pair(inputs, "Accuracy")
        if self.eval_type == "classification":
            found = outputs.argmax(1) == _numbers(outputs, labels)
        else:
            outputs, labels = (x.swapaxes(1, x.ndim - 1).reshape(-1, outputs.shape[1]) for x in (outputs, labels))
            found = (outputs == labels).all(1)
        self.right += int(found.sum())
        self.count += found.size

    def eval(self) -> float:
        self._seen()
        return self.right / self.count


_least = sys.float_info.min


class _OfHits(_OfLabels):
    """Counts, class by class, what is found, what there is and what of it is found."""

    def clear(self) -> None:
        self.hits = self.found = self.there = 0
        self.rates: list[numpy.ndarray] = []
        self.count = 0

    def update(self, *inputs) -> None:
        outputs, labels = _pair(inputs, type(self).__name__)
        classes = outputs.shape[1]
        if self.eval_type == "classification":
            places = _numbers(outputs, labels).reshape(-1)
            if places.max() >= classes:
                raise ValueError(f"{type(self).__name__}: label {places.max()} is none of {classes} classes")
            labels, outputs = numpy.eye(classes)[places], numpy.eye(classes)[outputs.argmax(1).reshape(-1)]
        else:
            outputs, labels = (x.swapaxes(0, 1).reshape(classes, -1) for x in (outputs, labels))
        self.count += labels.shape[0]
        counts = (outputs * labels).sum(0), outputs.sum(0), labels.sum(0)
        if self.eval_type == "classification":
            self.hits, self.found, self.there = (a + b for a, b in zip((self.hits, self.found, self.there), counts))
        else:
            self.rates.append(self._rate(*counts))

    def _rate(self, hits, found, there) -> numpy.ndarray:
        raise NotImplementedError

    def eval(self, average: bool = False):
        """Of each class, or their mean."""
        self._seen()
        rates = numpy.concatenate(self.rates) if self.rates else self._rate(self.hits, self.found, self.there)
        return rates.mean() if average else rates


class Precision(_OfHits):
    """Of what is found, the share that is there."""

    def _rate(self, hits, found, there):
        return hits / (found + _least)


class Recall(_OfHits):
    """Of what is there, the share that is found."""

    def _rate(self, hits, found, there):
        return hits / (there + _least)


class Fbeta(_OfHits):
    """(1 + beta^2) hits / (beta^2 there + found)"""

    def __init__(self, beta: float):
        if beta <= 0:
            raise ValueError(f"beta of Fbeta is above 0, not {beta}")
        self.beta = beta
        super().__init__()

    def _rate(self, hits, found, there):
        return (1.0 + self.beta**2) * hits / (self.beta**2 * there + found + _least)


class F1(Fbeta):
    """Fbeta for beta 1."""

    def __init__(self):
        super().__init__(1.0)


class _Mean(Metric):
    """The sum of what `of` says of each batch, by the number of rows."""

    def __init__(self):
        self.clear()

    def clear(self) -> None:
        self.total, self.count = 0.0, 0

    def update(self, *inputs) -> None:
        outputs, labels = _pair(inputs, type(self).__name__)
        self.total += self.of(outputs, labels)
        self.count += self.rows(labels)

    def rows(self, labels) -> int:
        return labels.shape[0]

    def of(self, outputs, labels) -> float:
        raise NotImplementedError

    def eval(self) -> float:
        if not self.count:
            raise RuntimeError(f"{type(self).__name__} has seen no batch yet")
        return self.total / self.count


class MAE(_Mean):
    """Sums of |outputs - labels| by rows."""

    def of(self, outputs, labels):
        return numpy.abs(labels.reshape(outputs.shape) - outputs).sum()


class MSE(_Mean):
    """Sums of (outputs - labels)^2 by rows."""

    def of(self, outputs, labels):
        return numpy.power(labels.reshape(outputs.shape) - outputs, 2).sum()


class TopKCategoricalAccuracy(_Mean):
    """The share of rows whose label is among the k largest outputs."""

    def __init__(self, k: int):
        if not isinstance(k, int) or k < 1:
            raise ValueError(f"k of TopKCategoricalAccuracy is a whole number above 0, not {k!r}")
        self.k = k
        super().__init__()

    def of(self, outputs, labels):
        best = numpy.argsort(-outputs, axis=1)[:, :self.k]
        return int((best == _numbers(outputs, labels).reshape(-1, 1)).sum())


class Top1CategoricalAccuracy(TopKCategoricalAccuracy):
    def __init__(self):
        super().__init__(1)


class Top5CategoricalAccuracy(TopKCategoricalAccuracy):
    def __init__(self):
        super().__init__(5)


class Dice(_Mean):
    """2 both / (outputs^2 + labels^2) of batches, by rows."""

    def __init__(self, smooth: float = 1e-5):
        self.smooth = smooth
        super().__init__()

    def of(self, outputs, labels):
        x, y = outputs.flatten(), labels.flatten()
        return 2 * float(numpy.dot(x, y)) / float(numpy.dot(x, x) + numpy.dot(y, y) + self.smooth)


class Perplexity(_Mean):
    """e^(mean of -log p[label])"""

    def __init__(self, ignore_label: int | None = None):
        self.ignore_label = ignore_label
        super().__init__()

    def update(self, *inputs) -> None:
        outputs, labels = _pair(inputs, "Perplexity")
        rows = outputs.reshape(-1, outputs.shape[-1])
        places = labels.reshape(-1).astype(numpy.int32)
        shares = rows[numpy.arange(len(places)), places]
        if self.ignore_label is not None:
            is_out = places == self.ignore_label
            shares = numpy.where(is_out, 1.0, shares)
            self.count -= int(is_out.sum())
        self.total -= float(numpy.log(numpy.maximum(1e-10, shares)).sum())
        self.count += places.size

    def eval(self) -> float:
        return math.exp(super().eval())


class ConfusionMatrix(Metric):
    """Rows are labels, columns what is found; normalize: by rows (target), columns (prediction), all, or not (no_norm)."""

    def __init__(self, num_classes: int, normalize: str = "no_norm", threshold: float = 0.5):
        if normalize not in ("target", "prediction", "all", "no_norm"):
            raise ValueError(f"normalize of ConfusionMatrix is target, prediction, all or no_norm, not {normalize!r}")
        self.num_classes, self.normalize, self.threshold = num_classes, normalize, threshold
        self.clear()

    def clear(self) -> None:
        self.counts, self.is_seen = numpy.zeros((self.num_classes, self.num_classes)), False

    def update(self, *inputs) -> None:
        outputs, labels = _pair(inputs, "ConfusionMatrix")
        if outputs.ndim == labels.ndim + 1:
            outputs = outputs.argmax(1)
        elif outputs.dtype.kind == "f":
            outputs = outputs >= self.threshold
        numpy.add.at(self.counts, (labels.reshape(-1).astype(int), outputs.reshape(-1).astype(int)), 1)
        self.is_seen = True

    def eval(self) -> numpy.ndarray:
        if not self.is_seen:
            raise RuntimeError("ConfusionMatrix has seen no batch yet")
        if self.normalize == "no_norm":
            return self.counts
        sums = self.counts.sum({"target": 1, "prediction": 0, "all": None}[self.normalize], keepdims=True)
        return numpy.divide(self.counts, sums, out=numpy.zeros_like(self.counts), where=sums != 0)


class CosineSimilarity(Metric):
    """Of each two rows of the last batch."""

    def __init__(self, similarity: str = "cosine", reduction: str = "none", zero_diagonal: bool = True):
        if similarity not in ("cosine", "dot") or reduction not in ("none", "sum", "mean"):
            raise ValueError(f"CosineSimilarity is cosine or dot, and none, sum or mean, not {similarity!r} and {reduction!r}")
        self.similarity, self.reduction, self.zero_diagonal = similarity, reduction, zero_diagonal
        self.clear()

    def clear(self) -> None:
        self.table = None

    def update(self, *inputs) -> None:
        rows = _array(inputs[0])
        if self.similarity == "cosine":
            rows = rows / numpy.linalg.norm(rows, axis=1, keepdims=True)
        self.table = rows @ rows.T

    def eval(self) -> numpy.ndarray:
        if self.table is None:
            raise RuntimeError("CosineSimilarity has seen no batch yet")
        table = self.table.copy()
        if self.zero_diagonal:
            numpy.fill_diagonal(table, 0)
        return table if self.reduction == "none" else table.mean(-1) if self.reduction == "mean" else table.sum(-1)


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


_names = {"accuracy": Accuracy, "acc": Accuracy, "precision": Precision, "recall": Recall, "F1": F1, "dice": Dice, "mae": MAE, "mse": MSE,
          "top_1_accuracy": Top1CategoricalAccuracy, "top_5_accuracy": Top5CategoricalAccuracy, "perplexity": Perplexity,
          "cosine_similarity": CosineSimilarity, "loss": Loss}


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

"""Losses."""

from __future__ import annotations

from ..._missing import missing
from ...ops import functional as F
from ...ops import operations as P
from ..cell import Cell


class LossBase(Cell):
    """Reduces what `construct` computes: mean, sum or none."""

    def __init__(self, reduction: str = "mean"):
        super().__init__()
        if reduction not in ("mean", "sum", "none"):
            raise ValueError(f"reduction is mean, sum or none, not '{reduction}'")
        self.reduction = reduction

    def get_loss(self, x, weights=1.0):
        weighted = x if isinstance(weights, float) and weights == 1.0 else x * weights
        return F.reduced(weighted, self.reduction)


_Loss = LossBase  # an older name


class CrossEntropyLoss(LossBase):
    """-log softmax(logits)[label], of integer labels, or of probabilities of the logits' shape.

    Rows whose label is `ignore_index` do not count; where it is not said, each label is a class.
    """

    def __init__(self, weight=None, ignore_index: int | None = None, reduction: str = "mean", label_smoothing: float = 0.0):
        super().__init__(reduction)
        self.weight, self.ignore_index, self.label_smoothing = weight, ignore_index, label_smoothing

    def construct(self, logits, labels):
        return F.cross_entropy(logits, labels, self.weight, self.ignore_index, self.reduction, self.label_smoothing)


class SoftmaxCrossEntropyWithLogits(LossBase):
    """The same for labels that are probabilities (or, if `sparse`, numbers); one loss for each row unless reduced.

    The primitives say how it is split, if they have strategies; else it is one operator.
    """

    def __init__(self, sparse: bool = False, reduction: str = "none"):
        super().__init__(reduction)
        self.sparse = sparse
        self.softmax_cross_entropy, self.one_hot = P.SoftmaxCrossEntropyWithLogits(), P.OneHot()

    def construct(self, logits, labels):
        if self.softmax_cross_entropy.strategies().get("in_") or self.one_hot.strategies().get("in_"):
            shares = self.one_hot(labels, logits.shape[-1]) if self.sparse else labels
            return self.get_loss(self.softmax_cross_entropy(logits, shares)[0])
        return F.cross_entropy(logits, labels, reduction=self.reduction)


class MAELoss(LossBase):
    """|logits - labels|"""

    def construct(self, logits, labels):
        return self.get_loss(F.abs(logits - labels))


class L1Loss(MAELoss):
    """The same."""


class MSELoss(LossBase):
    """(logits - labels)^2"""

    def construct(self, logits, labels):
        return self.get_loss(F.square(logits - labels))


__getattr__ = missing("mindspore.nn.loss", globals())

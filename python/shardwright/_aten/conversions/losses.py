"""Losses."""

from __future__ import annotations

import numpy as np

from ... import _core, ops
from ..._core import Tensor
from ..walk import At, Value, conversion
from .elementwise import both, scaled, where
from .reductions import reduced
from .shapes import joined, permuted, sliced

_none, _mean, _sum = 0, 1, 2


def averaged(at: At, losses: Tensor, reduction: int) -> Tensor:
    if reduction == _none:
        return losses
    return reduced(at, "reduce_mean" if reduction == _mean else "reduce_sum", losses, None, False)


def _weighted(at: At, losses: Tensor, weights: Value, reduction: int) -> Tensor:
    """The mean is over what counts: the sum of losses by that of weights."""
    weights = _core.cast(at.tensor(weights, like=losses), losses.dtype)
    losses = at.call("mul", losses, weights)
    if reduction == _none:
        return losses
    total = reduced(at, "reduce_sum", losses, None, False)
    return total if reduction == _sum else at.call("div", total, reduced(at, "reduce_sum", weights, None, False))


def _classes_last(at: At, x: Tensor) -> Tensor:
    return x if x.ndim <= 2 else permuted(at, x, [0, *range(2, x.ndim), 1])


def _may_be_left_out(at: At, labels: Value, ignored: int) -> bool:
    """Whether a label may be one that is left out: the program put it there, or the batch has it."""
    if not isinstance(labels, Tensor):
        return bool((np.asarray(labels) == ignored).any())
    return at.ignores_labels or _is_put_in(at, at.node.args.get("target"), ignored)


def _is_put_in(at: At, ref: object, value: int) -> bool:
    """Whether labels were made with this value among them, as by padding."""
    program, left, seen = at.walk.program, [ref], set()
    while left:
        name = left.pop()
        node = program.by_name.get(name) if isinstance(name, str) and name not in seen else None
        if node is None:
            continue
        seen.add(name)
        if any(isinstance(a, (int, float)) and a == value for a in node.args.values()):
            return True
        left.extend(node.refs())
    return False


@conversion("cross_entropy_loss.default")
def cross_entropy(at: At, self: Tensor, target: Value, weight: Value = None, reduction: int = 1, ignore_index: int = -100,
                  label_smoothing: float = 0.0) -> Tensor:
    logits = _classes_last(at, self)
    return cross_entropy_of_last(at, logits, target, weight, reduction, ignore_index, label_smoothing)


def cross_entropy_of_last(at: At, self: Tensor, target: Value, weight: Value = None, reduction: int = 1,
                          ignore_index: int = -100, label_smoothing: float = 0.0) -> Tensor:
    """Of logits whose last dim is the classes."""
    logits, labels = self, at.tensor(target, like=self)
    if "float" in labels.dtype:
        return _of_shares(at, logits, labels, weight, reduction, label_smoothing)
    labels, counts = _counted(at, logits, target, labels, weight, ignore_index)
    if label_smoothing:
        return _smoothed(at, logits, labels, counts, weight, reduction, label_smoothing)
    if counts is None and reduction == _mean:
        return _core.cross_entropy(logits, labels)
    losses = _core.cross_entropy(logits, labels, is_mean=False)
    return averaged(at, losses, reduction) if counts is None else _weighted(at, losses, counts, reduction)


def _counted(at: At, scores: Tensor, target: Value, labels: Tensor, weight: Value, ignore_index: int) -> tuple[Tensor, Value]:
    """Labels of classes there are, and what each counts; None: all alike."""
    counts: Value = None
    if _may_be_left_out(at, target, ignore_index):
        is_out = ops.equal(labels, ignore_index)
        labels = where(at, is_out, 0, labels)
        counts = _core.cast(at.call("logical_not", is_out), _full(at))
    if weight is not None:
        of_class = at.call("gather", at.tensor(weight, like=scores), labels)
        counts = of_class if counts is None else _core.binary("mul", of_class, _core.cast(counts, of_class.dtype))
    return labels, counts


def cross_entropy_of_next(at: At, self: Tensor, labels: Tensor, ignore_index: int) -> Tensor:
    """Of labels [batch, places] moved by one place: the last place is asked nothing."""
    none = np.full([labels.shape[0], 1], ignore_index if at.ignores_labels else 0, np.int64)
    moved = joined(at, [sliced(at, labels, 1, 1, None), none.astype(labels.dtype)], 1)
    if at.ignores_labels:
        return cross_entropy_of_last(at, self, moved, ignore_index=ignore_index)
    losses = _core.cross_entropy(self, moved, is_mean=False)
    return averaged(at, sliced(at, losses, 1, 0, labels.shape[1] - 1), _mean)


def _full(at: At) -> str:
    return "float64" if at.walk.entering("float32") == "float64" or at.node.dtype == "float64" else "float32"


def _smoothed(at: At, logits: Tensor, labels: Tensor, counts: Value, weight: Value, reduction: int, smoothing: float) -> Tensor:
    """A share of each label goes to all classes alike."""
    if weight is not None:
        raise at.refuse("with weights and label_smoothing together has no counterpart here")
    losses = _core.cross_entropy(logits, labels, is_mean=False)
    uniform = at.call("neg", reduced(at, "reduce_mean", at.call("log_softmax", logits, dim=logits.ndim - 1), [-1], False))
    mixed = _core.binary("add", scaled(at, losses, 1 - smoothing), scaled(at, uniform, smoothing))
    return averaged(at, mixed, reduction) if counts is None else _weighted(at, mixed, counts, reduction)


def _of_shares(at: At, logits: Tensor, shares: Tensor, weight: Value, reduction: int, smoothing: float) -> Tensor:
    """Labels that are shares of each class."""
    classes = logits.shape[-1]
    if shares.ndim > 2:
        shares = _classes_last(at, shares)
    if smoothing:
        shares = both(at, "add", scaled(at, shares, 1 - smoothing), smoothing / classes)
    terms = _core.binary("mul", at.call("log_softmax", logits, dim=logits.ndim - 1), shares)
    if weight is not None:
        terms = _core.binary("mul", terms, at.tensor(weight, like=logits))
    return averaged(at, at.call("neg", reduced(at, "reduce_sum", terms, [-1], False)), reduction)


@conversion("nll_loss.default", "nll_loss_nd.default", "nll_loss2d.default", "nll_loss_forward.default")
def nll_loss(at: At, self: Tensor, target: Tensor, weight: Value = None, reduction: int = 1, ignore_index: int = -100) -> Value:
    x = _classes_last(at, self)
    labels, counts = _counted(at, x, target, at.tensor(target), weight, ignore_index)
    hot = at.call("one_hot", labels, depth=x.shape[-1], dtype=_core.short_name(x.dtype))
    losses = at.call("neg", reduced(at, "reduce_sum", at.call("mul", x, hot), [-1], False))
    y = averaged(at, losses, reduction) if counts is None else _weighted(at, losses, counts, reduction)
    return (y, None) if at.node.op == "aten.nll_loss_forward.default" else y


@conversion("mse_loss.default")
def mse_loss(at: At, self: Value, target: Value, reduction: int = 1) -> Tensor:
    if reduction == _mean and isinstance(self, Tensor) and isinstance(target, Tensor) and self.shape == target.shape:
        return at.call("mean_squared_error", self, _core.cast(target, self.dtype))
    return averaged(at, at.call("square", both(at, "sub", self, target)), reduction)


@conversion("l1_loss.default")
def l1_loss(at: At, self: Value, target: Value, reduction: int = 1) -> Tensor:
    return averaged(at, at.call("abs", both(at, "sub", self, target)), reduction)


@conversion("smooth_l1_loss.default", "huber_loss.default")
def huber_loss(at: At, self: Value, target: Value, reduction: int = 1, beta: float = 1.0, delta: float = 1.0) -> Tensor:
    """Quadratic up to an end, linear behind: with c = min(|d|, end), c^2 / 2 + end (|d| - c)."""
    is_huber = "huber" in at.node.op
    end = delta if is_huber else beta
    far = at.call("abs", both(at, "sub", self, target))
    near = at.call("clip", far, max=float(end))
    square = scaled(at, at.call("square", near), 0.5)
    y = _core.binary("add", square, scaled(at, _core.binary("sub", far, near), end))
    return averaged(at, y if is_huber else scaled(at, y, 1 / end), reduction)


@conversion("binary_cross_entropy_with_logits.default")
def binary_cross_entropy_with_logits(at: At, self: Tensor, target: Value, weight: Value = None, pos_weight: Value = None,
                                     reduction: int = 1) -> Tensor:
    targets = at.tensor(target, like=self)
    if pos_weight is not None:  # (1 - t) x + (1 + (w - 1) t) log(1 + e^-x)
        more = both(at, "add", both(at, "mul", targets, both(at, "sub", pos_weight, 1.0)), 1.0)
        y = _core.binary("add", _core.binary("mul", both(at, "sub", 1.0, targets), self),
                         _core.binary("mul", more, at.call("softplus", at.call("neg", self))))
    else:
        y = at.call("sigmoid_cross_entropy", self, _core.cast(targets, self.dtype))
    if weight is not None:
        y = both(at, "mul", y, weight)
    return averaged(at, y, reduction)


@conversion("binary_cross_entropy.default")
def binary_cross_entropy(at: At, self: Tensor, target: Value, weight: Value = None, reduction: int = 1) -> Tensor:
    """Logarithms are at least -100, as PyTorch has it."""
    targets = at.tensor(target, like=self)
    logs = at.call("clip", at.call("log", self), min=-100.0)
    others = at.call("clip", at.call("log", both(at, "sub", 1.0, self)), min=-100.0)
    y = at.call("neg", _core.binary("add", _core.binary("mul", targets, logs),
                                    _core.binary("mul", both(at, "sub", 1.0, targets), others)))
    return averaged(at, y if weight is None else both(at, "mul", y, weight), reduction)


@conversion("kl_div.default")
def kl_div(at: At, self: Tensor, target: Tensor, reduction: int = 1, log_target: bool = False) -> Tensor:
    if log_target:
        return averaged(at, _core.binary("mul", at.call("exp", target), _core.binary("sub", target, self)), reduction)
    logs = at.call("log", at.call("clip", target, min=1e-38))
    return averaged(at, _core.binary("mul", target, _core.binary("sub", logs, self)), reduction)

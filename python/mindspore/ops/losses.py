"""Losses as functions."""

from __future__ import annotations

import math

import numpy

from ..common import dtype as mstype
from ..common.tensor import Tensor
from . import operations as P
from .arrangements import unstack
from .pointwise import filled_like, log, logaddexp, softplus_of, where
from .primitive import as_tensor, by_core
from .reductions import sliced, taken_along, vector_norm


def reduced(x: Tensor, reduction: str, kinds=("mean", "sum", "none")) -> Tensor:
    """As losses say it: mean, sum or none. Raises: ValueError of another."""
    if reduction not in kinds:
        raise ValueError(f"reduction is {', '.join(kinds[:-1])} or {kinds[-1]}, not '{reduction}'")
    if reduction == "none":
        return x
    return (P.ReduceMean() if reduction == "mean" else P.ReduceSum())(x)


def smooth_l1_loss(input, target, beta=1.0, reduction="none"):
    """Half a square up to beta, a line from there on."""
    size = P.Abs()(input - target)
    square = P.Square()(size) * (0.5 / beta) if beta else size
    return reduced(where(size < float(beta), square, size - 0.5 * beta), reduction)


def huber_loss(input, target, reduction="mean", delta=1.0):
    size = P.Abs()(input - target)
    return reduced(where(size <= float(delta), P.Square()(size) * 0.5, (size - 0.5 * delta) * delta), reduction)


def kl_div(logits, labels, reduction="mean"):
    """labels (log labels - logits)"""
    is_zero = labels <= 0
    terms = where(is_zero, 0.0, labels * (log(where(is_zero, 1.0, labels)) - logits))
    if reduction == "batchmean":
        return P.ReduceSum()(terms) * (1 / logits.shape[0])
    return reduced(terms, reduction, ("mean", "sum", "batchmean", "none"))


def nll_loss(inputs, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    """-inputs[label] of rows; of more dims, classes are dim 1."""
    x = inputs
    if len(x.shape) > 2:
        order = [0, *range(2, len(x.shape)), 1]
        x = P.Reshape()(P.Transpose()(x, order), (-1, x.shape[1]))
    x = P.ExpandDims()(x, 0) if len(x.shape) == 1 else x
    labels = P.Reshape()(target, (-1,))
    is_counted = labels != ignore_index
    labels = where(is_counted, labels, P.ZerosLike()(labels))
    shares = P.Cast()(is_counted, x.dtype)
    own = shares if weight is None else shares * P.Gather()(weight, labels, 0)
    losses = -P.Squeeze(1)(taken_along(x, P.ExpandDims()(labels, 1), 1)) * own
    if label_smoothing:
        of_all = x if weight is None else x * weight
        smooth = -P.ReduceSum()(of_all, 1) * shares
        losses = losses * (1 - label_smoothing) + smooth * (label_smoothing / x.shape[1])
    if reduction == "mean":
        return P.ReduceSum()(losses) / P.ReduceSum()(own)
    return reduced(P.Reshape()(losses, target.shape) if reduction == "none" else losses, reduction)


def binary_cross_entropy(logits, labels, weight=None, reduction="mean"):
    """-(labels log p + (1 - labels) log(1 - p))"""
    least = 1e-12
    terms = -(labels * log(P.Maximum()(logits, least)) + (1 - labels) * log(P.Maximum()(1 - logits, least)))
    return reduced(terms if weight is None else terms * weight, reduction)


def binary_cross_entropy_with_logits(input, target, weight=None, pos_weight=None, reduction="mean"):
    x = as_tensor(input)
    if pos_weight is None:
        terms = by_core("sigmoid_cross_entropy", x, target)
    else:
        factor = 1 + (pos_weight - 1) * target
        terms = (1 - target) * x + factor * softplus_of(-x)
    return reduced(terms if weight is None else terms * weight, reduction)


def cosine_embedding_loss(input1, input2, target, margin=0.0, reduction="mean"):
    """1 - cosine where the target is 1, the cosine beyond the margin where it is -1."""
    dots, a, b = (P.ReduceSum()(t, -1) for t in (input1 * input2, input1 * input1, input2 * input2))
    cosine = dots / P.Sqrt()((a + 1e-12) * (b + 1e-12))
    return reduced(where(target == 1, 1 - cosine, P.ReLU()(cosine - float(margin))), reduction)


def margin_ranking_loss(input1, input2, target, margin=0.0, reduction="mean"):
    return reduced(P.ReLU()(-target * (input1 - input2) + float(margin)), reduction)


def hinge_embedding_loss(inputs, targets, margin=1.0, reduction="mean"):
    return reduced(where(targets == 1, inputs, P.ReLU()(float(margin) - inputs)), reduction)


def multi_margin_loss(input, target, p=1, margin=1, weight=None, reduction="mean"):
    own = taken_along(input, P.ExpandDims()(target, 1), 1)
    terms = P.ReLU()(input - own + float(margin))
    terms = terms if p == 1 else P.Square()(terms)
    terms = terms if weight is None else terms * P.ExpandDims()(P.Gather()(weight, target, 0), 1)
    hot = by_core("one_hot", target, depth=input.shape[1], dtype="f32")
    return reduced(P.ReduceSum()(terms * (1 - hot), 1) * (1 / input.shape[1]), reduction)


def multilabel_margin_loss(input, target, reduction="mean"):
    """Labels of a row stand before a -1."""
    x = input if len(input.shape) == 2 else P.ExpandDims()(input, 0)
    y = target if len(input.shape) == 2 else P.ExpandDims()(target, 0)
    ended = P.CumSum()(P.Cast()(y < 0, mstype.float32), 1) > 0
    is_label = P.Cast()(P.LogicalNot()(ended), mstype.float32)
    labels = where(ended, P.ZerosLike()(y), y)
    hot = P.ReduceSum()(by_core("one_hot", labels, depth=x.shape[1], dtype="f32") * P.ExpandDims()(is_label, 2), 1)
    own = taken_along(x, labels, 1)
    terms = P.ReLU()(1 - P.ExpandDims()(own, 2) + P.ExpandDims()(x, 1))
    terms = terms * P.ExpandDims()(is_label, 2) * P.ExpandDims()(1 - hot, 1)
    losses = P.ReduceSum()(terms, (1, 2)) * (1 / x.shape[1])
    return reduced(losses if len(input.shape) == 2 else P.Squeeze(0)(losses), reduction)


def multilabel_soft_margin_loss(input, target, weight=None, reduction="mean"):
    terms = target * softplus_of(-input) + (1 - target) * softplus_of(input)
    terms = terms if weight is None else terms * weight
    return reduced(P.ReduceMean()(terms, -1), reduction)


def soft_margin_loss(input, target, reduction="mean"):
    return reduced(softplus_of(-target * input), reduction)


def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2, eps=1e-06, swap=False, reduction="mean"):
    def distance(a, b):
        return vector_norm(a - b + float(eps), p, -1)

    far = distance(anchor, negative)
    far = P.Minimum()(far, distance(positive, negative)) if swap else far
    margin = margin if isinstance(margin, Tensor) else float(margin)
    return reduced(P.ReLU()(distance(anchor, positive) - far + margin), reduction)


def gaussian_nll_loss(x, target, var, full=False, eps=1e-06, reduction="mean"):
    spread = P.Maximum()(var, float(eps))
    losses = (log(spread) + P.Square()(x - target) / spread) * 0.5
    return reduced(losses + 0.5 * math.log(2 * math.pi) if full else losses, reduction)


def poisson_nll_loss(input, target, log_input=True, full=False, eps=1e-08, reduction="mean"):
    losses = P.Exp()(input) - target * input if log_input else input - target * log(input + float(eps))
    if full:
        terms = target * log(target) - target + 0.5 * log(2 * math.pi * target)
        losses = losses + where(target > 1, terms, 0.0)
    return reduced(losses, reduction)


def _log_of_sums(x, y, z=None) -> Tensor:
    total = logaddexp(x, y)
    return total if z is None else logaddexp(total, z)


_never = -1e30


def ctc_losses(log_probs, targets, input_lengths, target_lengths, blank: int) -> tuple[Tensor, Tensor]:
    """-log of the sum over all paths through [time, batch, classes] that read as the targets, time by time from the start; and the
    logarithms of sums up to each time, [batch, time, places]."""
    steps, batch, _ = log_probs.shape
    labels = P.Cast()(targets, mstype.int32)
    count = labels.shape[1]
    width = 2 * count + 1
    blanks = P.OnesLike()(labels) * blank
    path = P.Reshape()(P.Stack(2)([blanks, labels]), (batch, 2 * count))
    path = P.Concat(1)([path, sliced(blanks, 1, 0, 1)])
    # A label may be reached from the one before it where they differ and it is no blank.
    two_before = P.Concat(1)([P.OnesLike()(sliced(path, 1, 0, 2)) * -1, sliced(path, 1, 0, width - 2)])
    may_skip = P.LogicalAnd()(path != blank, path != two_before)
    lengths, ends = (P.Reshape()(P.Cast()(as_tensor(t), mstype.int32), (batch, 1)) for t in (input_lengths, target_lengths))
    places = Tensor(numpy.arange(width, dtype=numpy.int32).reshape(1, width))
    emitted = [taken_along(step, path, 1) for step in unstack(log_probs, 0)]
    never = filled_like(emitted[0], _never)

    def behind(x, by: int) -> Tensor:
        return P.Concat(1)([sliced(never, 1, 0, by), sliced(x, 1, 0, width - by)])

    alpha = where(P.BroadcastTo((batch, width))(places < 2), emitted[0], never)
    alphas = [alpha]
    for t in range(1, steps):
        skipped = where(may_skip, behind(alpha, 2), never)
        grown = _log_of_sums(alpha, behind(alpha, 1), skipped) + emitted[t]
        alpha = where(P.BroadcastTo((batch, width))(lengths > t), grown, alpha)
        alphas.append(alpha)
    is_end = P.LogicalOr()(places == ends * 2, places == ends * 2 - 1)
    last = where(is_end, alpha, never)
    top = by_core("stop_gradient", by_core("reduce_max", last, dims=[1], keep=True))
    losses = -(log(P.ReduceSum()(P.Exp()(last - top), 1)) + P.Squeeze(1)(top))
    return losses, by_core("stop_gradient", P.Stack(1)(alphas))


def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    """The losses, reduced (mean: each by its number of labels), and the logarithms of sums up to each time."""
    losses, alphas = ctc_losses(log_probs, targets, input_lengths, target_lengths, blank)
    if zero_infinity:
        losses = where(losses > 1e20, 0.0, losses)
    if reduction == "mean":
        counts = P.Maximum()(P.Cast()(as_tensor(target_lengths), losses.dtype), 1.0)
        return P.ReduceMean()(losses / counts), alphas
    return reduced(losses, reduction), alphas


functions = {
    "smooth_l1_loss": smooth_l1_loss, "huber_loss": huber_loss, "kl_div": kl_div, "nll_loss": nll_loss,
    "binary_cross_entropy": binary_cross_entropy, "binary_cross_entropy_with_logits": binary_cross_entropy_with_logits,
    "cosine_embedding_loss": cosine_embedding_loss, "margin_ranking_loss": margin_ranking_loss,
    "hinge_embedding_loss": hinge_embedding_loss, "multi_margin_loss": multi_margin_loss,
    "multilabel_margin_loss": multilabel_margin_loss, "multilabel_soft_margin_loss": multilabel_soft_margin_loss,
    "soft_margin_loss": soft_margin_loss, "triplet_margin_loss": triplet_margin_loss, "gaussian_nll_loss": gaussian_nll_loss,
    "poisson_nll_loss": poisson_nll_loss, "ctc_loss": ctc_loss}

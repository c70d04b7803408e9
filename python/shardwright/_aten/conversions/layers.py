"""Products, norms, embeddings and attention."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from ... import _core, ops
from ..._core import Tensor
from ..walk import At, Value, conversion, thinned
from .elementwise import both, dropped, scaled, shifted, where
from .indices import rows_of
from .reductions import largest, reduced
from .shapes import broadcast, reshaped


@conversion("linear.default")
def linear(at: At, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    y = at.call("matmul", input, weight, transpose_b=True)
    return y if bias is None else at.call("add", y, bias)


@conversion("mm.default", "bmm.default", "matmul.default")
def matmul(at: At, self: Value, other: Value | None = None, mat2: Value | None = None) -> Tensor:
    a, b = self, other if other is not None else mat2
    like = a if isinstance(a, Tensor) else b
    a, b = at.tensor(a, like=like), at.tensor(b, like=like)
    if a.ndim == 1 or b.ndim == 1:  # a vector is a row or a column that falls away again
        y = at.call("matmul", ops.expand_dims(a, 0) if a.ndim == 1 else a, ops.expand_dims(b, 1) if b.ndim == 1 else b)
        y = ops.squeeze(y, -1) if b.ndim == 1 else y
        return ops.squeeze(y, -1 if b.ndim != 1 and y.ndim == 1 else y.ndim - 2 if b.ndim != 1 else y.ndim - 1) \
            if a.ndim == 1 else y
    return at.call("matmul", a, b)


@conversion("outer.default")
def outer(at: At, self: Value, vec2: Value) -> Tensor:
    return both(at, "mul", reshaped(at, at.tensor(self), [-1, 1]), vec2)


@conversion("addmm.default", "baddbmm.default")
def addmm(at: At, self: Value, mat1: Value | None = None, mat2: Value | None = None, beta: float = 1, alpha: float = 1,
          batch1: Value | None = None, batch2: Value | None = None) -> Tensor:
    y = scaled(at, matmul(at, mat1 if mat1 is not None else batch1, mat2 if mat2 is not None else batch2), alpha)
    if beta == 0:
        return y
    return both(at, "add", y, scaled(at, self, beta) if isinstance(self, Tensor) else np.multiply(self, beta))


@conversion("layer_norm.default")
def layer_norm(at: At, input: Tensor, normalized_shape: Sequence[int], weight: Value = None, bias: Value = None,
               eps: float = 1e-5, cudnn_enable: bool = True) -> Tensor:
    gamma = at.tensor(np.ones(normalized_shape, np.float32) if weight is None else weight, like=input)
    beta = at.tensor(np.zeros(normalized_shape, np.float32) if bias is None else bias, like=input)
    return at.call("layer_norm", input, gamma, beta, epsilon=float(eps))


@conversion("rms_norm.default")
def rms_norm(at: At, input: Tensor, normalized_shape: Sequence[int], weight: Value = None, eps: float | None = None) -> Tensor:
    if eps is None:
        eps = float(np.finfo("float32" if input.dtype == "bfloat16" else input.dtype).eps)
    gamma = at.tensor(np.ones(normalized_shape, np.float32) if weight is None else weight, like=input)
    return at.call("rms_norm", input, gamma, epsilon=float(eps))


@conversion("group_norm.default")
def group_norm(at: At, input: Tensor, num_groups: int, weight: Value = None, bias: Value = None, eps: float = 1e-5,
               cudnn_enabled: bool = True) -> Tensor:
    channels = input.shape[1]
    gamma = at.tensor(np.ones(channels, np.float32) if weight is None else weight, like=input)
    beta = at.tensor(np.zeros(channels, np.float32) if bias is None else bias, like=input)
    return at.call("group_norm", input, gamma, beta, groups=num_groups, epsilon=float(eps))


@conversion("native_group_norm.default")
def native_group_norm(at: At, input: Tensor, weight: Value, bias: Value, N: int, C: int, HxW: int, group: int,
                      eps: float) -> Any:
    return group_norm(at, input, group, weight, bias, eps), None, None


@conversion("instance_norm.default")
def instance_norm(at: At, input: Tensor, weight: Value = None, bias: Value = None, running_mean: Value = None,
                  running_var: Value = None, use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-5,
                  cudnn_enabled: bool = True) -> Tensor:
    if not use_input_stats or running_mean is not None:
        raise at.refuse("with running statistics has no counterpart here")
    return group_norm(at, input, input.shape[1], weight, bias, eps)


@conversion("_native_batch_norm_legit_functional.default")
def batch_norm(at: At, input: Tensor, running_mean: Tensor, running_var: Tensor, training: bool, momentum: float,
               eps: float, weight: Value = None, bias: Value = None) -> Any:
    """By the statistics of the whole batch, however it is split; the running ones move with the step."""
    gamma, beta = _of_channels(at, input, weight, bias)
    if not training:
        return (_normed(at, input, gamma, beta, running_mean, running_var, eps), *[None] * 4)
    moments = at.call("batch_moments", input)
    y = at.call("batch_norm", input, gamma, beta, moments, epsilon=float(eps))
    mean, variance = at.call("running_moments", running_mean, running_var, moments, momentum=float(momentum),
                             count=float(input.size // input.shape[1]))
    return y, None, None, mean, variance


def _of_channels(at: At, x: Tensor, weight: Value, bias: Value) -> tuple[Tensor, Tensor]:
    channels = x.shape[1]
    return (at.tensor(np.ones(channels, np.float32) if weight is None else weight, like=x),
            at.tensor(np.zeros(channels, np.float32) if bias is None else bias, like=x))


@conversion("_native_batch_norm_legit_no_training.default")
def batch_norm_of_eval(at: At, input: Tensor, running_mean: Value, running_var: Value, momentum: float, eps: float,
                       weight: Value = None, bias: Value = None) -> Any:
    gamma, beta = _of_channels(at, input, weight, bias)
    return _normed(at, input, gamma, beta, running_mean, running_var, eps), None, None


@conversion("batch_norm.default")
def batch_norm_called(at: At, input: Tensor, weight: Value = None, bias: Value = None, running_mean: Value = None,
                      running_var: Value = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
                      cudnn_enabled: bool = True) -> Tensor:
    gamma, beta = _of_channels(at, input, weight, bias)
    if training:
        raise at.refuse("in training should have been made functional")
    return _normed(at, input, gamma, beta, running_mean, running_var, eps)


@conversion("_native_batch_norm_legit.no_stats")
def batch_norm_without_states(at: At, input: Tensor, training: bool, momentum: float, eps: float, weight: Value = None,
                              bias: Value = None) -> Any:
    dims = [0, *range(2, input.ndim)]
    mean = reduced(at, "reduce_mean", input, dims, True)
    centred = at.call("sub", input, mean)
    variance = reduced(at, "reduce_mean", at.call("square", centred), dims, True)
    y = at.call("mul", centred, at.call("rsqrt", shifted(at, variance, eps)))
    gamma, beta = (_along_channels(at, t, input.ndim) for t in _of_channels(at, input, weight, bias))
    return at.call("add", at.call("mul", y, gamma), beta), None, None


def _along_channels(at: At, x: Tensor, rank: int) -> Tensor:
    return reshaped(at, x, [x.size] + [1] * (rank - 2))


def _normed(at: At, x: Tensor, gamma: Tensor, beta: Tensor, mean: Value, variance: Value, eps: float) -> Tensor:
    """By what is known already."""
    mean, variance = at.tensor(mean, like=x), at.tensor(variance, like=x)
    slope = _core.binary("mul", gamma, at.call("rsqrt", shifted(at, variance, eps)))
    offset = _core.binary("sub", beta, _core.binary("mul", mean, slope))
    y = _core.binary("add", _core.binary("mul", x, _along_channels(at, slope, x.ndim)), _along_channels(at, offset, x.ndim))
    return _core.cast(y, x.dtype)


@conversion("embedding.default")
def embedding(at: At, weight: Tensor, indices: Value, padding_idx: int = -1, scale_grad_by_freq: bool = False,
              sparse: bool = False) -> Tensor:
    if scale_grad_by_freq:
        raise at.refuse("with scale_grad_by_freq has no counterpart here")
    y = rows_of(at, weight, indices, 0)
    if padding_idx < 0:
        return y
    # The row of padding is read and gets no gradient.
    is_padding = both(at, "equal", indices, padding_idx) if isinstance(indices, Tensor) else np.asarray(indices) == padding_idx
    if isinstance(is_padding, np.ndarray) and not is_padding.any():
        return y
    mask = ops.expand_dims(is_padding, is_padding.ndim) if isinstance(is_padding, Tensor) else is_padding[..., None]
    return where(at, mask, at.call("stop_gradient", y), y)


@conversion("embedding_bag.padding_idx", "embedding_bag.default", "_embedding_bag.default")
def embedding_bag(at: At, weight: Tensor, indices: Tensor, offsets: Value, scale_grad_by_freq: bool = False, mode: int = 0,
                  sparse: bool = False, per_sample_weights: Value = None, include_last_offset: bool = False,
                  padding_idx: int | None = None) -> Any:
    """Bags of one length, as a batch [rows, length] has them."""
    if isinstance(offsets, Tensor):
        raise at.refuse("with offsets that are data has no counterpart here; give the indices as [rows, length]")
    starts = np.asarray(offsets)[:-1] if include_last_offset else np.asarray(offsets)
    if indices.size % max(len(starts), 1) or not np.array_equal(starts, np.arange(len(starts)) * (indices.size // len(starts))):
        raise at.refuse("of bags of different lengths has no counterpart here; pad them to one")
    if padding_idx is not None and padding_idx >= 0:
        raise at.refuse("with padding_idx has no counterpart here; give per_sample_weights, which are 0 there")
    length = indices.size // len(starts)
    rows = at.call("gather", weight, reshaped(at, indices, [len(starts), length]))
    if per_sample_weights is not None:
        rows = both(at, "mul", rows, reshaped(at, per_sample_weights, [len(starts), length, 1]))
    y = largest(at, rows, [1], False) if mode == 2 else reduced(at, ("reduce_sum", "reduce_mean")[mode], rows, [1], False)
    return y, None, None, None


# ---- attention ----

def _mask_of(at: At, mask: Value, q: Tensor, k: Tensor) -> tuple[Value, bool]:
    """What is added to scores (None: nothing), and whether keys behind the query are hidden."""
    if mask is None:
        return None, False
    if isinstance(mask, Tensor):
        if mask.dtype == "bool":
            zero = np.zeros((), np.float32)
            mask = _core.cast(where(at, mask, zero, np.float32(-np.inf)), q.dtype)
        return _core.cast(mask, q.dtype), False
    added = np.where(mask, 0.0, -np.inf) if mask.dtype == bool else np.asarray(mask, np.float64)
    if not added.any():
        return None, False
    hidden, shown = added < -1e30, added == 0
    rows, keys = q.shape[2], k.shape[2]
    if np.all(hidden | shown) and rows == keys and mask.shape[-2:] == (rows, keys) \
            and np.array_equal(np.broadcast_to(np.tri(rows, dtype=bool), mask.shape), shown):
        return None, True
    return added.astype(np.float32), False


def _of_heads(at: At, mask: Value, q: Tensor, k: Tensor) -> Tensor:
    """[s, t] or [b or 1, heads or 1, s, t]."""
    if not isinstance(mask, Tensor):
        mask = thinned(mask)
        mask = np.broadcast_to(mask, np.broadcast_shapes(mask.shape, (q.shape[2], k.shape[2])))
        while mask.ndim > 2 and mask.shape[0] == 1:
            mask = mask[0]
        if mask.ndim == 3:
            mask = mask[None]
        return at.tensor(mask, like=q)
    if mask.ndim == 3:
        mask = ops.expand_dims(mask, 0)
    return broadcast(at, mask, [*mask.shape[:-2], q.shape[2], k.shape[2]])


@conversion("scaled_dot_product_attention.default")
def attention(at: At, query: Tensor, key: Tensor, value: Tensor, attn_mask: Value = None, dropout_p: float = 0.0,
              is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False) -> Tensor:
    shape = query.shape
    if query.ndim == 3:  # no heads
        query, key, value = (ops.expand_dims(x, 1) for x in (query, key, value))
        if isinstance(attn_mask, Tensor) and attn_mask.ndim == 3:
            attn_mask = ops.expand_dims(attn_mask, 1)
        elif attn_mask is not None and attn_mask.ndim == 3:
            attn_mask = attn_mask[:, None]
    if query.ndim != 4:
        raise at.refuse(f"of {query.ndim} dims has no counterpart here; reshape it to [batch, heads, rows, features]")
    scale = float(query.shape[-1] ** -0.5 if scale is None else scale)
    mask, hides = _mask_of(at, attn_mask, query, key)
    is_causal = is_causal or hides
    if is_causal and query.shape[2] != key.shape[2]:  # PyTorch's first query sees the first key, ours sees the last ones
        mask, is_causal = np.where(np.tri(query.shape[2], key.shape[2], dtype=bool), 0, -np.inf).astype(np.float32), False
    # What is added to scores has no gradient in the fused operator.
    if dropout_p > 0 or at.is_trained("attn_mask"):
        y = _explicit(at, query, key, value, mask, dropout_p, is_causal, scale)
    else:
        masks = [] if mask is None else [_of_heads(at, mask, query, key)]
        y = at.call("attention", query, key, value, *masks, causal=bool(is_causal), scale=scale)
    return y if len(shape) == 4 else ops.squeeze(y, 1)


def _explicit(at: At, q: Tensor, k: Tensor, v: Tensor, mask: Value, rate: float, is_causal: bool, scale: float) -> Tensor:
    """Scores, what queries take of keys, and the sum, one after the other."""
    sharing = q.shape[1] // k.shape[1]
    if sharing > 1:
        def repeated(x: Tensor) -> Tensor:
            b, h, s, d = x.shape
            return reshaped(at, broadcast(at, ops.expand_dims(x, 2), [b, h, sharing, s, d]), [b, h * sharing, s, d])

        k, v = repeated(k), repeated(v)
    scores = at.call("matmul", q, k, transpose_b=True)
    if mask is not None:
        scores = both(at, "add", scaled(at, scores, scale), mask if isinstance(mask, Tensor) else _of_heads(at, mask, q, k))
        scale = 1.0
    weights = at.call("attention_weights", scores, causal=bool(is_causal), scale=scale)
    return at.call("matmul", dropped(at, weights, rate), v)

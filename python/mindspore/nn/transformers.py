"""Attention of several heads, and the layers of transformers around it."""

from __future__ import annotations

import math
from typing import Callable

from ..common import dtype as mstype
from ..common.initializer import HeUniform, Uniform, XavierNormal, XavierUniform, initializer
from ..common.parameter import Parameter
from ..ops import functional as F
from ..ops import operations as P
from .cell import Cell, CellList
from .layers import Dense, Dropout
from .norms import LayerNorm


class MultiheadAttention(Cell):
    """softmax(q k^T / sqrt(size)) v for each head, of [steps, batch, features], with batch_first [batch, steps, features].

    Gives what comes out and, with need_weights, the weights (their mean over the heads).
    """

    def __init__(self, embed_dim, num_heads, dropout=0.0, has_bias=True, add_bias_kv=False, add_zero_attn=False, kdim=None, vdim=None,
                 batch_first=False, dtype=mstype.float32):
        super().__init__()
        if embed_dim % num_heads:
            raise ValueError(f"embed_dim {embed_dim} of a MultiheadAttention is no multiple of its {num_heads} heads")
        self.embed_dim, self.num_heads, self.batch_first, self.add_zero_attn = embed_dim, num_heads, batch_first, add_zero_attn
        kdim, vdim = kdim or embed_dim, vdim or embed_dim
        self.is_one_weight = kdim == vdim == embed_dim

        def weight(name: str, shape, init=XavierUniform) -> Parameter:
            return Parameter(initializer(init(), shape, dtype), name)

        self.in_proj_weight = self.q_proj_weight = self.k_proj_weight = self.v_proj_weight = None
        if self.is_one_weight:
            self.in_proj_weight = weight("in_proj_weight", (3 * embed_dim, embed_dim))
        else:
            self.q_proj_weight = weight("q_proj_weight", (embed_dim, embed_dim))
            self.k_proj_weight = weight("k_proj_weight", (embed_dim, kdim))
            self.v_proj_weight = weight("v_proj_weight", (embed_dim, vdim))
        self.in_proj_bias = Parameter(initializer("zeros", 3 * embed_dim, dtype), "in_proj_bias") if has_bias else None
        self.out_proj = Dense(embed_dim, embed_dim, HeUniform(math.sqrt(5)), Uniform(1 / math.sqrt(embed_dim)), has_bias, dtype=dtype)
        self.bias_k = weight("bias_k", (1, 1, embed_dim), XavierNormal) if add_bias_kv else None
        self.bias_v = weight("bias_v", (1, 1, embed_dim), XavierNormal) if add_bias_kv else None
        self.dropout = Dropout(p=float(dropout))

    def construct(self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None, average_attn_weights=True):
        is_batched = len(query.shape) == 3
        given = (query, key, value)
        if not is_batched:
            given = tuple(F.expand_dims(t, 1) for t in given)
            key_padding_mask = None if key_padding_mask is None else F.expand_dims(key_padding_mask, 0)
        elif self.batch_first:
            given = tuple(F.swapaxes(t, 0, 1) for t in given)
        steps, batch, _ = given[0].shape
        q, k, v = self._projected(*given)
        extra = (self.bias_k is not None) + self.add_zero_attn
        if self.bias_k is not None:
            k, v = (F.concat([t, F.broadcast_to(b, (1, batch, self.embed_dim))], 0) for t, b in ((k, self.bias_k), (v, self.bias_v)))
        if self.add_zero_attn:
            k, v = (F.concat([t, F.zeros((1, *t.shape[1:]), t.dtype)], 0) for t in (k, v))
        size = self.embed_dim // self.num_heads
        q, k, v = (F.transpose(F.reshape(t, (t.shape[0], batch, self.num_heads, size)), (1, 2, 0, 3)) for t in (q, k, v))
        scores = P.BatchMatMul(transpose_b=True)(q * (1 / math.sqrt(size)), k)
        scores = self._masked(scores, attn_mask, key_padding_mask, extra)
        weights = P.Softmax(-1)(scores)
        out = F.transpose(P.BatchMatMul()(self.dropout(weights), v), (2, 0, 1, 3))
        out = self.out_proj(F.reshape(out, (steps * batch, self.embed_dim)))
        out = F.reshape(out, (steps, batch, self.embed_dim))
        out = F.squeeze(out, 1) if not is_batched else F.swapaxes(out, 0, 1) if self.batch_first else out
        if not need_weights:
            return (out,)
        weights = F.mean(weights, 1) if average_attn_weights else weights
        return out, weights if is_batched else F.squeeze(weights, 0)

    def _projected(self, query, key, value):
        weights = F.split(self.in_proj_weight, self.embed_dim, 0) if self.is_one_weight else (
            self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        biases = (None,) * 3 if self.in_proj_bias is None else F.split(self.in_proj_bias, self.embed_dim, 0)
        return [F.dense(t, w, b) for t, w, b in zip((query, key, value), weights, biases)]

    def _masked(self, scores, attn_mask, key_padding_mask, extra: int):
        """Masks of bools are true where nothing is looked at; those of numbers are added."""
        batch = scores.shape[0]
        for mask, is_of_keys in ((attn_mask, False), (key_padding_mask, True)):
            if mask is None:
                continue
            if extra:
                mask = F.pad(F.cast(mask, mstype.float32), (0, extra)) if str(mask.dtype) != "Bool" else F.cast(
                    F.pad(F.cast(mask, mstype.float32), (0, extra)), mstype.bool_)
            if is_of_keys:
                mask = F.reshape(mask, (batch, 1, 1, mask.shape[-1]))
            elif len(mask.shape) == 3:
                mask = F.reshape(mask, (batch, self.num_heads, *mask.shape[1:]))
            if str(mask.dtype) == "Bool":
                scores = F.where(F.broadcast_to(mask, tuple(scores.shape)), float("-1e30"), scores)
            else:
                scores = scores + mask
        return scores


def _activation_of(said: str | Cell | Callable) -> Callable:
    if isinstance(said, str):
        known = {"relu": F.relu, "gelu": F.gelu}
        if said not in known:
            raise ValueError(f"activation of a transformer's layer is relu or gelu, not {said!r}")
        return known[said]
    return said


class _Layer(Cell):
    """Self-attention, with `has_memory` attention to what an encoder gives, and two Dense; each around a sum and a norm."""

    has_memory = False

    def __init__(self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1, activation="relu",
                 layer_norm_eps: float = 1e-5, batch_first: bool = False, norm_first: bool = False, dtype=mstype.float32):
        super().__init__()
        self.settings = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, dtype)
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, batch_first=batch_first, dtype=dtype)
        if self.has_memory:
            self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, batch_first=batch_first, dtype=dtype)
        start = HeUniform(math.sqrt(5))
        self.dense1 = Dense(d_model, dim_feedforward, start, Uniform(1 / math.sqrt(d_model)), dtype=dtype)
        self.dropout = Dropout(p=dropout)
        self.dense2 = Dense(dim_feedforward, d_model, start, Uniform(1 / math.sqrt(dim_feedforward)), dtype=dtype)
        self.norm_first = norm_first
        for i in range(1, 4 if self.has_memory else 3):
            setattr(self, f"norm{i}", LayerNorm((d_model,), epsilon=layer_norm_eps, dtype=dtype))
            setattr(self, f"dropout{i}", Dropout(p=dropout))
        self.activation = _activation_of(activation)

    def _around(self, x, number: int, block: Callable):
        norm, dropout = getattr(self, f"norm{number}"), getattr(self, f"dropout{number}")
        return x + dropout(block(norm(x))) if self.norm_first else norm(x + dropout(block(x)))

    def _through(self, x, mask, padding_mask, memory=None, memory_mask=None, memory_padding_mask=None):
        x = self._around(x, 1, lambda t: self.self_attn(t, t, t, padding_mask, False, mask)[0])
        number = 2
        if memory is not None:
            x = self._around(x, 2, lambda t: self.multihead_attn(t, memory, memory, memory_padding_mask, False, memory_mask)[0])
            number = 3
        return self._around(x, number, lambda t: self.dense2(self.dropout(self.activation(self.dense1(t)))))


class TransformerEncoderLayer(_Layer):
    """Self-attention and two Dense."""

    def construct(self, src, src_mask=None, src_key_padding_mask=None):
        return self._through(src, src_mask, src_key_padding_mask)


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to an encoder's result, and two Dense."""

    has_memory = True

    def construct(self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None, memory_key_padding_mask=None):
        return self._through(tgt, tgt_mask, tgt_key_padding_mask, memory, memory_mask, memory_key_padding_mask)


class _Layers(Cell):
    """So many layers like one that is given, and a norm behind them."""

    def __init__(self, layer: _Layer, num_layers: int, norm=None):
        super().__init__()
        self.layers = CellList([type(layer)(*layer.settings) for _ in range(num_layers)])
        self.num_layers, self.norm = num_layers, norm

    def construct(self, x, *given, **masks):
        for layer in self.layers:
            x = layer(x, *given, **masks)
        return x if self.norm is None else self.norm(x)


class TransformerEncoder(_Layers):
    """TransformerEncoderLayers."""


class TransformerDecoder(_Layers):
    """TransformerDecoderLayers."""


class Transformer(Cell):
    """An encoder, and a decoder that attends to its result."""

    def __init__(self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6, num_decoder_layers: int = 6,
                 dim_feedforward: int = 2048, dropout: float = 0.1, activation="relu", custom_encoder=None, custom_decoder=None,
                 layer_norm_eps: float = 1e-5, batch_first: bool = False, norm_first: bool = False, dtype=mstype.float32):
        super().__init__()
        settings = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, dtype)

        def norm() -> LayerNorm:
            return LayerNorm((d_model,), epsilon=layer_norm_eps, dtype=dtype)

        self.encoder = custom_encoder or TransformerEncoder(TransformerEncoderLayer(*settings), num_encoder_layers, norm())
        self.decoder = custom_decoder or TransformerDecoder(TransformerDecoderLayer(*settings), num_decoder_layers, norm())
        for p in self.get_parameters():
            if p.ndim > 1:
                p.set_data(initializer("xavier_uniform", p.shape, p.dtype).init_data())
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def construct(self, src, tgt, src_mask=None, tgt_mask=None, memory_mask=None, src_key_padding_mask=None, tgt_key_padding_mask=None,
                  memory_key_padding_mask=None):
        memory = self.encoder(src, src_mask=src_mask, src_key_padding_mask=src_key_padding_mask)
        return self.decoder(tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, tgt_key_padding_mask=tgt_key_padding_mask,
                            memory_key_padding_mask=memory_key_padding_mask)

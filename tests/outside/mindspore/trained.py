#!/usr/bin/env python3
"""Small networks in the style of public programs, trained for some steps by the `mindspore` that is importable: their losses.

  trained.py OUT.json [NAME...]

The same file runs on both sides; weights and data depend on names alone.
"""

import json
import os
import sys
import zlib

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

STEPS = 6


def random(name, *shape):
    return np.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape).astype(np.float32)


def whole(name, below, *shape):
    return np.random.default_rng(zlib.crc32(name.encode())).integers(0, below, shape).astype(np.int32)


class Detection(nn.Cell):
    """Boxes and classes over a feature map, as SSD has them."""

    def __init__(self):
        super().__init__()
        self.body = nn.SequentialCell(nn.Conv2dBnAct(3, 8, 3, stride=2, has_bn=True, activation="relu"), nn.Conv2d(8, 8, 3, group=8),
                                      nn.GroupNorm(2, 8), nn.ReLU6(), nn.MaxPool2d(2, 2))
        self.boxes, self.classes = nn.Conv2d(8, 8, 3, has_bias=True), nn.Conv2d(8, 6, 3, has_bias=True)

    def construct(self, image, box, label):
        x = self.body(image)
        boxes = ops.reshape(ops.transpose(self.boxes(x), (0, 2, 3, 1)), (x.shape[0], -1, 4))
        logits = ops.reshape(ops.transpose(self.classes(x), (0, 2, 3, 1)), (x.shape[0], -1, 3))
        hot = ops.one_hot(label, 3, Tensor(1.0, ms.float32), Tensor(0.0, ms.float32))
        share = ops.sigmoid(logits)
        focal = ops.SigmoidCrossEntropyWithLogits()(logits, hot) * ops.pow(hot * (1 - share) + (1 - hot) * share, 2.0)
        mask = ops.cast(label > 0, ms.float32)
        place = ops.SmoothL1Loss()(boxes, box).sum(-1) * mask
        return (focal.sum() + place.sum()) / (mask.sum() + 1)


class Gan(nn.Cell):
    """A generator and a discriminator in one loss."""

    def __init__(self):
        super().__init__()
        self.make = nn.SequentialCell(nn.Dense(6, 32), nn.BatchNorm1d(32), nn.ReLU())
        self.grow = nn.SequentialCell(nn.Conv2dTranspose(8, 4, 4, 2, "pad", 1), nn.BatchNorm2d(4), nn.LeakyReLU(0.2),
                                      nn.Conv2dTranspose(4, 1, 4, 2, "pad", 1), nn.Tanh())
        self.judge = nn.SequentialCell(nn.Conv2d(1, 4, 4, 2, "pad", 1), nn.LeakyReLU(0.2), nn.Flatten(), nn.Dense(64, 1), nn.Sigmoid())
        self.loss = nn.BCELoss()

    def construct(self, noise, image):
        fake = self.grow(ops.reshape(self.make(noise), (noise.shape[0], 8, 2, 2)))
        real, made = self.judge(image), self.judge(fake)
        return self.loss(real, ops.ones_like(real)) + self.loss(made, ops.zeros_like(made))


class Reader(nn.Cell):
    """Characters in images, by CTC."""

    def __init__(self):
        super().__init__()
        self.conv = nn.SequentialCell(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.MaxPool2d((2, 1), (2, 1)))
        self.rnn, self.out = nn.LSTM(24, 8, bidirectional=True), nn.Dense(16, 5)
        self.loss = nn.CTCLoss()

    def construct(self, image, label):
        x = self.conv(image)
        b, c, h, w = x.shape
        x = ops.reshape(ops.transpose(x, (3, 0, 1, 2)), (w, b, c * h))
        zeros = ops.zeros((2, b, 8), ms.float32)
        y, _ = self.rnn(x, (zeros, zeros))
        logs = ops.log_softmax(self.out(y), -1)
        return self.loss(logs, label, Tensor(np.full(b, w), ms.int32), Tensor(np.full(b, label.shape[1]), ms.int32))


class Tagger(nn.Cell):
    """A label for each word."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(20, 8)
        self.rnn, self.out = nn.GRU(8, 6, 2, batch_first=True, bidirectional=True), nn.Dense(12, 4)
        self.loss = nn.CrossEntropyLoss()

    def construct(self, words, tags):
        x = self.table(words)
        y, _ = self.rnn(x, ops.zeros((4, x.shape[0], 6), ms.float32))
        return self.loss(ops.reshape(self.out(y), (-1, 4)), ops.reshape(tags, (-1,)))


class Larger(nn.Cell):
    """Images of four times as many pixels."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 12, 3)
        self.act, self.shuffle = nn.PReLU(8), nn.PixelShuffle(2)

    def construct(self, small, large):
        x = self.shuffle(self.second(self.act(self.first(small))))
        plain = ops.interpolate(small, size=(8, 8), mode="bilinear", align_corners=True)
        return ops.l1_loss(x + plain, large)


class Bert(nn.Cell):
    """A transformer whose first place is classified."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(30, 16), nn.Embedding(6, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, activation="gelu", batch_first=True)
        self.body, self.pool, self.out = nn.TransformerEncoder(layer, 2), nn.Dense(16, 16, activation="tanh"), nn.Dense(16, 2)
        self.loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")

    def construct(self, words, label):
        x = self.words(words) + self.places(Tensor(np.arange(6), ms.int32))
        return self.loss(self.out(self.pool(self.body(x)[:, 0])), label)


class TextCnn(nn.Cell):
    """Convolutions of several widths over words."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(20, 8)
        self.convs = nn.CellList([nn.Conv1d(8, 6, k, pad_mode="valid", has_bias=True) for k in (2, 3, 4)])
        self.out = nn.Dense(18, 3)

    def construct(self, words, label):
        x = ops.transpose(self.table(words), (0, 2, 1))
        parts = [ops.amax(ops.relu(conv(x)), 2) for conv in self.convs]
        return ops.cross_entropy(self.out(ops.concat(parts, 1)), label)


class UNet(nn.Cell):
    """Down, up again, and what was there beside it; Dice and cross entropy."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Conv2d(1, 4, 3), nn.Conv2d(4, 8, 3)
        self.up, self.out = nn.Conv2dTranspose(8, 4, 2, 2, "valid"), nn.Conv2d(8, 1, 1, has_bias=True)
        self.pool, self.norm = nn.MaxPool2d(2, 2), nn.GroupNorm(4, 4)

    def construct(self, image, mask):
        a = ops.relu(self.norm(self.one(image)))
        b = ops.relu(self.two(self.pool(a)))
        logits = self.out(ops.concat((a, self.up(b)), 1))
        share = ops.sigmoid(logits)
        dice = 1 - 2 * (share * mask).sum() / ((share * share).sum() + (mask * mask).sum() + 1e-5)
        return dice + ops.binary_cross_entropy_with_logits(logits, mask, ops.ones_like(mask), ops.ones_like(mask))


class Volumes(nn.Cell):
    """Convolutions of three dims."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.out = nn.Conv3d(1, 4, 3, 2), nn.BatchNorm3d(4), nn.Dense(4, 3)

    def construct(self, x, label):
        y = ops.relu(self.norm(self.conv(x)))
        return ops.cross_entropy(self.out(y.mean((2, 3, 4))), label)


class Twins(nn.Cell):
    """Two inputs of one network, near each other or not."""

    def __init__(self):
        super().__init__()
        self.net = nn.SequentialCell(nn.Dense(6, 8), nn.ELU(), nn.LayerNorm((8,)), nn.Dense(8, 4))
        self.near, self.far = nn.CosineEmbeddingLoss(0.1), nn.MarginRankingLoss(0.2)

    def construct(self, a, b, is_same):
        x, y = self.net(a), self.net(b)
        return self.near(x, y, is_same) + self.far(x[:, 0], y[:, 0], is_same)


class Steps(nn.Cell):
    """A sequence to a sequence with attention, cell by cell."""

    def __init__(self):
        super().__init__()
        self.table, self.cell, self.out = nn.Embedding(12, 6), nn.LSTMCell(6, 6), nn.Dense(12, 12)

    def construct(self, words, target):
        x = self.table(words)
        state = (ops.zeros((x.shape[0], 6), ms.float32), ops.zeros((x.shape[0], 6), ms.float32))
        seen, total = [], 0.0
        for t in range(x.shape[1]):
            state = self.cell(x[:, t], state)
            seen.append(state[0])
            past = ops.stack(seen, 1)
            weights = ops.softmax(ops.bmm(past, ops.expand_dims(state[0], 2)), 1)
            around = (past * weights).sum(1)
            total = total + ops.cross_entropy(self.out(ops.concat((state[0], around), 1)), target[:, t])
        return total / x.shape[1]


class Ranks(nn.Cell):
    """Wide and deep: tables, crosses and a loss with weights."""

    def __init__(self):
        super().__init__()
        self.wide, self.deep = nn.Embedding(40, 1), nn.Embedding(40, 4)
        self.dense = nn.SequentialCell(nn.Dense(12, 8), nn.HSwish(), nn.Dense(8, 1))

    def construct(self, ids, share, label):
        wide = (self.wide(ids).squeeze(-1) * share).sum(1, keepdims=True)
        deep = self.dense((self.deep(ids) * share.expand_dims(-1)).reshape(ids.shape[0], -1))
        loss = ops.binary_cross_entropy_with_logits(wide + deep, label, ops.ones_like(label), ops.ones_like(label))
        return loss + 1e-3 * ops.norm(self.deep.embedding_table)


class Patches(nn.Cell):
    """A transformer over parts of images."""

    def __init__(self):
        super().__init__()
        self.cut, self.norm = nn.Conv2d(3, 8, 4, 4, "valid", has_bias=True), nn.LayerNorm((8,), epsilon=1e-6)
        self.attention, self.out = nn.MultiheadAttention(8, 2, batch_first=True), nn.Dense(8, 4)
        self.places = ms.Parameter(Tensor(random("places", 1, 4, 8)), name="places")

    def construct(self, image, label):
        x = ops.transpose(ops.reshape(self.cut(image), (image.shape[0], 8, 4)), (0, 2, 1)) + self.places
        y = self.norm(x)
        x = x + self.attention(y, y, y)[0]
        return ops.cross_entropy(self.out(x.mean(1)), label, label_smoothing=0.1)


class Coder(nn.Cell):
    """A variational autoencoder, whose noise is given."""

    def __init__(self):
        super().__init__()
        self.inner, self.mean, self.spread, self.outer = nn.Dense(10, 8), nn.Dense(8, 3), nn.Dense(8, 3), nn.Dense(3, 10)

    def construct(self, x, noise):
        h = ops.softplus(self.inner(x))
        mean, logs = self.mean(h), ops.clamp(self.spread(h), -4.0, 4.0)
        back = self.outer(mean + noise * ops.exp(0.5 * logs))
        return ops.mse_loss(back, x) - 0.05 * (1 + logs - ops.square(mean) - ops.exp(logs)).mean()


class Policy(nn.Cell):
    """Rewards by the logarithm of the share of what was done, with an entropy."""

    def __init__(self):
        super().__init__()
        self.body, self.act, self.value = nn.Dense(5, 8, activation="relu"), nn.Dense(8, 3), nn.Dense(8, 1)

    def construct(self, state, action, reward):
        h = self.body(state)
        logs = ops.log_softmax(self.act(h), 1)
        own = ops.gather_elements(logs, 1, ops.expand_dims(action, 1)).squeeze(1)
        value = self.value(h).squeeze(1)
        gain = ops.stop_gradient(reward - value)
        return -(own * gain).mean() + ops.huber_loss(value, reward) + 0.01 * (ops.exp(logs) * logs).sum(1).mean()


class Residual(nn.Cell):
    """Blocks around which the input goes, and attention to channels."""

    def __init__(self):
        super().__init__()
        self.first, self.deep = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3, group=8)
        self.norm, self.squeeze = nn.BatchNorm2d(8, momentum=0.9), nn.SequentialCell(nn.Dense(8, 4), nn.ReLU6(), nn.Dense(4, 8), nn.HSigmoid())
        self.act, self.pool, self.out = nn.HSwish(), nn.AdaptiveAvgPool2d(1), nn.Dense(8, 4)

    def construct(self, image, label):
        x = self.first(image)
        y = self.act(self.norm(self.deep(x)))
        share = self.squeeze(self.pool(y).reshape(image.shape[0], 8))
        x = x + y * share.expand_dims(-1).expand_dims(-1)
        return ops.cross_entropy(self.out(self.pool(x).flatten(start_dim=1)), label)


class Style(nn.Cell):
    """Products of channels of images brought near those of another."""

    def __init__(self):
        super().__init__()
        self.net = nn.SequentialCell(nn.Pad(((0, 0), (0, 0), (1, 1), (1, 1)), "REFLECT"), nn.Conv2d(3, 6, 3, pad_mode="valid"), nn.GELU(False))
        self.image = ms.Parameter(Tensor(random("image", 1, 3, 6, 6)), name="image")

    def gram(self, x):
        flat = x.reshape(x.shape[1], -1)
        return ops.matmul(flat, flat.transpose(1, 0)) / flat.shape[1]

    def construct(self, content, style):
        x, y, z = (self.net(t) for t in (self.image, content, style))
        return ops.mse_loss(x, y) + ops.mse_loss(self.gram(x), self.gram(z)) + 0.01 * ops.abs(ops.diff(self.image, 1, 3)).mean()


class Contrast(nn.Cell):
    """Views of one thing nearer to each other than to all others."""

    def __init__(self):
        super().__init__()
        self.net = nn.SequentialCell(nn.Dense(6, 8), nn.Mish(), nn.Dense(8, 4))

    def construct(self, a, b):
        x, y = (ops.L2Normalize(1)(self.net(t)) for t in (a, b))
        logits = ops.matmul(x, y.T) / 0.5
        own = Tensor(np.arange(a.shape[0]), ms.int32)
        return ops.cross_entropy(logits, own) + ops.cross_entropy(logits.T, own)


class Taught(nn.Cell):
    """A small network by what a large one says."""

    def __init__(self):
        super().__init__()
        self.small = nn.SequentialCell(nn.Dense(6, 5), nn.Softsign(), nn.Dense(5, 3))
        self.large = nn.Dense(6, 3)
        for p in self.large.get_parameters():
            p.requires_grad = False

    def construct(self, x, label):
        soft = ops.stop_gradient(ops.softmax(self.large(x) / 2.0, -1))
        ours = self.small(x)
        return ops.kl_div(ops.log_softmax(ours / 2.0, -1), soft, "batchmean") * 4.0 + ops.cross_entropy(ours, label)


class Points(nn.Cell):
    """Sets of points, by the largest of each feature."""

    def __init__(self):
        super().__init__()
        self.net = nn.SequentialCell(nn.Conv1d(3, 8, 1, has_bias=True), nn.ReLU(), nn.Conv1d(8, 8, 1))
        self.out = nn.DenseBnAct(8, 3, has_bn=True)

    def construct(self, points, label):
        x = self.net(points)
        return ops.nll_loss(ops.log_softmax(self.out(ops.ReduceMax()(x, 2)), -1), label)


class Graph(nn.Cell):
    """Means over neighbours."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Dense(4, 8), nn.Dense(8, 3)

    def construct(self, features, edges, label):
        degree = edges.sum(1, keepdims=True) + 1
        x = ops.leaky_relu(self.one((ops.matmul(edges, features) + features) / degree), 0.2)
        return ops.cross_entropy(self.two((ops.matmul(edges, x) + x) / degree), label, Tensor([0.2, 0.3, 0.5], ms.float32))


class Mixer(nn.Cell):
    """Products over places, then over features."""

    def __init__(self):
        super().__init__()
        self.cut = nn.Conv2d(1, 6, 2, 2, "valid")
        self.places, self.features, self.out = nn.Dense(9, 9), nn.Dense(6, 6), nn.Dense(6, 3)
        self.a, self.b = nn.LayerNorm((6,)), nn.LayerNorm((6,))

    def construct(self, image, label):
        x = self.cut(image).reshape(image.shape[0], 6, 9).swapaxes(1, 2)
        x = x + self.places(self.a(x).swapaxes(1, 2)).swapaxes(1, 2)
        x = x + ops.gelu(self.features(self.b(x)))
        return ops.cross_entropy(self.out(ops.mean(x, 1)), label)


class Chain(nn.Cell):
    """A conditional random field over labels of words."""

    def __init__(self):
        super().__init__()
        self.table, self.out = nn.Embedding(15, 6), nn.Dense(6, 4)
        self.moves = ms.Parameter(Tensor(random("moves", 4, 4)), name="moves")

    def construct(self, words, tags):
        scores = self.out(self.table(words))
        total = scores[:, 0]
        own = ops.gather_elements(scores, 2, tags.expand_dims(2)).squeeze(2).sum(1)
        for t in range(1, words.shape[1]):
            total = ops.logsumexp(total.expand_dims(2) + self.moves.expand_dims(0), 1) + scores[:, t]
            pairs = ops.stack((tags[:, t - 1], tags[:, t]), -1)
            own = own + ops.gather_nd(self.moves, pairs)
        return (ops.logsumexp(total, 1) - own).mean()


class Density(nn.Cell):
    """A mean and a variance for each place of a series."""

    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.GRU(2, 6, batch_first=True), nn.Dense(6, 2)
        self.loss = nn.GaussianNLLLoss()

    def construct(self, series, target):
        y, _ = self.rnn(series, ops.zeros((1, series.shape[0], 6), ms.float32))
        both = self.out(y)
        return self.loss(both[..., 0], target, ops.softplus(both[..., 1]) + 0.1)


class Far(nn.Cell):
    """Convolutions that reach far back in time."""

    def __init__(self):
        super().__init__()
        self.convs = nn.CellList([nn.Conv1d(4, 4, 2, pad_mode="valid", dilation=d) for d in (1, 2, 4)])
        self.out = nn.Conv1d(4, 1, 1)

    def construct(self, series, target):
        x = series
        for k, conv in enumerate(self.convs):
            x = x + ops.relu(conv(ops.pad(x, (2**k, 0))))
        return ops.smooth_l1_loss(self.out(x), target, 1.0, "mean")


class Factors(nn.Cell):
    """Users and things, by products of their rows."""

    def __init__(self):
        super().__init__()
        self.users, self.things = nn.Embedding(12, 4), nn.Embedding(20, 4)
        self.bias = nn.Embedding(20, 1)

    def construct(self, user, thing, rating):
        u, v = self.users(user), self.things(thing)
        found = (u * v).sum(-1) + self.bias(thing).squeeze(-1)
        return ops.mse_loss(found, rating) + 0.01 * (ops.square(u).sum() + ops.square(v).sum())


class Labels(nn.Cell):
    """Several labels at once, and margins between them."""

    def __init__(self):
        super().__init__()
        self.net = nn.SequentialCell(nn.Dense(6, 12), nn.GLU(1), nn.Dense(6, 5))
        self.soft, self.hard = nn.MultiLabelSoftMarginLoss(), nn.HingeEmbeddingLoss(0.5)

    def construct(self, x, label):
        logits = self.net(x)
        return self.soft(logits, label) + 0.1 * self.hard(logits, label * 2 - 1)


class Hourglass(nn.Cell):
    """Down by means, up by the nearest pixels."""

    def __init__(self):
        super().__init__()
        self.one, self.two, self.out = nn.Conv2d(2, 6, 3), nn.Conv2d(6, 6, 3, dilation=2), nn.Conv2d(6, 1, 1)
        self.down = nn.AvgPool2d(2, 2)

    def construct(self, image, heat):
        x = ops.relu(self.one(image))
        low = ops.elu(self.two(self.down(x)))
        x = x + ops.ResizeNearestNeighbor((image.shape[2], image.shape[3]))(low)
        return (ops.square(self.out(x) - heat) * (1 + heat)).mean()


class Language(nn.Cell):
    """The next word, by two layers of LSTM and one table for both ends."""

    def __init__(self):
        super().__init__()
        self.table, self.rnn = nn.Embedding(16, 6), nn.LSTM(6, 6, 2)

    def construct(self, words, target):
        x = self.table(words).swapaxes(0, 1)
        zeros = ops.zeros((2, words.shape[0], 6), ms.float32)
        y, _ = self.rnn(x, (zeros, zeros))
        logits = ops.matmul(y.swapaxes(0, 1).reshape(-1, 6), self.table.embedding_table.T)
        return ops.cross_entropy(logits, target.reshape(-1))


class Causal(nn.Cell):
    """A decoder that looks back alone, of several heads written out."""

    def __init__(self):
        super().__init__()
        self.table, self.qkv, self.out = nn.Embedding(12, 8), nn.Dense(8, 24), nn.Dense(8, 12)
        self.norm = nn.LayerNorm((8,), epsilon=1e-5)

    def construct(self, words, target):
        b, t = words.shape
        x = self.table(words)
        q, k, v = ops.split(self.qkv(self.norm(x)), 8, -1)
        q, k, v = (y.reshape(b, t, 2, 4).transpose(0, 2, 1, 3) for y in (q, k, v))
        scores = ops.matmul(q, k.swapaxes(2, 3)) / 2.0
        hidden = Tensor(np.triu(np.ones((t, t), bool), 1))
        weights = ops.softmax(ops.masked_fill(scores, hidden, Tensor(-1e9, ms.float32)), -1)
        x = x + ops.matmul(weights, v).transpose(0, 2, 1, 3).reshape(b, t, 8)
        return ops.cross_entropy(self.out(x).reshape(-1, 12), target.reshape(-1))


def adam(p):
    return nn.Adam(p, 0.02)


PROGRAMS = {
    "detection": (Detection, lambda p: nn.Momentum(p, 0.01, 0.9), lambda: (
        random("i", 4, 3, 16, 16), random("b", 4, 32, 4), whole("l", 3, 4, 32))),
    "gan": (Gan, lambda p: nn.Adam(p, 0.005, beta1=0.5), lambda: (random("n", 8, 6), random("i", 8, 1, 8, 8))),
    "reader": (Reader, adam, lambda: (random("i", 4, 1, 8, 6), whole("l", 4, 4, 2) + 1)),
    "tagger": (Tagger, lambda p: nn.AdaMax(p, 0.02), lambda: (whole("w", 20, 4, 5), whole("t", 4, 4, 5))),
    "larger": (Larger, lambda p: nn.AdamWeightDecay(p, 0.01, weight_decay=0.01), lambda: (random("s", 4, 3, 4, 4), random("l", 4, 3, 8, 8))),
    "bert": (Bert, lambda p: nn.Adam(p, nn.WarmUpLR(0.01, 4)), lambda: (whole("w", 30, 4, 6), whole("l", 2, 4))),
    "text_cnn": (TextCnn, lambda p: nn.Adagrad(p, learning_rate=0.1), lambda: (whole("w", 20, 8, 9), whole("l", 3, 8))),
    "unet": (UNet, adam, lambda: (random("i", 4, 1, 8, 8), (random("m", 4, 1, 8, 8) > 0).astype(np.float32))),
    "volumes": (Volumes, lambda p: nn.SGD(p, 0.1, 0.9, nesterov=True), lambda: (random("x", 4, 1, 6, 6, 6), whole("l", 3, 4))),
    "twins": (Twins, lambda p: nn.SGD(p, nn.cosine_decay_lr(0.001, 0.02, 8, 1, 8)), lambda: (
        random("a", 8, 6), random("b", 8, 6), np.sign(random("s", 8)))),
    "steps": (Steps, lambda p: nn.RMSProp(p, 0.01), lambda: (whole("w", 12, 4, 4), whole("t", 12, 4, 4))),
    "ranks": (Ranks, lambda p: nn.LazyAdam(p, 0.02), lambda: (
        whole("i", 40, 8, 3), np.abs(random("s", 8, 3)), (random("l", 8, 1) > 0).astype(np.float32))),
    "patches": (Patches, lambda p: nn.Adam(p, 0.01, weight_decay=0.01), lambda: (
        random("i", 4, 3, 8, 8), whole("l", 4, 4))),
    "coder": (Coder, lambda p: nn.Adadelta(p, 1.0), lambda: (random("x", 8, 10), random("n", 8, 3))),
    "residual": (Residual, lambda p: nn.Momentum(p, 0.05, 0.9, weight_decay=1e-3), lambda: (random("i", 4, 3, 6, 6), whole("l", 4, 4))),
    "style": (Style, adam, lambda: (random("c", 1, 3, 6, 6), random("s", 1, 3, 6, 6))),
    "contrast": (Contrast, adam, lambda: (random("a", 8, 6), random("b", 8, 6))),
    "taught": (Taught, lambda p: nn.SGD(p, 0.1), lambda: (random("x", 8, 6), whole("l", 3, 8))),
    "points": (Points, adam, lambda: (random("p", 8, 3, 10), whole("l", 3, 8))),
    "graph": (Graph, lambda p: nn.Adam(p, 0.05, weight_decay=5e-4), lambda: (
        random("f", 8, 4), (random("e", 8, 8) > 0.5).astype(np.float32), whole("l", 3, 8))),
    "mixer": (Mixer, adam, lambda: (random("i", 4, 1, 6, 6), whole("l", 3, 4))),
    "chain": (Chain, adam, lambda: (whole("w", 15, 4, 5), whole("t", 4, 4, 5))),
    "density": (Density, adam, lambda: (random("s", 4, 6, 2), random("t", 4, 6))),
    "far": (Far, lambda p: nn.RMSProp(p, 0.01, centered=True), lambda: (random("s", 4, 4, 12), random("t", 4, 1, 12))),
    "factors": (Factors, lambda p: nn.Adagrad(p, learning_rate=0.2), lambda: (whole("u", 12, 16), whole("v", 20, 16), random("r", 16))),
    "labels": (Labels, adam, lambda: (random("x", 8, 6), (random("l", 8, 5) > 0).astype(np.float32))),
    "hourglass": (Hourglass, adam, lambda: (random("i", 4, 2, 8, 8), np.abs(random("h", 4, 1, 8, 8)))),
    "language": (Language, lambda p: nn.SGD(p, nn.ExponentialDecayLR(0.5, 0.9, 2)), lambda: (whole("w", 16, 4, 6), whole("t", 16, 4, 6))),
    "causal": (Causal, lambda p: nn.Adam(p, 0.01, use_amsgrad=True), lambda: (whole("w", 12, 4, 6), whole("t", 12, 4, 6))),
    "policy": (Policy, lambda p: nn.Rprop(p, 0.01), lambda: (random("s", 8, 5), whole("a", 3, 8), random("r", 8)))}


def losses_of(name):
    make, optimizer_of, data = PROGRAMS[name]
    net = make()
    for p in net.get_parameters():
        if "moving" not in p.name:
            scale = 0.3 if p.ndim > 1 else 0.1
            base = 1.0 if p.name.endswith("gamma") else 0.0
            p.set_data(Tensor(random(p.name, *p.shape) * scale + base))
    net.set_train()
    optimizer = optimizer_of(net.trainable_params())
    step = ms.value_and_grad(net, None, optimizer.parameters)
    batch = [Tensor(x) for x in data()]
    out = []
    for _ in range(STEPS):
        loss, gradients = step(*batch)
        optimizer(ops.clip_by_global_norm(gradients, 5.0))
        out.append(float(loss.asnumpy()))
    return out


def main():
    devices = int(os.environ.get("SHARDWRIGHT_DEVICES", "1"))
    ms.set_context(mode=ms.GRAPH_MODE if devices > 1 or os.environ.get("GRAPH") else ms.PYNATIVE_MODE, device_target="CPU")
    if devices > 1:
        ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
    found = {}
    for name in sys.argv[2:] or PROGRAMS:
        try:
            found[name] = losses_of(name)
        except Exception as error:
            found[name] = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        print(name, found[name], file=sys.stderr, flush=True)
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in found.items()) + "\n}\n")


if __name__ == "__main__":
    main()

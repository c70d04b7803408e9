"""Calls of PyTorch, each as a function of parameters and a batch whose result is made into a number: what the table of
conversions is checked with. `cases()` is read by make_torch_export.py, with a PyTorch that has torch.export."""

import torch
import torch.nn.functional as F
from torch import nn


def draw(*shape, seed=1, low=None):
    """Numbers of few digits around 0; with `low`, from there to 1 above it."""
    g = torch.Generator().manual_seed(seed)
    x = torch.rand(shape, generator=g, dtype=torch.float64) + low if low is not None else \
        torch.randn(shape, generator=g, dtype=torch.float64)
    return short(x)


def short(x):
    return (x * 100).round() / 100


def whole(high, *shape, seed=1):
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(seed))


class Case(nn.Module):
    def __init__(self, function, parameters, module=None):
        super().__init__()
        self._function = function
        self.module = module
        for i, p in enumerate(parameters):
            self.register_parameter(f"p{i}", nn.Parameter(p))
        self._count = len(parameters)

    def forward(self, *batch):
        given = [getattr(self, f"p{i}") for i in range(self._count)]
        y = self._function(*([self.module] if self.module is not None else []), *given, *batch)
        if y.ndim == 0:
            return y
        weights = torch.cos(torch.arange(y.numel(), dtype=torch.float64) + 1).reshape(y.shape)
        return (y * weights).sum()


def _elementwise():
    x, y, z = draw(2, 3), draw(2, 3, seed=2), draw(2, 3, low=0.3)
    for name, f in {
        "add_alpha": lambda a, b: torch.add(a, b, alpha=3), "sub_alpha": lambda a, b: torch.sub(a, b, alpha=2),
        "mul_broadcast": lambda a, b: a * b[:1], "div_row": lambda a, b: a / (b[0] + 4), "atan2": torch.atan2,
        "maximum": torch.maximum, "minimum": torch.minimum, "where": lambda a, b: torch.where(a > b, a, b * 2),
        "logical": lambda a, b: torch.where((a > 0) & (b > 0) | ~(a > 1), a, b), "outer": lambda a, b: torch.outer(a[0], b[0]),
        "masked_fill": lambda a, b: a.masked_fill(b > 0, -1.5) + b, "lerp_like": lambda a, b: a + 0.3 * (b - a),
        "comparisons": lambda a, b: (a >= b) * a + (a < b) * b + (a != b) * a + (a == b) * b + (a <= b) * a,
    }.items():
        yield name, f, [x, y], []
    for name, f in {
        "rsub": lambda a: 2 - a, "scalars": lambda a: (a + 1.5) * 2 - 0.5 / 4, "square": lambda a: a ** 2, "cube": lambda a: a ** 3,
        "clamp": lambda a: a.clamp(-0.5, 0.7), "clamp_min": lambda a: a.clamp_min(0.1), "clamp_max": lambda a: a.clamp(max=0.1),
        "relu6": lambda a: F.relu6(a * 8), "gelu": F.gelu, "gelu_tanh": lambda a: F.gelu(a, approximate="tanh"), "elu": F.elu,
        "selu": F.selu, "celu": lambda a: F.celu(a, 0.7), "leaky_relu": lambda a: F.leaky_relu(a, 0.2), "mish": F.mish,
        "softplus": lambda a: F.softplus(a, beta=2), "log_sigmoid": F.logsigmoid, "hardswish": F.hardswish,
        "hardsigmoid": F.hardsigmoid, "expm1": torch.expm1, "erf": torch.erf, "abs": torch.abs, "neg": torch.neg, "tanh": torch.tanh,
        "sin": torch.sin, "cos": torch.cos, "silu": F.silu, "sigmoid": torch.sigmoid, "exp": torch.exp, "square_of": torch.square,
        "detach": lambda a: a * a.detach(), "tril": lambda a: a * torch.tril(torch.ones(2, 3, dtype=torch.float64)),
        "constant_column": lambda a: a + torch.arange(2, dtype=torch.float64)[:, None],
        "ones_like": lambda a: a * torch.ones_like(a) + torch.zeros_like(a) - torch.full_like(a, 2.0),
    }.items():
        yield name, f, [x], []
    for name, f in {"log": torch.log, "log1p": torch.log1p, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "reciprocal": torch.reciprocal,
                    "pow": lambda a: a ** 1.7, "pow_scalar": lambda a: 2.0 ** a, "pow_tensor": lambda a: a ** a,
                    "div_floor": lambda a: a * torch.div(a, 0.4, rounding_mode="floor"),
                    "div_trunc": lambda a: a * torch.div(a - 0.7, 0.1, rounding_mode="trunc")}.items():
        yield name, f, [z], []
    yield "glu", lambda a: F.glu(a, 1), [draw(2, 6)], []
    yield "prelu", F.prelu, [draw(2, 3, 2), draw(3, low=0.1)], []


def _reductions():
    x = draw(2, 3, 4)
    for name, f in {
        "sum": torch.sum, "sum_dims": lambda a: a.sum((0, 2)), "mean": torch.mean, "mean_keep": lambda a: a - a.mean(-1, keepdim=True),
        "var": lambda a: a.var(1), "var_biased": lambda a: a.var((0, 1), unbiased=False), "std": lambda a: a.std(-1, keepdim=True),
        "var_mean": lambda a: sum(torch.var_mean(a, 1)), "amax": lambda a: a.amax(1), "amin": lambda a: a.amin((0, 2)),
        "max_of_dim": lambda a: a.max(1).values, "logsumexp": lambda a: a.logsumexp(1), "cumsum": lambda a: a.cumsum(1),
        "softmax": lambda a: a.softmax(1), "log_softmax": lambda a: F.log_softmax(a, -1), "norm": lambda a: a.norm(dim=1),
        "norm_1": lambda a: torch.linalg.vector_norm(a, 1, (0, 1)), "norm_inf": lambda a: torch.linalg.vector_norm(a, float("inf"), 2),
        "normalize": lambda a: F.normalize(a, dim=1), "any": lambda a: a * (a > 1.2).any(1, keepdim=True),
        "all": lambda a: a * (a > -1.2).all(2, keepdim=True), "argmax": lambda a: a * a.argmax(1, keepdim=True),
    }.items():
        yield name, f, [x], []
    yield "cosine_similarity", lambda a, b: F.cosine_similarity(a, b, dim=1), [x, draw(2, 3, 4, seed=2)], []


def _shapes():
    x, y = draw(2, 3, 4), draw(2, 3, 4, seed=2)

    def assigned(a, b):
        c = a.clone()
        c[:, 1:3] = b[:, :2] * 2
        c[0] = b[1]
        return c

    for name, f in {
        "view": lambda a: a.view(3, -1), "flatten": lambda a: a.flatten(1), "unflatten": lambda a: a.unflatten(2, (2, -1)).sum(1),
        "permute": lambda a: a.permute(2, 0, 1), "unsqueeze": lambda a: a.unsqueeze(1) * a.unsqueeze(2), "select": lambda a: a[:, -1],
        "slices": lambda a: a[:, 1:, ::2], "split": lambda a: a.split([1, 2], 1)[1], "chunk": lambda a: a.chunk(2, -1)[1],
        "unbind": lambda a: a.unbind(1)[2] - a.unbind(1)[0], "roll": lambda a: a.roll((1, -1), (1, 2)), "roll_all": lambda a: a.roll(5),
        "roll_twice": lambda a: a.roll((1, 2, -7), (-1, -1, 0)),
        "flip": lambda a: a.flip(1, 2), "repeat": lambda a: a.repeat(2, 1, 2), "expand": lambda a: a[:, :1].expand(-1, 5, -1),
        "pad": lambda a: F.pad(a, (1, 2, 0, 1), value=0.5), "pad_negative": lambda a: F.pad(a, (-1, 1)),
        "pad_reflect": lambda a: F.pad(a, (2, 1), mode="reflect"), "pad_replicate": lambda a: F.pad(a, (2, 1), mode="replicate"),
        "pad_circular": lambda a: F.pad(a, (2, 1), mode="circular"), "movedim": lambda a: a.movedim(0, 2),
        "repeat_interleave": lambda a: a.repeat_interleave(2, 1), "squeeze": lambda a: a[:, :1].squeeze(1),
        "new_zeros": lambda a: torch.cat([a, a.new_zeros(2, 1, 4)], 1), "diagonal_mask": lambda a: a * torch.eye(3, 4, dtype=a.dtype),
    }.items():
        yield name, f, [x], []
    yield "cat", lambda a, b: torch.cat([a, b[:, :1]], 1), [x, y], []
    yield "stack", lambda a, b: torch.stack([a, b], -1), [x, y], []
    yield "assigned", assigned, [x, y], []
    yield "pixel_shuffle", lambda a: F.pixel_shuffle(a, 2), [draw(2, 8, 2, 3)], []


def _indices():
    x = draw(3, 4, 2)
    i = whole(3, 5)
    for name, f in {
        "index": lambda a, i: a[i], "index_second": lambda a, i: a[:, i], "index_pair": lambda a, i: a[i, i],
        "index_select": lambda a, i: a.index_select(1, i), "index_add": lambda a, i: torch.zeros_like(a).index_add(0, i, a[i] * 2),
        "index_grid": lambda a, i: a[torch.arange(2)[:, None, None], torch.arange(3)[None, None]] + i.sum(),
        "index_negative": lambda a, i: a[torch.tensor([-1, 0])] * i[0], "index_range": lambda a, i: a[:, torch.arange(1, 3)] + i[1],
    }.items():
        yield name, f, [x], [i]
    yield "gather", lambda a, i: a.gather(1, i), [draw(3, 4)], [whole(4, 3, 2)]
    yield "gather_rows", lambda a, i: a.gather(0, i), [draw(3, 4)], [whole(3, 2, 4)]
    yield "gather_last", lambda a, i: a.gather(-1, i), [x], [whole(2, 2, 3, 5)]
    yield "take_along_dim", lambda a, i: torch.take_along_dim(a, i, 1), [draw(3, 4)], [whole(4, 3, 2)]
    yield "scatter_add", lambda a, i: torch.zeros(3, 5, dtype=a.dtype).scatter_add(1, i, a), [draw(3, 4)], [whole(5, 3, 4)]
    yield "scatter_add_fewer", lambda a, b, i: a.scatter_add(0, i, b), [draw(3, 6), draw(5, 4, seed=2)], [whole(3, 5, 4)]
    yield "one_hot", lambda a, i: F.one_hot(i, 4) * a, [draw(4)], [whole(4, 5)]
    yield "embedding", lambda a, i: F.embedding(i, a), [draw(5, 3)], [whole(5, 2, 3)]
    yield "embedding_padding", lambda a, i: F.embedding(i, a, padding_idx=1), [draw(5, 3)], [whole(3, 2, 3)]
    for mode in ("sum", "mean", "max"):
        yield f"embedding_bag_{mode}", lambda a, i, mode=mode: F.embedding_bag(i, a, mode=mode), [draw(5, 3)], [whole(5, 2, 3)]
    yield "embedding_bag_weights", lambda a, w, i: F.embedding_bag(i, a, mode="sum", per_sample_weights=w), \
        [draw(5, 3), draw(2, 3, seed=2)], [whole(5, 2, 3)]


def _layers():
    a, b = draw(2, 3, 4), draw(2, 4, 5, seed=2)
    yield "bmm", torch.bmm, [a, b], []
    yield "matmul_rows", lambda p, q: p @ q[0], [a, b], []
    yield "matmul_vector", lambda p, q: p @ q[0, :, 0], [a, b], []
    yield "vector_matmul", lambda p, q: p[0, 0] @ q, [a, b], []
    yield "dot", lambda p, q: p[0, 0] @ q[0, :, 0], [a, b], []
    yield "addmm", lambda p, q, r: torch.addmm(r, p[0], q[0], beta=0.5, alpha=2), [a, b, draw(5)], []
    yield "baddbmm", lambda p, q, r: torch.baddbmm(r, p, q), [a, b, draw(1, 1, 5)], []
    yield "einsum", lambda p, q: torch.einsum("bij,bjk->ik", p, q), [a, b], []
    yield "linear", F.linear, [a, draw(6, 4), draw(6)], []
    yield "linear_no_bias", F.linear, [a, draw(6, 4)], []
    yield "layer_norm", lambda p, g, h: F.layer_norm(p, (3, 4), g, h, 1e-3), [a, draw(3, 4), draw(3, 4)], []
    yield "layer_norm_alone", lambda p: F.layer_norm(p, (4,)), [a], []
    yield "rms_norm", lambda p, g: F.rms_norm(p, (4,), g, 1e-5), [a, draw(4)], []
    yield "rms_norm_alone", lambda p: F.rms_norm(p, (4,)), [a], []
    yield "rms_norm_written", lambda p, g: g * (p * torch.rsqrt(p.pow(2).mean(-1, keepdim=True) + 1e-5)), [a, draw(4)], []
    yield "gated", lambda p, q: F.silu(p) * q, [a, draw(2, 3, 4, seed=3)], []
    yield "group_norm", lambda p, g, h: F.group_norm(p, 2, g, h), [draw(2, 4, 3), draw(4), draw(4)], []
    yield "instance_norm", lambda p: F.instance_norm(p), [draw(2, 3, 4, 2)], []
    for name, module in {"batch_norm": nn.BatchNorm2d(3), "batch_norm_1d": nn.BatchNorm1d(3),
                         "batch_norm_alone": nn.BatchNorm1d(3, affine=False, momentum=0.3),
                         "batch_norm_no_states": nn.BatchNorm1d(3, track_running_stats=False)}.items():
        yield name, lambda m, p: m(p), [draw(4, 3, 2, 2) if name == "batch_norm" else draw(4, 3)], [], module.double()
    yield "batch_norm_twice", lambda m, p: m(p) + m(p * 2 + 1), [draw(4, 3)], [], nn.BatchNorm1d(3).double()
    yield "batch_norm_known", lambda p, g: F.batch_norm(p, torch.arange(3.0).double(), torch.ones(3).double() * 2, g), \
        [draw(4, 3, 2), draw(3)], []
    heads = [draw(2, 4, 5, 3, seed=s) for s in range(3)]
    sdpa = F.scaled_dot_product_attention
    yield "attention", sdpa, heads, []
    yield "attention_causal", lambda q, k, v: sdpa(q, k, v, is_causal=True, scale=0.3), heads, []
    yield "attention_mask", lambda q, k, v, m: sdpa(q, k, v, attn_mask=m[:, None, None] > 0), heads, [whole(2, 2, 5) + torch.tensor([1, 0, 0, 0, 0])]
    yield "attention_written_causal", lambda q, k, v: sdpa(q, k, v, attn_mask=torch.ones(5, 5, dtype=torch.bool).tril()), heads, []
    yield "attention_window", lambda q, k, v: sdpa(q, k, v, attn_mask=torch.ones(5, 5, dtype=torch.bool).tril().triu(-2)), heads, []
    yield "attention_bias", lambda q, k, v, b: sdpa(q, k, v, attn_mask=b), [*heads, draw(1, 4, 5, 5)], []
    yield "attention_other_rows", lambda q, k, v: sdpa(q[:, :, :3], k, v, is_causal=True), heads, []
    yield "attention_no_heads", lambda q, k, v: sdpa(q[:, 0], k[:, 0], v[:, 0]), heads, []
    yield "attention_grouped", lambda q, k, v: sdpa(q, k[:, :2], v[:, :2], enable_gqa=True), heads, []
    yield "attention_repeated", lambda q, k, v: sdpa(q, *(x[:, :2, None].expand(2, 2, 2, 5, 3).reshape(2, 4, 5, 3) for x in (k, v))), \
        heads, []
    yield "multihead", lambda m, p: m(p, p, p, need_weights=False)[0], [draw(2, 3, 4)], [], \
        nn.MultiheadAttention(4, 2, batch_first=True).double()

    def turned(p, base):
        half = p.shape[-1] // 2
        angles = torch.arange(p.shape[-2], dtype=torch.float64)[:, None] * base ** (-torch.arange(half, dtype=torch.float64) / half)
        angles = torch.cat([angles, angles], -1)
        return p * angles.cos() + torch.cat([-p[..., half:], p[..., :half]], -1) * angles.sin()

    yield "rotary", lambda p: turned(p, 10000.0), [draw(2, 3, 5, 6)], []
    yield "rotary_of_columns", lambda p: turned(p.transpose(1, 3), 500.0), [draw(2, 6, 5, 3)], []
    for name, module in {"lstm": nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True), "gru": nn.GRU(3, 4, batch_first=True),
                         "rnn": nn.RNN(3, 4), "rnn_relu": nn.RNN(3, 4, nonlinearity="relu", bias=False)}.items():
        yield name, lambda m, p: m(p)[0], [draw(2, 3, 3)], [], module.double()


def _images():
    x, w = draw(2, 4, 5, 6), draw(4, 2, 3, 3)
    yield "conv2d", lambda p, q, r: F.conv2d(p, q, r, stride=2, padding=1, groups=2), [x, w, draw(4)], []
    yield "conv2d_dilated", lambda p, q: F.conv2d(p, q, dilation=2, padding=(2, 1), groups=2), [x, w], []
    yield "conv2d_same", lambda p, q: F.conv2d(p, q, padding="same"), [x, draw(3, 4, 2, 3)], []
    yield "conv1d", lambda p, q, r: F.conv1d(p, q, r, stride=2, padding=1), [draw(2, 3, 7), draw(4, 3, 3), draw(4)], []
    for name, options in {"plain": {}, "stride": {"stride": 2}, "padded": {"stride": 2, "padding": 1, "output_padding": 1},
                          "same_windows": {"stride": 3}, "dilated": {"dilation": 2, "padding": 1}, "much_padding": {"padding": 3, "stride": 2},
                          "far": {"dilation": 3, "output_padding": 2}, "far_cut": {"dilation": 4, "output_padding": 3, "padding": 1}}.items():
        yield f"conv_transpose2d_{name}", lambda p, q, r, o=options: F.conv_transpose2d(p, q, r, **o), \
            [draw(2, 4, 4, 3), draw(4, 3, 3, 3), draw(3)], []
    yield "conv_transpose2d_groups", lambda p, q: F.conv_transpose2d(p, q, stride=2, padding=1, groups=2), [draw(2, 4, 3, 3), draw(4, 3, 4, 4)], []
    yield "conv_transpose2d_of_groups", lambda p, q, r: F.conv_transpose2d(p, q, r, (2, 1), (0, 1), (1, 0), 2, (1, 2)), \
        [draw(2, 4, 3, 3), draw(4, 3, 2, 4), draw(6)], []
    yield "conv2d_padded_far", lambda p, q: F.conv2d(p, q, padding=(1, 2)), [draw(2, 3, 4, 3), draw(2, 3, 1, 2)], []
    yield "conv_transpose1d", lambda p, q: F.conv_transpose1d(p, q, stride=2, padding=1), [draw(2, 4, 5), draw(4, 3, 4)], []
    for name, f in {
        "max_pool2d": lambda p: F.max_pool2d(p, 2), "max_pool2d_ceil": lambda p: F.max_pool2d(p, 3, 2, 1, ceil_mode=True),
        "avg_pool2d": lambda p: F.avg_pool2d(p, 3, 2, 1), "avg_pool2d_inside": lambda p: F.avg_pool2d(p, 3, 2, 1, count_include_pad=False),
        "avg_pool2d_ceil": lambda p: F.avg_pool2d(p, 2, ceil_mode=True), "adaptive": lambda p: F.adaptive_avg_pool2d(p, 1),
        "adaptive_uneven": lambda p: F.adaptive_avg_pool2d(p, (3, 4)), "adaptive_parts": lambda p: F.adaptive_avg_pool2d(p, (5, 3)),
        "max_pool1d": lambda p: F.max_pool1d(p[:, 0], 2), "nearest": lambda p: F.interpolate(p, scale_factor=2),
        "nearest_size": lambda p: F.interpolate(p, size=(7, 4)), "nearest_factor": lambda p: F.interpolate(p, scale_factor=(1.5, 0.7)),
        "nearest_row": lambda p: F.interpolate(p[:, 0], size=9),
        "bilinear": lambda p: F.interpolate(p, scale_factor=2, mode="bilinear", align_corners=False),
        "bilinear_smaller": lambda p: F.interpolate(p, size=(3, 4), mode="bilinear"),
        "bilinear_corners": lambda p: F.interpolate(p, size=(8, 9), mode="bilinear", align_corners=True),
        "bilinear_factor": lambda p: F.interpolate(p, scale_factor=(1.5, 0.7), mode="bilinear"),
        "bilinear_corners_smaller": lambda p: F.interpolate(p, size=(1, 4), mode="bilinear", align_corners=True),
        "linear_row": lambda p: F.interpolate(p[:, 0], size=11, mode="linear"),
    }.items():
        yield name, f, [x], []


def _losses():
    x, t = draw(5, 4), whole(4, 5)
    left_out = torch.tensor([1, -100, 3, -100, 0])
    for name, labels, options in (
            ("cross_entropy", t, {}), ("cross_entropy_ignored", left_out, {}), ("cross_entropy_index", t, {"ignore_index": 2}),
            ("cross_entropy_weights", left_out, {"weight": torch.tensor([1.0, 2, 0.5, 3]).double()}),
            ("cross_entropy_smoothed", left_out, {"label_smoothing": 0.1}), ("cross_entropy_sum", t, {"reduction": "sum"}),
            ("cross_entropy_each", left_out, {"reduction": "none"})):
        yield name, lambda p, y, o=options: F.cross_entropy(p, y, **o), [x], [labels]
    yield "cross_entropy_shares", lambda p, y: F.cross_entropy(p, y, label_smoothing=0.2), [x], [draw(5, 4, low=0).softmax(1)]
    yield "cross_entropy_images", F.cross_entropy, [draw(2, 3, 4, 4)], [whole(3, 2, 4, 4)]
    yield "cross_entropy_flattened", lambda p, y: F.cross_entropy(p.view(-1, 4), y.view(-1)), [draw(2, 3, 4)], [whole(4, 2, 3)]
    yield "cross_entropy_shifted", lambda p, y: F.cross_entropy(p.view(-1, 4), F.pad(y, (0, 1), value=-100)[:, 1:].reshape(-1)), \
        [draw(2, 3, 4)], [whole(4, 2, 3)]
    yield "nll_loss", lambda p, y: F.nll_loss(F.log_softmax(p, 1), y), [x], [left_out]
    yield "nll_loss_weights", lambda p, y: F.nll_loss(p, y, weight=torch.tensor([1.0, 2, 0.5, 3]).double()), [x], [t]
    goal, shares = draw(5, 4, seed=2), draw(5, 4, low=0.01).clamp(max=0.99)
    for name, f in {"mse": F.mse_loss, "mse_sum": lambda p, y: F.mse_loss(p, y, reduction="sum"), "l1": F.l1_loss,
                    "smooth_l1": lambda p, y: F.smooth_l1_loss(p, y, beta=0.5), "huber": lambda p, y: F.huber_loss(p, y, delta=0.7)}.items():
        yield name, f, [x], [goal]
    yield "binary_logits", F.binary_cross_entropy_with_logits, [x], [shares]
    yield "binary_logits_weights", lambda p, y: F.binary_cross_entropy_with_logits(p, y, pos_weight=torch.tensor([1.0, 2, 3, 0.5]).double()), \
        [x], [shares]
    yield "binary", lambda p, y: F.binary_cross_entropy(p.sigmoid(), y), [x], [shares]
    yield "kl_div", lambda p, y: F.kl_div(F.log_softmax(p, 1), y, reduction="batchmean"), [x], [shares]
    yield "kl_div_logs", lambda p, y: F.kl_div(p, y, log_target=True, reduction="sum"), [x], [goal]


def cases():
    """Name, module, batch."""
    torch.manual_seed(0)
    for family in (_elementwise, _reductions, _shapes, _indices, _layers, _images, _losses):
        for name, function, parameters, batch, *module in family():
            for p in module[0].parameters() if module else ():
                p.data = short(p.data)
            yield name, Case(function, parameters, *module), tuple(batch)

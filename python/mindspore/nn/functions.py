"""Cells without parameters that are functions of their inputs: a table of their settings, and of what they do then."""

from __future__ import annotations

from typing import Callable

import numpy

from ..common import dtype as mstype
from ..common.tensor import Tensor
from ..ops import composed as C
from ..ops import images, norms
from ..ops import functional as F
from ..ops import losses as L
from ..ops import operations as P
from ..ops import reductions as R
from ..ops import windows as W
from ..ops.arrangements import padded
from .cell import Cell
from .loss.loss import LossBase


def cell_of(name: str, make: Callable, base: type[Cell] = Cell) -> type[Cell]:
    """`make` takes the settings and gives the function of the inputs, which is told whether the cell trains if it wants to."""
    make.__name__ = make.__qualname__ = name

    class Function(base):
        __doc__ = make.__doc__

        def __init__(self, *args, **settings):
            super().__init__()
            self._function = make(*args, **settings)
            if base is LossBase and "reduction" in settings:
                self.reduction = settings["reduction"]

        def construct(self, *inputs, **more):
            if "is_training" in (getattr(self._function, "__kwdefaults__", None) or {}):
                more["is_training"] = self.training
            return self._function(*inputs, **more)

    Function.__name__ = Function.__qualname__ = name
    return Function


def _max_pool(rank: int) -> Callable:
    def make(kernel_size=1, stride=1, pad_mode="valid", padding=0, dilation=1, return_indices=False, ceil_mode=False):
        return lambda x: W.max_pool(x, rank, kernel_size, stride, pad_mode, padding, dilation, return_indices, ceil_mode)

    return make


def _avg_pool(rank: int) -> Callable:
    def make(kernel_size=1, stride=1, pad_mode="valid", padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
        return lambda x: W.avg_pool(x, rank, kernel_size, stride, pad_mode, padding, ceil_mode, count_include_pad, divisor_override)

    return make


def _edges(rank: int, mode: str) -> Callable:
    def make(padding):
        sides = (padding,) * (2 * rank) if isinstance(padding, int) else tuple(padding)
        return lambda x: F.pad(x, sides, mode)

    return make


def _constant_edges(rank: int) -> Callable:
    def make(padding, value):
        sides = (padding,) * (2 * rank) if isinstance(padding, int) else tuple(padding)
        return lambda x: F.pad(x, sides, "constant", value)

    return make


def _dropped(rank: int) -> Callable:
    """Whole channels, of inputs with as many dims behind them."""
    def make(p=0.5):
        if not 0 <= p <= 1:
            raise ValueError(f"p of a Dropout{rank}d is from 0 to 1, not {p}")

        def run(x, *, is_training=False):
            if not is_training or p == 0:
                return x
            lead = x.shape[:len(x.shape) - rank]
            kept, _ = P.Dropout(1 - p)(F.ones((*lead, *[1] * rank), x.dtype))
            return x * kept

        return run

    return make


def _resized():
    def run(x, size=None, scale_factor=None, align_corners=False):
        if (size is None) == (scale_factor is None):
            raise ValueError("ResizeBilinear takes size or scale_factor")
        size = tuple(n * scale_factor for n in x.shape[2:]) if size is None else size
        return images.resized(x, size, "bilinear", align_corners, False)

    return run


def _hot(axis=-1, depth=1, on_value=1.0, off_value=0.0, dtype=mstype.float32):
    return lambda indices: P.OneHot(axis)(indices, depth, Tensor(on_value, dtype), Tensor(off_value, dtype))


def _central(central_fraction):
    if not 0 < central_fraction <= 1:
        raise ValueError(f"central_fraction of a CentralCrop is above 0 and at most 1, not {central_fraction}")

    def run(image):
        size = image.shape[-2:]
        starts = [int((n - n * central_fraction) / 2) for n in size]
        for d, n, s in zip((-2, -1), size, starts):
            image = R.sliced(image, d, s, n - s)
        return image

    return run


def _sampled(num_sampled, num_classes, num_true=1, sampled_values=None, remove_accidental_hits=True, seed=0, reduction="none"):
    """The softmax over the true class and some that are drawn, each less the logarithm of how likely it was."""
    if num_true != 1:
        raise ValueError(f"SampledSoftmaxLoss with num_true={num_true} is not in this front end; there is 1")
    share = numpy.log((numpy.arange(num_classes) + 2) / (numpy.arange(num_classes) + 1)) / numpy.log(num_classes + 1)

    def run(weights, biases, labels, logits):
        if sampled_values is not None:
            raise ValueError("SampledSoftmaxLoss with sampled_values is not in this front end")
        drawn = numpy.random.default_rng(seed).choice(num_classes, num_sampled, False, share / share.sum()).astype(numpy.int32)
        expected = Tensor((-numpy.expm1(num_sampled * numpy.log1p(-share))).astype(numpy.float32))
        true = P.Reshape()(P.Cast()(labels, mstype.int32), (-1,))
        own = P.ReduceSum()(logits * P.Gather()(weights, true, 0), -1) + P.Gather()(biases, true, 0) - F.log(P.Gather()(expected, true, 0))
        others = Tensor(drawn)
        rest = F.matmul(logits, F.transpose(P.Gather()(weights, others, 0), (1, 0))) + P.Gather()(biases, others, 0) \
            - F.log(P.Gather()(expected, others, 0))
        if remove_accidental_hits:
            hit = P.Cast()(F.expand_dims(true, 1) == F.expand_dims(others, 0), mstype.float32)
            rest = rest - hit * 1e30
        shares = P.LogSoftmax(-1)(P.Concat(1)([F.expand_dims(own, 1), rest]))
        return L.reduced(-shares[:, 0], reduction)

    return run


def _slopes(lower=1 / 8, upper=1 / 3):
    """The mean of the slopes that are drawn while it trains, which is not here."""
    def run(x, *, is_training=False):
        if is_training:
            raise ValueError("nn.RReLU that trains draws its slopes: it is not in this front end")
        return F.leaky_relu(x, (lower + upper) / 2)

    return run


def _dice(smooth=1e-5):
    def run(logits, label):
        both, a, b = (P.ReduceSum()(t) for t in (logits * label, logits * logits, label * label))
        return 1 - 2 * both / (a + b + smooth)

    return run


def _dice_of_classes(weights=None, ignore_indiex=None, activation="softmax"):
    from .layers import get_activation
    cell = get_activation(activation) if isinstance(activation, str) else activation

    def run(logits, label):
        logits = logits if cell is None else cell(logits)
        terms = [_dice()(logits[:, i], label[:, i]) * (1 if weights is None else weights[i])
                 for i in range(label.shape[1]) if i != ignore_indiex]
        return C.addn(terms) / label.shape[1]

    return run


def _focal(weight=None, gamma=2.0, reduction="mean"):
    def run(logits, labels):
        x = P.Reshape()(logits, (*logits.shape[:2], -1))
        y = P.Reshape()(labels, (*labels.shape[:2], -1))
        logs = P.LogSoftmax(1)(x)
        weights = None if weight is None else P.BroadcastTo(tuple(x.shape))(P.Reshape()(weight, (1, -1, 1)))
        if labels.shape[1] == 1:
            y = P.Cast()(y, mstype.int32)
            logs = P.Squeeze(1)(R.taken_along(logs, y, 1))
            weights = None if weights is None else P.Squeeze(1)(R.taken_along(weights, y, 1))
        share = P.Exp()(logs)
        logs = logs if weights is None else logs * weights
        losses = -P.Pow()(1 - share, float(gamma)) * logs
        return L.reduced(P.ReduceMean()(losses if labels.shape[1] == 1 else losses * y, -1 if labels.shape[1] == 1 else (1, 2)),
                         reduction)

    return run


def _gaussian(size: int, sigma: float) -> numpy.ndarray:
    line = numpy.exp(-0.5 * ((numpy.arange(size) - (size - 1) / 2) / sigma) ** 2)
    grid = numpy.outer(line, line)
    return (grid / grid.sum()).astype(numpy.float32)


def _similarity(max_val=1.0, filter_size=11, filter_sigma=1.5, k1=0.01, k2=0.03):
    """Of images, by means, variances and the covariance in windows."""
    window = _gaussian(filter_size, filter_sigma)

    def run(img1, img2):
        channels = img1.shape[1]
        weight = Tensor(numpy.broadcast_to(window, (channels, 1, *window.shape)).copy())

        def mean(x):
            return W.convolved(x, weight, [1, 1], [(0, 0), (0, 0)], [1, 1], channels)

        c1, c2 = (k1 * max_val) ** 2, (k2 * max_val) ** 2
        a, b = mean(img1), mean(img2)
        squares = mean(img1 * img1) + mean(img2 * img2)
        both = mean(img1 * img2)
        luminance = (2 * a * b + c1) / (a * a + b * b + c1)
        contrast = (2 * (both - a * b) + c2) / (squares - (a * a + b * b) + c2)
        return P.ReduceMean()(luminance * contrast, (1, 2, 3))

    return run


def _gradients_of_images():
    def run(images):
        out = []
        for d in (2, 3):
            step = F.diff(images, 1, d)
            out.append(padded(step, [(0, int(e == d)) for e in range(4)]))
        return tuple(out)

    return run


def _clipped(axis=None):
    def run(x, clip_norm):
        size = R.vector_norm(x, 2, axis, True)
        limit = clip_norm if isinstance(clip_norm, Tensor) else float(clip_norm)
        return x * limit / P.Maximum()(size, limit)

    return run


def _patches(x, kernel, strides, rates, padding: str):
    """[batch, rows x columns of a patch x channels, ..]: what each window sees, window by window."""
    if str(padding).lower() != "valid":
        raise ValueError(f"padding of nn.Unfold is valid in this front end, not {padding!r}")
    kernel, strides, rates = (list(v)[1:3] for v in (kernel, strides, rates))
    b, c, h, w = x.shape
    out = [(n - (k - 1) * d - 1) // s + 1 for n, k, d, s in zip((h, w), kernel, rates, strides)]
    columns = P.Reshape()(F.unfold(x, kernel, rates, 0, strides), (b, c, kernel[0] * kernel[1], *out))
    return P.Reshape()(F.swapaxes(columns, 1, 2), (b, c * kernel[0] * kernel[1], *out))


def _moments(axis=None, keep_dims=None):
    def run(x):
        dims = () if axis is None else axis
        mean = P.ReduceMean(True)(x, dims)
        spread = P.ReduceMean(bool(keep_dims))(P.Square()(x - F.stop_gradient(mean)), dims)
        return (mean if keep_dims else P.ReduceMean()(x, dims)), spread

    return run


_activations = {
    "ReLU6": lambda: F.relu6, "ELU": lambda alpha=1.0: lambda x: F.elu(x, alpha),
    "CELU": lambda alpha=1.0: lambda x: F.celu(x, alpha), "SeLU": lambda: F.selu, "LogSigmoid": lambda: F.logsigmoid,
    "LeakyReLU": lambda alpha=0.2: lambda x: F.leaky_relu(x, alpha), "RReLU": _slopes, "HSwish": lambda: F.hardswish,
    "HSigmoid": lambda: F.hardsigmoid, "Mish": lambda: F.mish, "Softsign": lambda: F.softsign, "Tanhshrink": lambda: F.tanhshrink,
    "SoftShrink": lambda lambd=0.5: lambda x: F.softshrink(x, lambd), "HShrink": lambda lambd=0.5: lambda x: F.hardshrink(x, lambd),
    "Hardtanh": lambda min_val=-1.0, max_val=1.0: lambda x: F.hardtanh(x, min_val, max_val),
    "Threshold": lambda threshold, value: lambda x: F.threshold(x, threshold, value),
    "Softmin": lambda axis=-1: lambda x: F.softmin(x, axis), "Softmax2d": lambda: lambda x: P.Softmax(-3)(x),
    "LogSoftmax": lambda axis=-1: lambda x: P.LogSoftmax(axis)(x), "GLU": lambda axis=-1: lambda x: F.glu(x, axis),
    "FastGelu": lambda: P.FastGeLU(), "LRN": lambda depth_radius=5, bias=1.0, alpha=1.0, beta=0.5, norm_region="ACROSS_CHANNELS":
        lambda x: norms.lrn(x, depth_radius, bias, alpha, beta, norm_region)}
_shapes = {
    **{f"MaxPool{rank}d": _max_pool(rank) for rank in (1, 3)}, **{f"AvgPool{rank}d": _avg_pool(rank) for rank in (1, 3)},
    **{f"AdaptiveAvgPool{rank}d": lambda output_size, rank=rank: lambda x: W.adaptive_avg_pool(x, output_size, rank)
       for rank in (1, 2, 3)},
    **{f"AdaptiveMaxPool{rank}d": lambda output_size, return_indices=False, rank=rank: lambda x: W.adaptive_max_pool(
        x, output_size, rank, return_indices) for rank in (1, 2, 3)},
    **{f"LPPool{rank}d": lambda norm_type, kernel_size, stride=None, ceil_mode=False, rank=rank: lambda x: F.__dict__[
        f"lp_pool{rank}d"](x, norm_type, kernel_size, stride, ceil_mode) for rank in (1, 2)},
    **{f"{kind}Pad{rank}d": _edges(rank, mode) for rank in (1, 2, 3)
       for kind, mode in (("Reflection", "reflect"), ("Replication", "replicate"))},
    **{f"ConstantPad{rank}d": _constant_edges(rank) for rank in (1, 2, 3)}, "ZeroPad2d": _edges(2, "constant"),
    "Pad": lambda paddings, mode="CONSTANT": lambda x: padded(x, [tuple(p) for p in paddings], mode.lower()),
    **{f"Dropout{rank}d": _dropped(rank) for rank in (1, 2, 3)},
    "Unflatten": lambda axis, unflattened_size: lambda x: P.Reshape()(x, (
        *x.shape[:axis], *unflattened_size, *x.shape[axis % len(x.shape) + 1:])),
    "PixelShuffle": lambda upscale_factor: lambda x: F.pixel_shuffle(x, upscale_factor),
    "PixelUnshuffle": lambda downscale_factor: lambda x: F.pixel_unshuffle(x, downscale_factor),
    "ChannelShuffle": lambda groups: lambda x: F.channel_shuffle(x, groups),
    "Upsample": lambda size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None:
        lambda x: F.interpolate(x, size, scale_factor, mode, align_corners, recompute_scale_factor),
    "ResizeBilinear": lambda half_pixel_centers=False: _resized(), "Tril": lambda: lambda x, k=0: F.tril(x, k),
    "Triu": lambda: lambda x, k=0: F.triu(x, k), "OneHot": _hot, "CentralCrop": _central,
    "Roll": lambda shift, axis: lambda x: F.roll(x, shift, axis), "Moments": _moments,
    "Range": lambda start, limit=None, delta=1: lambda: Tensor(numpy.arange(*((0, start) if limit is None else (start, limit)), delta),
                                                               mstype.int32 if isinstance(start, int) else mstype.float32),
    "Norm": lambda axis=(), keep_dims=False: lambda x: R.vector_norm(x, 2, axis, keep_dims), "ClipByNorm": _clipped,
    "L1Regularizer": lambda scale: lambda weights: P.ReduceSum()(P.Abs()(weights)) * float(scale),
    "ReduceLogSumExp": lambda axis, keep_dims=False: lambda x: R.logsumexp(x, axis, keep_dims),
    "MatMul": lambda transpose_x1=False, transpose_x2=False: lambda x, y: F.matmul(
        F.swapaxes(x, -1, -2) if transpose_x1 else x, F.swapaxes(y, -1, -2) if transpose_x2 else y),
    "CosineSimilarity": lambda dim=1, eps=1e-8: lambda x, y: F.cosine_similarity(x, y, dim, eps),
    "LGamma": lambda: F.lgamma, "DiGamma": lambda: F.digamma, "MatInverse": lambda: F.inverse, "MatDet": lambda: F.det,
    "Unfold": lambda ksizes, strides, rates, padding="valid": lambda x: _patches(x, ksizes, strides, rates, padding),
    "ImageGradients": _gradients_of_images, "SSIM": _similarity,
    "PSNR": lambda max_val=1.0: lambda a, b: 10 * F.log10(max_val**2 / P.ReduceMean()(P.Square()(a - b), (-3, -2, -1)))}
_losses = {
    "SmoothL1Loss": lambda beta=1.0, reduction="none": lambda x, y: L.smooth_l1_loss(x, y, beta, reduction),
    "HuberLoss": lambda reduction="mean", delta=1.0: lambda x, y: L.huber_loss(x, y, reduction, delta),
    "RMSELoss": lambda: lambda x, y: P.Sqrt()(P.ReduceMean()(P.Square()(x - y))),
    "NLLLoss": lambda weight=None, ignore_index=-100, reduction="mean": lambda x, y: L.nll_loss(x, y, weight, ignore_index, reduction),
    "BCELoss": lambda weight=None, reduction="mean": lambda x, y: L.binary_cross_entropy(x, y, weight, reduction),
    "BCEWithLogitsLoss": lambda reduction="mean", weight=None, pos_weight=None: lambda x, y: L.binary_cross_entropy_with_logits(
        x, y, weight, pos_weight, reduction),
    "KLDivLoss": lambda reduction="mean": lambda x, y: L.kl_div(x, y, reduction),
    "CosineEmbeddingLoss": lambda margin=0.0, reduction="mean": lambda a, b, y: L.cosine_embedding_loss(a, b, y, margin, reduction),
    "MarginRankingLoss": lambda margin=0.0, reduction="mean": lambda a, b, y: L.margin_ranking_loss(a, b, y, margin, reduction),
    "HingeEmbeddingLoss": lambda margin=1.0, reduction="mean": lambda x, y: L.hinge_embedding_loss(x, y, margin, reduction),
    "MultiMarginLoss": lambda p=1, margin=1.0, reduction="mean", weight=None: lambda x, y: L.multi_margin_loss(
        x, y, p, margin, weight, reduction),
    "MultilabelMarginLoss": lambda reduction="mean": lambda x, y: L.multilabel_margin_loss(x, y, reduction),
    "MultiLabelSoftMarginLoss": lambda weight=None, reduction="mean": lambda x, y: L.multilabel_soft_margin_loss(x, y, weight, reduction),
    "SoftMarginLoss": lambda reduction="mean": lambda x, y: L.soft_margin_loss(x, y, reduction),
    "TripletMarginLoss": lambda p=2, swap=False, eps=1e-6, reduction="mean", margin=1.0: lambda a, b, c, m=None: L.triplet_margin_loss(
        a, b, c, margin if m is None else m, p, eps, swap, reduction),
    "GaussianNLLLoss": lambda *, full=False, eps=1e-6, reduction="mean": lambda x, y, v: L.gaussian_nll_loss(x, y, v, full, eps, reduction),
    "PoissonNLLLoss": lambda log_input=True, full=False, eps=1e-8, reduction="mean": lambda x, y: L.poisson_nll_loss(
        x, y, log_input, full, eps, reduction),
    "CTCLoss": lambda blank=0, reduction="mean", zero_infinity=False: lambda x, y, n, m: L.ctc_loss(
        x, y, n, m, blank, reduction, zero_infinity)[0],
    "SampledSoftmaxLoss": _sampled, "DiceLoss": _dice, "MultiClassDiceLoss": _dice_of_classes, "FocalLoss": _focal}

cells = {**{name: cell_of(name, make) for name, make in {**_activations, **_shapes}.items()},
         **{name: cell_of(name, make, LossBase) for name, make in _losses.items()}}

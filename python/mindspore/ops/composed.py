"""Primitives that are functions of other operators: a table of what is made, with its settings, and of what it does then."""

from __future__ import annotations

from typing import Callable

import numpy

from ..common import dtype as mstype
from ..common.tensor import Tensor
from . import arrangements as A
from . import losses as L
from . import operations as P
from . import drawn, images, norms, places, pointwise, products, ranges, running
from . import reductions as R
from . import windows as W
from .networks import composed, pair_of
from .places import gather_elements, gather_nd, scatter_nd
from .pointwise import clip, where
from .primitive import Primitive, as_tensor, by_core
from .shapes import filled


def made_by(name: str, make: Callable) -> type[Primitive]:
    """`make` takes the settings and gives the function of the inputs."""
    make.__name__ = make.__qualname__ = name

    class Composed(Primitive):
        __doc__ = make.__doc__

        def __init__(self, *args, **settings):
            self._function = make(*args, **settings)

        def run(self, *inputs):
            if not self.strategies().get("in_"):
                return self._function(*inputs)
            tensors = [x for x in inputs if isinstance(x, Tensor)]

            def function(*given):
                rest = iter(given)
                return self._function(*(next(rest) if isinstance(x, Tensor) else x for x in inputs))

            return composed(self, function, *tensors)

    Composed.__name__ = Composed.__qualname__ = name
    return Composed


def _plain(function: Callable) -> Callable:
    return lambda: function


def _with_loss(function: Callable, own: str = "mean") -> Callable:
    return lambda reduction=own: lambda *inputs: function(*inputs, reduction=reduction)


def _normed(is_training=False, epsilon=1e-5, momentum=0.1, data_format="NCHW"):
    if is_training:
        raise ValueError("ops.BatchNorm with is_training=True is not in this front end; nn.BatchNorm2d is")
    return lambda x, scale, bias, mean, variance: (norms.batch_norm(x, mean, variance, scale, bias, eps=epsilon),)


def _strided(out_channel, kernel_size, pad_mode="valid", pad=0, pad_list=None, mode=1, stride=1, dilation=1, group=1,
             data_format="NCHW"):
    kernel, strides, dilations = pair_of(kernel_size), pair_of(stride), pair_of(dilation)

    def run(x, weight, size):
        size = A.numbers(size)
        sides = W.sides_of(pad_mode, pad, size[2:], kernel, strides, dilations)
        return W.deconvolved(x, weight, strides, sides, dilations, group, size[2:])

    return run


def _pool(function: Callable, rank: int) -> Callable:
    def make(kernel_size=1, strides=1, pad_mode="valid", pad_list=0, ceil_mode=None, data_format=None, **more):
        return lambda x: function(x, rank, kernel_size, strides, pad_mode, more.pop("pad", pad_list), ceil_mode=bool(ceil_mode))

    return make


def _greedy(merge_repeated=True):
    """The largest of each time, without repetitions and blanks (the last class): where, what, how many, and minus the sum."""
    def run(inputs, sequence_length):
        logits = places._known(inputs, "CTCGreedyDecoder")
        lengths = places._known(sequence_length, "CTCGreedyDecoder")
        blank, found = logits.shape[2] - 1, []
        sums = numpy.zeros((logits.shape[1], 1), numpy.float32)
        for b, length in enumerate(lengths):
            best = logits[:length, b].argmax(-1)
            sums[b] = -logits[:length, b].max(-1).sum()
            kept = [c for t, c in enumerate(best) if c != blank and not (merge_repeated and t and best[t - 1] == c)]
            found += [(b, k, c) for k, c in enumerate(kept)]
        rows = numpy.array(found, numpy.int64).reshape(-1, 3)
        shape = numpy.array([len(lengths), int(rows[:, 1].max(initial=-1)) + 1], numpy.int64)
        return Tensor(rows[:, :2]), Tensor(rows[:, 2]), Tensor(shape), Tensor(sums)

    return run


def _boxes_apart(iou_threshold=0.5):
    """Boxes [n, 5] in the order of their scores, their numbers, and which of them no better one covers."""
    def run(boxes):
        order = R.argsort(A.select_at(boxes, 1, 4), 0, True)
        sorted_boxes = by_core("gather", boxes, order, dim=0)
        overlap = overlap_of(sorted_boxes, sorted_boxes)
        n = boxes.shape[0]
        kept = filled("float32", (n,), 1)
        for i in range(n):
            own = A.narrow(kept, 0, i, 1)
            covers = P.Cast()(overlap[i] > float(iou_threshold), mstype.float32)
            later = Tensor((numpy.arange(n) > i).astype(numpy.float32))
            kept = kept * (1 - own * covers * later)
        return sorted_boxes, order, kept > 0.5

    return run


def overlap_of(first, second, mode: str = "iou", edge: float = 0.0) -> Tensor:
    """[n, m]: what is in both boxes by what is in one of them (iof: in the second's). edge: more in each side."""
    corners = [[P.Reshape()(A.select_at(b, 1, i), shape) for i in range(4)] for b, shape in ((first, (-1, 1)), (second, (1, -1)))]
    (x0, y0, x1, y1), (u0, v0, u1, v1) = corners
    width = P.ReLU()(P.Minimum()(x1, u1) - P.Maximum()(x0, u0) + edge)
    height = P.ReLU()(P.Minimum()(y1, v1) - P.Maximum()(y0, v0) + edge)
    both = width * height
    own, other = (x1 - x0 + edge) * (y1 - y0 + edge), (u1 - u0 + edge) * (v1 - v0 + edge)
    return both / (own + other - both if mode == "iou" else own + both * 0)


def iou(anchor_boxes, gt_boxes, mode="iou"):
    """Rows are of the second's boxes."""
    return overlap_of(gt_boxes, anchor_boxes, mode, 1.0)


def _cumulative(function: Callable) -> Callable:
    def make(exclusive=False, reverse=False):
        def run(x, axis):
            y = R.flipped(x, axis) if reverse else x
            y = function(y, axis)
            if exclusive:
                y = running._shifted(y, axis, 1, 1.0)
            return R.flipped(y, axis) if reverse else y

        return run

    return make


def _ctc(preprocess_collapse_repeated=False, ctc_merge_repeated=True, ignore_longer_outputs_than_inputs=False):
    if preprocess_collapse_repeated or not ctc_merge_repeated or ignore_longer_outputs_than_inputs:
        raise ValueError("ops.CTCLoss in this front end merges repeated labels as the loss is defined, and has no other settings")

    def run(x, labels_indices, labels_values, sequence_length):
        indices, values = labels_indices.asnumpy(), labels_values.asnumpy()
        batch = x.shape[1]
        counts = numpy.bincount(indices[:, 0], minlength=batch)
        targets = numpy.zeros((batch, max(int(counts.max()), 1)), numpy.int32)
        targets[indices[:, 0], indices[:, 1]] = values
        logs = P.LogSoftmax(-1)(x)
        return (L.ctc_losses(logs, Tensor(targets), sequence_length, Tensor(counts.astype(numpy.int32)), x.shape[2] - 1)[0],)

    return run


_of_one = {name: _plain(pointwise.functions[f] if isinstance(f, str) else f) for name, f in {
    "SeLU": pointwise.selu, "Softsign": "softsign", "ReLU6": "relu6", "HSigmoid": "hardsigmoid", "Mish": "mish",
    "Erfc": "erfc", "Erfinv": "erfinv", "Sinh": "sinh", "Cosh": "cosh", "Tan": "tan", "Expm1": "expm1", "Log1p": "log1p",
    "Asin": "asin", "ACos": "acos", "Atan": "atan", "Asinh": "asinh", "Acosh": "acosh", "Atanh": "atanh",
    "Lgamma": "lgamma", "Digamma": "digamma", "Rint": "round", "Trunc": "trunc", "IsNan": "isnan", "IsInf": "isinf",
    "IsFinite": "isfinite", "BesselI0": "bessel_i0", "BesselI1": "bessel_i1", "TruncateDiv": "truncate_div",
    "TruncateMod": "truncate_mod", "Xdivy": "xdivy", "Xlogy": "xlogy", "Lerp": "lerp"}.items()}

_others = {
    "SoftShrink": lambda lambd=0.5: lambda x: pointwise.softshrink(x, lambd),
    "HShrink": lambda lambd=0.5: lambda x: pointwise.hardshrink(x, lambd),
    "L2Loss": lambda: lambda x: P.ReduceSum()(P.Square()(x)) * 0.5,
    "MulNoNan": lambda: lambda x, y: where(as_tensor(y) == 0, 0.0, x * y),
    "ApproximateEqual": lambda tolerance=1e-5: lambda x, y: P.Abs()(x - y) < float(tolerance),
    "AddN": lambda: addn, "AccumulateNV2": lambda: addn,
    "SquareSumAll": lambda: lambda x, y: (P.ReduceSum()(P.Square()(x)), P.ReduceSum()(P.Square()(y))),
    # reductions
    "ReduceProd": lambda keep_dims=False: lambda x, axis=(): R.prod(x, None if axis == () else axis, keep_dims),
    "ReduceAll": lambda keep_dims=False: lambda x, axis=(): R.all(x, axis, keep_dims),
    "ReduceAny": lambda keep_dims=False: lambda x, axis=(): R.any(x, axis, keep_dims),
    "ArgMaxWithValue": lambda axis=0, keep_dims=False: lambda x: R.argmax_with_value(x, axis, keep_dims)[::-1],
    "ArgMinWithValue": lambda axis=0, keep_dims=False: lambda x: R.argmin_with_value(x, axis, keep_dims)[::-1],
    "Argmin": lambda axis=-1, output_type=mstype.int32: lambda x: P.Cast()(R.argmin(x, axis), output_type),
    "CumProd": _cumulative(running.cumprod), "Cummax": lambda axis: lambda x: running.cummax(x, axis), "Cummin": lambda axis: lambda x: running.cummin(x, axis),
    "LpNorm": lambda axis, p=2, keep_dims=False, epsilon=1e-12: lambda x: R.vector_norm(x, p, axis, keep_dims),
    "Sort": lambda axis=-1, descending=False: lambda x: R.sort(x, axis, descending),
    # arrangements
    "Unstack": lambda axis=0, num=None: lambda x: A.unstack(x, axis), "ReverseV2": lambda axis: lambda x: A.flip(x, axis),
    "Pad": lambda paddings: lambda x: A.padded(x, [tuple(p) for p in paddings]),
    "MirrorPad": lambda mode="REFLECT": lambda x, paddings: A.padded(x, [tuple(p) for p in paddings.tolist()], mode.lower()),
    "DepthToSpace": lambda block_size: lambda x: images.depth_to_space(x, block_size),
    "SpaceToDepth": lambda block_size: lambda x: images.space_to_depth(x, block_size),
    "SpaceToBatchND": lambda block_shape, paddings: lambda x: images.space_to_batch_nd(x, block_shape, paddings),
    "BatchToSpaceND": lambda block_shape, crops: lambda x: images.batch_to_space_nd(x, block_shape, crops),
    "Meshgrid": lambda indexing="xy": lambda inputs: A.meshgrid(*inputs, indexing=indexing),
    "Eye": lambda: lambda n, m, dtype: ranges.eye(n, m, dtype), "Tril": lambda diagonal=0: lambda x: A.tril(x, diagonal),
    "Triu": lambda diagonal=0: lambda x: A.triu(x, diagonal),
    "Range": lambda maxlen=1000000: lambda start, limit, delta: ranges.arange(start, limit, delta),
    "LinSpace": lambda: lambda start, stop, num: ranges.linspace(start, stop, num),
    "FillV2": lambda: lambda shape, value: filled(value.dtype.name, A.numbers(shape), value.item()),
    "Diag": lambda: A.diag_embed, "DiagPart": lambda: A.diagonal,
    "ReverseSequence": lambda seq_dim, batch_dim=0: lambda x, lengths: A.reverse_sequence(x, lengths, seq_dim, batch_dim),
    "ResizeNearestNeighbor": lambda size, align_corners=False, half_pixel_centers=False: lambda x: images.resized(
        x, size, "nearest", align_corners),
    "ResizeBilinear": lambda size, align_corners=False, half_pixel_centers=False: lambda x: images.resized(
        x, size, "bilinear", align_corners, half_pixel_centers),
    "ResizeBilinearV2": lambda align_corners=False, half_pixel_centers=False: lambda x, size: images.resized(
        x, size, "bilinear", align_corners, half_pixel_centers),
    "TupleToArray": lambda: lambda values: A.functions["tuple_to_array"](values),
    "ScalarToTensor": lambda: lambda value, dtype=mstype.float32: Tensor(value, dtype),
    "ScalarCast": lambda: lambda value, dtype: {"i": int, "f": float, "b": bool}[numpy.dtype(mstype.type_of(dtype).name).kind](value),
    # places
    "GatherD": lambda: gather_elements, "GatherNd": lambda: gather_nd, "ScatterNd": lambda: scatter_nd,
    **{f"TensorScatter{kind}": (lambda kind=kind: lambda: places.functions[f"tensor_scatter_{kind.lower()}"])()
       for kind in ("Update", "Add", "Sub", "Mul", "Div", "Max", "Min")},
    "Unique": lambda: places.unique, "UnsortedSegmentSum": lambda: places.unsorted_segment_sum,
    **{f"UnsortedSegment{kind}": (lambda kind=kind: lambda: places.functions[f"unsorted_segment_{kind.lower()}"])()
       for kind in ("Max", "Min", "Prod")},
    "MaskedFill": lambda: places.masked_fill, "MaskedSelect": lambda: places.masked_select,
    "EmbeddingLookup": lambda: lambda params, indices, offset: P.Gather()(params, indices - offset, 0),
    "InTopK": lambda k: lambda x, y: places.intopk(x, y, k), "SequenceMask": lambda: A.sequence_mask,
    # products
    "MatrixInverse": lambda adjoint=False: products.inverse, "MatrixDeterminant": lambda: products.det,
    "Cross": lambda dim=None: lambda x, y: products.cross(x, y, dim), "Einsum": lambda equation: lambda x: products.einsum(equation, *x),
    # networks
    "Conv2DTranspose": _strided, "Conv2DBackpropInput": _strided,
    "Conv3D": lambda out_channel, kernel_size, mode=1, pad_mode="valid", pad=0, stride=1, dilation=1, group=1, data_format="NCDHW":
        lambda x, weight: W.functions["conv3d"](x, weight, None, stride, pad_mode, pad, dilation, group),
    "MaxPool3D": _pool(W.max_pool, 3), "AvgPool3D": _pool(W.avg_pool, 3),
    "MaxPoolWithArgmaxV2": lambda kernel_size, strides=None, pads=0, dilation=(1, 1), ceil_mode=False, argmax_type=mstype.int64:
        lambda x: _typed_places(W.max_pool(x, 2, kernel_size, strides, "pad", pads, dilation, True, ceil_mode), argmax_type),
    "AdaptiveAvgPool2D": lambda output_size: lambda x: W.adaptive_avg_pool(x, output_size, 2), "BatchNorm": _normed,
    "LRN": lambda depth_radius=5, bias=1.0, alpha=1.0, beta=0.5, norm_region="ACROSS_CHANNELS": lambda x: norms.lrn(
        x, depth_radius, bias, alpha, beta, norm_region),
    "NLLLoss": lambda reduction="mean", ignore_index=-100: lambda x, labels, weight: (
        L.nll_loss(x, labels, weight, ignore_index, reduction), P.ReduceSum()(P.Gather()(weight, labels, 0))),
    "SmoothL1Loss": lambda beta=1.0, reduction="none": lambda x, y: L.smooth_l1_loss(x, y, beta, reduction),
    "KLDivLoss": _with_loss(L.kl_div), "BinaryCrossEntropy": _with_loss(L.binary_cross_entropy),
    "BCEWithLogitsLoss": _with_loss(lambda x, y, w, p, reduction: L.binary_cross_entropy_with_logits(x, y, w, p, reduction)),
    "SigmoidCrossEntropyWithLogits": lambda: lambda x, y: by_core("sigmoid_cross_entropy", x, y), "CTCLoss": _ctc,
    "FloatStatus": lambda: lambda x: P.Reshape()(P.Cast()(R.any(P.LogicalNot()(pointwise.functions["isfinite"](x))), mstype.float32), (1,)),
    "NPUAllocFloatStatus": lambda: lambda: filled("float32", (8,), 0), "NPUGetFloatStatus": lambda: lambda x: x,
    "NPUClearFloatStatus": lambda: lambda x: x,
    "MaxPoolWithArgmax": lambda kernel_size=1, strides=1, pad_mode="valid", data_format="NCHW": lambda x: _typed_places(
        W.max_pool(x, 2, kernel_size, strides, pad_mode, 0, 1, True), mstype.int32),
    "CTCGreedyDecoder": _greedy, "NMSWithMask": _boxes_apart, "IOU": lambda mode="iou": lambda x, y: iou(x, y, mode)}


def addn(x):
    """The sum of several tensors."""
    total = x[0]
    for term in x[1:]:
        total = total + term
    return total


def _typed_places(found, dtype):
    return found[0], P.Cast()(found[1], dtype)


kinds = {name: made_by(name, make) for name, make in {**_of_one, **_others}.items()}
kinds |= {name: made_by(name, make) for name, make in drawn.makes.items()}
kinds |= {"TensorScatterElements": made_by("TensorScatterElements", lambda axis=0, reduction="none": lambda x, i, u:
                                           places.tensor_scatter_elements(x, i, u, axis, reduction))}


# ---- functions of norms of several tensors ----

def clip_by_value(x, clip_value_min=None, clip_value_max=None):
    """At least min and at most max; of a list each."""
    if isinstance(x, (list, tuple)):
        return type(x)(clip_by_value(t, clip_value_min, clip_value_max) for t in x)
    return pointwise.clamp(x, clip_value_min, clip_value_max)


def clip_by_norm(x, max_norm, norm_type=2.0, error_if_nonfinite=False):
    """Made smaller where the norm of all together is above max_norm."""
    listed = list(x) if isinstance(x, (list, tuple)) else [x]
    size = R.vector_norm(P.Stack()([R.vector_norm(t, norm_type) for t in listed]), norm_type)
    factor = clip(float(max_norm) / (size + 1e-6), None, 1.0)
    out = [t * factor for t in listed]
    return type(x)(out) if isinstance(x, (list, tuple)) else out[0]


def clip_by_global_norm(x, clip_norm=1.0, use_norm=None):
    """Each times clip_norm / max(norm of all, clip_norm)."""
    if use_norm is not None:
        raise ValueError("clip_by_global_norm with use_norm is not in this front end")
    size = P.Sqrt()(addn([P.ReduceSum()(P.Square()(t)) for t in x]))
    factor = clip_norm / P.Maximum()(size, float(clip_norm))
    return tuple(t * factor for t in x)


functions = {"addn": addn, "accumulate_n": addn, "clip_by_value": clip_by_value, "clip_by_norm": clip_by_norm,
             "clip_by_global_norm": clip_by_global_norm, "iou": iou}

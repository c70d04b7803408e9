"""Patterns of several ATen nodes that one operator computes: root mean square norms, rotary positions, gated activations,
keys that several heads share, and losses of what was flattened for them."""

from __future__ import annotations

import math
from typing import Any, Callable, Iterator, Sequence

import numpy as np

from .._core import Tensor
from .program import Node, Ref
from .walk import At, Value, Walk

Found = tuple[Callable[..., Value], dict[str, Any]]
"""What computes it, and of what."""

_transparent = {"aten._to_copy.default", "aten.clone.default", "aten.alias.default", "aten.contiguous.default"}
_reshapes = {"aten.view.default", "aten._unsafe_view.default", "aten.reshape.default"}
_products = {"aten.mul.Tensor", "aten.mul.Scalar"}
_sums = {"aten.add.Tensor", "aten.add.Scalar"}


def found_in(walk: Walk) -> dict[str, Found]:
    """By the name of the node whose value it is."""
    out: dict[str, Found] = {}
    for node in walk.program.nodes:
        if node.name in walk.values:
            continue
        for match in _by_op.get(node.op, ()):
            found = match(_Seen(walk), node)
            if found is not None:
                out[node.name] = found
                break
    return out


class _Seen:
    """How patterns look at a program."""

    def __init__(self, walk: Walk):
        self._walk = walk

    def node(self, ref: Any, ops: set[str] | str | None = None) -> Node | None:
        """What computes it, through casts and copies; None if it is constant, given, or another operator."""
        node = self._walk.program.by_name.get(ref) if isinstance(ref, Ref) and ref not in self._walk.values else None
        while node is not None and (node.op in _transparent or _takes_all(node)):
            inner = node.args["self"]
            if inner in self._walk.values and inner not in self._walk.program.by_name:
                break
            node = self._walk.program.by_name.get(inner)
        if node is None or ops is None:
            return node
        return node if node.op == ops or (isinstance(ops, set) and node.op in ops) else None

    def source(self, ref: Any) -> Any:
        """The value itself behind casts and copies."""
        node = self._walk.program.by_name.get(ref) if isinstance(ref, Ref) else None
        while node is not None and (node.op in _transparent or _takes_all(node)):
            ref = node.args["self"]
            node = self._walk.program.by_name.get(ref)
        return ref

    def constant(self, ref: Any) -> np.ndarray | None:
        value = self._walk.values.get(ref) if isinstance(ref, Ref) else None
        return value if isinstance(value, np.ndarray) else None

    def number(self, value: Any) -> float | None:
        if isinstance(value, (int, float)):
            return float(value)
        constant = self.constant(value)
        return float(constant.reshape(-1)[0]) if constant is not None and constant.size == 1 else None

    def size(self, value: Any) -> Any:
        """Of a shape's entry: a number if it is known."""
        return self._walk.values.get(value, value) if isinstance(value, Ref) else value

    def shape(self, ref: Any) -> list | None:
        node = self._walk.program.by_name.get(ref)
        if node is not None:
            return node.shape
        return next((e["shape"] for e in self._walk.program.inputs if e["node"] == ref), None)

    def is_read_once(self, ref: Any) -> bool:
        return self._walk.program.readers.get(ref, 0) == 1

    def dtype(self, ref: Any) -> str | None:
        node = self._walk.program.by_name.get(ref)
        return node.dtype if node is not None else None


def _takes_all(node: Node) -> bool:
    return node.op == "aten.slice.Tensor" and node.args.get("start") in (0, None) and node.args.get("step", 1) == 1 \
        and node.args.get("end") in (None, 2 ** 63 - 1)


def _sides(node: Node) -> Iterator[tuple[Any, Any]]:
    a, b = node.args.get("self"), node.args.get("other")
    yield a, b
    yield b, a


# ---- norms ----

def _normalised(seen: _Seen, ref: Any) -> tuple[Any, float] | None:
    """x and epsilon of x rsqrt(mean(x^2) + epsilon) over the last dim."""
    product = seen.node(ref, _products)
    if product is None:
        return None
    for x, scale in _sides(product):
        root = seen.node(scale, "aten.rsqrt.default")
        total = seen.node(root.args["self"], _sums) if root else None
        epsilon = seen.number(total.args.get("other")) if total else None
        mean = seen.node(total.args["self"], "aten.mean.dim") if total and epsilon is not None else None
        if mean is None or mean.args.get("dim") != [-1] or not mean.args.get("keepdim"):
            continue
        squares = seen.node(mean.args["self"], {"aten.pow.Tensor_Scalar", *_products, "aten.square.default"})
        if squares is None or squares.op == "aten.mul.Scalar":
            continue
        is_square = squares.args.get("exponent") == 2 if "pow" in squares.op else \
            "square" in squares.op or squares.args["self"] == squares.args["other"]
        if is_square and seen.source(squares.args["self"]) == seen.source(x):
            return seen.source(x), float(epsilon)  # type: ignore[arg-type]
    return None


def _rms_norm(seen: _Seen, node: Node) -> Found | None:
    for gamma, normed in _sides(node):
        found = _normalised(seen, normed)
        shape = seen.shape(gamma)
        if found and shape is not None and len(shape) == 1 and node.shape and shape[0] == node.shape[-1]:
            return _as_rms_norm, {"x": found[0], "gamma": gamma, "epsilon": found[1]}
    return None


def _as_rms_norm(at: At, x: Tensor, gamma: Value, epsilon: float) -> Tensor:
    return at.call("rms_norm", x, at.tensor(gamma, like=x), epsilon=epsilon)


# ---- gated activations ----

def _swiglu(seen: _Seen, node: Node) -> Found | None:
    for gated, up in _sides(node):
        gate = seen.node(gated, "aten.silu.default")
        if gate is not None and isinstance(up, Ref) and seen.constant(up) is None and seen.is_read_once(gate.name) \
                and seen.shape(up) == node.shape == gate.shape:
            return _as_swiglu, {"gate": gate.args["self"], "up": up}
    return None


def _as_swiglu(at: At, gate: Tensor, up: Tensor) -> Tensor:
    return at.call("swiglu", gate, up)


# ---- rotary positions ----

def _rotary(seen: _Seen, node: Node) -> Found | None:
    """x cos + turned(x) sin, with turned(x) = (-x[d/2:], x[:d/2]), and tables of the angles s base^(-2 i / d)."""
    for straight, across in _sides(node):
        first, second = seen.node(straight, "aten.mul.Tensor"), seen.node(across, "aten.mul.Tensor")
        if first is None or second is None:
            continue
        for x, cosine in _sides(first):
            for turned, sine in _sides(second):
                cosines, sines = seen.constant(cosine), seen.constant(sine)
                if cosines is None or sines is None or not _is_turned(seen, turned, seen.source(x)):
                    continue
                base = _base_of(cosines, sines, node)
                if base is not None:
                    return _as_rotary, {"x": seen.source(x), "base": base}
    return None


def _is_turned(seen: _Seen, ref: Any, x: Any) -> bool:
    joined = seen.node(ref, "aten.cat.default")
    if joined is None or joined.args.get("dim") not in (-1, len(joined.shape or []) - 1):
        return False
    if len(joined.args["tensors"]) != 2 or not joined.shape or not isinstance(joined.shape[-1], int):
        return False
    half, last = joined.shape[-1] // 2, len(joined.shape) - 1
    negative, lower = joined.args["tensors"]
    flipped = seen.node(negative, "aten.neg.default")
    parts = (seen.node(flipped.args["self"]) if flipped else None, seen.node(lower))
    return all(part is not None and _is_half(seen, part, x, last, begin, half) for part, begin in zip(parts, (half, 0)))


def _is_half(seen: _Seen, part: Node, x: Any, last: int, begin: int, half: int) -> bool:
    if part.op == "aten.slice.Tensor":
        end = part.args.get("end", 2 ** 63 - 1)
        return seen.source(part.args["self"]) == x and part.args.get("dim") in (last, -1) \
            and part.args.get("start", 0) == begin and min(end, 2 * half) == begin + half
    if part.op == "operator.getitem":  # of a chunk in two
        whole = seen.node(part.args["0"], "aten.split.Tensor")
        return whole is not None and seen.source(whole.args["self"]) == x and whole.args.get("dim") in (last, -1) \
            and whole.args.get("split_size") == half and part.args["1"] == begin // half
    return False


def _base_of(cosines: np.ndarray, sines: np.ndarray, node: Node) -> float | None:
    """What the tables say: None if they are others, or positions do not count from 0."""
    rank, size = len(node.shape or []), cosines.shape[-1]
    if cosines.shape != sines.shape or cosines.ndim < 2 or cosines.shape[-2] < 2 or size % 2 or rank < 3:
        return None
    planes = [t.reshape(-1, t.shape[-2], size).astype(np.float64) for t in (cosines, sines)]
    if not all(np.array_equal(p, np.broadcast_to(p[:1], p.shape)) for p in planes):
        return None
    c, s = planes[0][0], planes[1][0]
    half = size // 2
    if not (np.array_equal(c[:, :half], c[:, half:]) and np.array_equal(s[:, :half], s[:, half:])):
        return None
    is_double = "64" in str(cosines.dtype)
    count = np.arange(len(c), dtype=np.float64)[:, None]
    allowed = (1e-12 if is_double else 2e-7) * (1 + count)
    if half == 1:
        return 10000.0 if np.all(np.abs(c[:, :1] - np.cos(count)) <= allowed) else None
    rate = math.atan2(s[1, 1], c[1, 1])
    if not 0 < rate <= 1:
        return None
    exact = rate ** (-size / 2)
    for base in (float(f"{exact:.5g}"), exact):
        angles = count * base ** (-2 * np.arange(half) / size)
        if np.all(np.abs(c[:, :half] - np.cos(angles)) <= allowed) and np.all(np.abs(s[:, :half] - np.sin(angles)) <= allowed):
            # Tables of fewer digits than what they turn give other numbers than exact ones.
            return base if is_double or node.dtype != "float64" else None
    return None


def _as_rotary(at: At, x: Tensor, base: float) -> Tensor:
    return at.call("rotary", x, base=base)


# ---- attention ----

def _repeated(seen: _Seen, ref: Any) -> Any | None:
    """x [b, h, s, d] of what is [b, h r, s, d], each head r times side by side."""
    repeated = seen.node(ref, "aten.repeat_interleave.self_int")
    if repeated is not None and len(repeated.shape or []) == 4 and repeated.args.get("dim") in (1, -3):
        return seen.source(repeated.args["self"])
    joined = seen.node(ref, _reshapes)
    wide = seen.node(joined.args["self"], "aten.expand.default") if joined else None
    thin = seen.node(wide.args["self"], "aten.unsqueeze.default") if wide else None
    if joined is None or wide is None or thin is None or len(thin.shape or []) != 5 or thin.args["dim"] not in (2, -3):
        return None
    if not joined.shape or len(joined.shape) != 4 or not wide.shape or not thin.shape:
        return None
    kept = [d for d in range(5) if d != 2]
    if [wide.shape[d] for d in kept] != [thin.shape[d] for d in kept] or joined.shape[1] != wide.shape[1] * wide.shape[2] \
            or joined.shape[2:] != wide.shape[3:]:
        return None
    return seen.source(thin.args["self"])


def _grouped(seen: _Seen, node: Node) -> Found | None:
    key, value = (_repeated(seen, node.args[name]) for name in ("key", "value"))
    if key is None or value is None:
        return None
    from .conversions.layers import attention
    return attention, {**node.args, "key": key, "value": value}


# ---- losses ----

def _unflattened(seen: _Seen, node: Node) -> Found | None:
    """Of logits [.., classes] and labels [..] that were made [n, classes] and [n] for the loss alone."""
    logits, labels = seen.node(node.args["self"], _reshapes), seen.node(node.args["target"], _reshapes)
    if logits is None or labels is None or len(logits.shape or []) != 2 or len(labels.shape or []) != 1:
        return None
    before, of_labels = seen.source(logits.args["self"]), seen.source(labels.args["self"])
    shape, labels_shape = seen.shape(before), seen.shape(of_labels)
    if not shape or not labels_shape or shape[:-1] != labels_shape or shape[-1] != (logits.shape or [None])[-1]:
        return None
    if node.args.get("reduction", 1) == 0:
        return None
    from .conversions.losses import cross_entropy_of_last, cross_entropy_of_next
    given = _next_of(seen, of_labels, node.args.get("ignore_index", -100))
    if given is not None and node.args.keys() <= {"self", "target", "weight", "reduction", "ignore_index"} \
            and node.args.get("weight") is None and node.args.get("reduction", 1) == 1:
        return cross_entropy_of_next, {"self": before, "labels": given, "ignore_index": node.args.get("ignore_index", -100)}
    return cross_entropy_of_last, {**node.args, "self": before, "target": of_labels}


def _next_of(seen: _Seen, ref: Any, ignored: float) -> Any | None:
    """Labels [batch, places] of which each place has the next one's, and the last one none."""
    moved = seen.node(ref, "aten.slice.Tensor")
    padded = seen.node(moved.args["self"], {"aten.pad.default", "aten.constant_pad_nd.default"}) if moved else None
    if moved is None or padded is None or len(padded.shape or []) != 2 or moved.args.get("dim") not in (1, -1):
        return None
    is_next = moved.args.get("start") == 1 and moved.args.get("end", 2 ** 63 - 1) == 2 ** 63 - 1 and moved.args.get("step", 1) == 1
    is_none = padded.args.get("pad") == [0, 1] and padded.args.get("mode", "constant") == "constant" \
        and padded.args.get("value") == ignored
    return seen.source(padded.args["self"]) if is_next and is_none else None


_by_op: dict[str, Sequence[Callable[[_Seen, Node], Found | None]]] = {
    "aten.mul.Tensor": (_rms_norm, _swiglu),
    "aten.add.Tensor": (_rotary,),
    "aten.scaled_dot_product_attention.default": (_grouped,),
    "aten.cross_entropy_loss.default": (_unflattened,),
}

__all__ = ["found_in"]

"""Functions of matrices and vectors: products, distances, determinants."""

from __future__ import annotations

import math
import string

import numpy

from .. import _calls
from ..common.tensor import Tensor
from . import operations as P
from .arrangements import at_places, swapaxes
from .pointwise import log, where
from .primitive import as_tensor, by_core
from .reductions import root_of_sum, vector_norm


def matmul(input, other) -> Tensor:
    """Over the last two dims; vectors are a row on the left and a column on the right, without that dim in the result."""
    x, y = as_tensor(input), as_tensor(other)
    if not x.shape or not y.shape:
        raise ValueError(f"matmul takes no scalars, but shapes {x.shape} and {y.shape}")
    a = P.ExpandDims()(x, 0) if len(x.shape) == 1 else x
    b = P.ExpandDims()(y, 1) if len(y.shape) == 1 else y
    lead = numpy.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if len(b.shape) > 2 and (tuple(a.shape[:-2]) != lead or tuple(b.shape[:-2]) != lead):
        a, b = (P.BroadcastTo((*lead, *t.shape[-2:]))(t) for t in (a, b))
    product = P.MatMul()(a, b)
    dropped = [d for d, t in ((-2, x), (-1, y)) if len(t.shape) == 1]
    return P.Squeeze(tuple(dropped))(product) if dropped else product


def outer(input, vec2):
    return P.ExpandDims()(input, 1) * vec2


def inner(input, other):
    """Sums over the last dims."""
    if not input.shape or not other.shape:
        return input * other
    return tensor_dot(input, other, ((-1,), (-1,)))


def dot(input, other):
    """The last dim of the one with the last but one of the other."""
    return tensor_dot(input, other, ((-1,), (max(len(other.shape) - 2, 0),)))


def tensor_dot(x1, x2, axes):
    """Sums over so many last dims of the one and first of the other, or over these dims of each."""
    if isinstance(axes, int):
        axes = (range(len(x1.shape) - axes, len(x1.shape)), range(axes))
    first, second = ([a % len(x.shape) for a in ((said,) if isinstance(said, int) else said)] for said, x in zip(axes, (x1, x2)))
    free1, free2 = ([d for d in range(len(x.shape)) if d not in dims] for dims, x in ((first, x1), (second, x2)))
    count = math.prod(x1.shape[d] for d in first)
    a = P.Reshape()(P.Transpose()(x1, free1 + first), (-1, count))
    b = P.Reshape()(P.Transpose()(x2, second + free2), (count, -1))
    return P.Reshape()(P.MatMul()(a, b), [x1.shape[d] for d in free1] + [x2.shape[d] for d in free2])


def _added(product):
    """beta input + alpha product of the rest."""
    def function(input, x, y, *, beta=1, alpha=1):
        value = product(x, y)
        return (input if beta == 1 else input * beta) + (value if alpha == 1 else value * alpha)

    return function


def kron(input, other):
    """Each element of the one times the other, in its place."""
    rank = max(len(input.shape), len(other.shape))
    a, b = (P.Reshape()(t, (1,) * (rank - len(t.shape)) + tuple(t.shape)) for t in (input, other))
    wide = [s for n in a.shape for s in (n, 1)], [s for n in b.shape for s in (1, n)]
    return P.Reshape()(P.Reshape()(a, wide[0]) * P.Reshape()(b, wide[1]), [n * m for n, m in zip(a.shape, b.shape)])


def einsum(equation, *operands):
    """Sums of products by letters of dims: `bij,bjk->bik`, operand by operand."""
    tensors = list(operands[0]) if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else list(operands)
    equation = equation.replace(" ", "")
    inputs, _, result = equation.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(tensors):
        raise ValueError(f"einsum '{equation}' has {len(terms)} terms for {len(tensors)} operands")
    terms, result = _without_dots(terms, result if "->" in equation else None, tensors)
    for term in (*terms, result):
        if len(set(term)) != len(term):
            raise ValueError(f"einsum '{equation}': a letter twice in one term is not in this front end")
    term, x = terms[0], as_tensor(tensors[0])
    for i in range(1, len(terms)):
        rest = set(result).union(*terms[i + 1:])
        x, term = _joined(x, term, as_tensor(tensors[i]), terms[i], rest)
    lost = [d for d, c in enumerate(term) if c not in result]
    if lost:
        x, term = P.ReduceSum()(x, tuple(lost)), "".join(c for c in term if c in result)
    return P.Transpose()(x, [term.index(c) for c in result]) if term != result else x


def _without_dots(terms, result, tensors) -> tuple[list[str], str]:
    """`...` as letters that are free; and the result, if it is not said: letters that are there once, in their order."""
    free = [c for c in string.ascii_letters if c not in "".join(terms)]
    most = max((len(t.shape) - len(term.replace("...", "")) for t, term in zip(tensors, terms) if "..." in term), default=0)
    dots = "".join(free[:most])
    terms = [term.replace("...", dots[most - (len(t.shape) - len(term.replace("...", ""))):]) for t, term in zip(tensors, terms)]
    if result is None:
        joined = "".join(terms)
        return terms, dots + "".join(sorted(c for c in set(joined) if joined.count(c) == 1 and c not in dots))
    return terms, result.replace("...", dots)


def _joined(x: Tensor, a: str, y: Tensor, b: str, kept: set) -> tuple[Tensor, str]:
    """Two operands as one product of matrices over what neither the rest nor the result has."""
    lead = [c for c in a if c in b and c in kept]
    summed = [c for c in a if c in b and c not in kept]
    rows, columns = [c for c in a if c not in b], [c for c in b if c not in a]
    sizes = {**dict(zip(b, y.shape)), **dict(zip(a, x.shape))}

    def arranged(t, term, first, second):
        order = [term.index(c) for c in (*lead, *first, *second)]
        shape = [sizes[c] for c in lead] + [math.prod(sizes[c] for c in first), math.prod(sizes[c] for c in second)]
        return P.Reshape()(P.Transpose()(t, order), shape)

    product = P.MatMul()(arranged(x, a, rows, summed), arranged(y, b, summed, columns))
    term = [*lead, *rows, *columns]
    return P.Reshape()(product, [sizes[c] for c in term]), "".join(term)


def dense(input, weight, bias=None):
    """x w^T + b"""
    rows = input if len(input.shape) == 2 else P.Reshape()(input, (-1, input.shape[-1]))
    y = P.MatMul(transpose_b=True)(rows, weight)
    y = y if bias is None else y + bias
    return y if len(input.shape) == 2 else P.Reshape()(y, (*input.shape[:-1], weight.shape[0]))


def bidense(input1, input2, weight, bias=None):
    """y[.., o] = sum of x1[.., i] w[o, i, j] x2[.., j], and the bias."""
    y = einsum("bi,oij,bj->bo", *(P.Reshape()(t, (-1, t.shape[-1])) if len(t.shape) != 3 or t is not weight else t
                                  for t in (input1, weight, input2)))
    y = y if bias is None else y + bias
    return P.Reshape()(y, (*input1.shape[:-1], weight.shape[0]))


def cross(input, other, dim=None):
    """The vector product along a dim of 3."""
    if dim is None:
        dim = next(d for d, n in enumerate(input.shape) if n == 3)
    a, b, c, d = (at_places(t, p, dim) for t, p in ((input, (1, 2, 0)), (other, (2, 0, 1)), (input, (2, 0, 1)), (other, (1, 2, 0))))
    return a * b - c * d


def cdist(x1, x2, p=2.0):
    """Distances of all rows of the one from all of the other."""
    return vector_norm(P.ExpandDims()(x1, -2) - P.ExpandDims()(x2, len(x2.shape) - 2), float(p), -1)


def pdist(input, p=2.0):
    """Distances of rows, each pair once."""
    n = input.shape[-2]
    pairs = numpy.triu_indices(n, 1)
    return vector_norm(at_places(input, pairs[0], -2) - at_places(input, pairs[1], -2), float(p), -1)


def cosine_similarity(x1, x2, dim=1, eps=1e-08):
    dots, a, b = (P.ReduceSum()(t, dim) for t in (x1 * x2, x1 * x1, x2 * x2))
    return dots / (P.Maximum()(root_of_sum(a), float(eps)) * P.Maximum()(root_of_sum(b), float(eps)))


_largest_matrix = 16


def _eliminated(x: Tensor, beside: Tensor | None, what: str):
    """Gauss and Jordan with the largest of a column as pivot, in f64: the pivots, and what `beside` becomes."""
    n = x.shape[-1]
    if x.shape[-2] != n:
        raise ValueError(f"{what} takes square matrices, not of shape {x.shape}")
    if n > _largest_matrix:
        raise ValueError(f"{what} of matrices of {n} rows is not in this front end: at most {_largest_matrix}")
    a = Tensor.of(_calls.cast(x.array, "float64"))
    width = n if beside is None else n + beside.shape[-1]
    m = a if beside is None else P.Concat(-1)([a, Tensor.of(_calls.cast(beside.array, "float64"))])
    pivots = []
    rows = Tensor(numpy.arange(n, dtype=numpy.float64).reshape(n, 1))
    for k in range(n):
        column = by_core("strided_slice", m, dims=[len(m.shape) - 1], starts=[k], stops=[k + 1], steps=[1])
        size = where(rows < float(k), -1.0, P.Abs()(column))
        place = by_core("argmax", size, dim=-2, keep=True)
        is_pivot = P.Cast()(rows == P.Cast()(place, "float64"), "float64")
        pivot_row = P.ReduceSum(True)(m * is_pivot, -2)
        is_k = P.Cast()(rows == float(k), "float64")
        row_k = P.ReduceSum(True)(m * is_k, -2)
        swapped = m + is_k * (pivot_row - row_k) + is_pivot * (row_k - pivot_row)
        pivot = by_core("strided_slice", pivot_row, dims=[len(m.shape) - 1], starts=[k], stops=[k + 1], steps=[1])
        is_moved = P.Cast()(place == k, "float64")
        pivots.append(pivot * (is_moved * 2 - 1))
        column = by_core("strided_slice", swapped, dims=[len(m.shape) - 1], starts=[k], stops=[k + 1], steps=[1])
        others = 1 - is_k if beside is not None else P.Cast()(rows > float(k), "float64")
        m = swapped - others * (column / pivot) * pivot_row
        if beside is not None:
            m = m * (1 - is_k) + is_k * (pivot_row / pivot)
    return pivots, by_core("strided_slice", m, dims=[len(m.shape) - 1], starts=[n], stops=[width], steps=[1]) if beside is not None else None


def inverse(input):
    """Of square matrices."""
    x = as_tensor(input)
    unit = P.BroadcastTo(tuple(x.shape))(Tensor(numpy.eye(x.shape[-1], dtype=numpy.float32)))
    return P.Cast()(_eliminated(x, unit, "inverse")[1], x.dtype)


def det(input):
    """The determinant of square matrices."""
    pivots, _ = _eliminated(input, None, "det")
    total = pivots[0]
    for p in pivots[1:]:
        total = total * p
    return P.Cast()(P.Reshape()(total, input.shape[:-2]), input.dtype)


def slogdet(input):
    value = det(input)
    return P.Sign()(value), log(P.Abs()(value))


def logdet(input):
    return log(det(input))


functions = {
    "matmul": matmul, "bmm": matmul, "batch_matmul": matmul, "mm": matmul, "outer": outer, "ger": outer, "inner": inner, "dot": dot,
    "tensor_dot": tensor_dot, "mv": matmul, "vecdot": lambda x, y, *, axis=-1: P.ReduceSum()(x * y, axis),
    "addmm": _added(matmul), "addmv": _added(matmul), "addr": _added(outer),
    "baddbmm": lambda input, batch1, batch2, beta=1, alpha=1: _added(matmul)(input, batch1, batch2, beta=beta, alpha=alpha),
    "addbmm": _added(lambda x, y: P.ReduceSum()(matmul(x, y), 0)), "kron": kron, "einsum": einsum, "dense": dense,
    "linear": dense, "bidense": bidense, "cross": cross, "cdist": cdist, "pdist": pdist, "cosine_similarity": cosine_similarity,
    "dist": lambda input, other, p=2: vector_norm(input - other, p), "inverse": inverse, "det": det, "matrix_determinant": det,
    "slogdet": slogdet, "logdet": logdet, "bias_add": lambda input_x, bias: P.BiasAdd()(input_x, bias),
    "adjoint": lambda x: swapaxes(x, -1, -2)}

"""Numbers that are drawn: outside of programs, by the seed. In programs only masks are drawn, by dropout and bernoulli."""

from __future__ import annotations

import numpy
from shardwright import _core

from .._trace import current
from ..common import dtype as mstype
from ..common.tensor import Tensor
from . import operations as P
from .arrangements import numbers
from .pointwise import floating
from .primitive import as_tensor
from .shapes import filled

_generators: dict[int, numpy.random.Generator] = {}


def _generator(who: str, seed=None) -> numpy.random.Generator:
    if current():
        raise RuntimeError(f"ops.{who} in a program would draw the same numbers in each step: draw outside and give it the tensor; "
                           "ops.dropout and ops.bernoulli draw in programs")
    if seed:
        return numpy.random.default_rng(seed)
    return _generators.setdefault(_core.seed(), numpy.random.default_rng(_core.seed()))


def _drawn(who: str, shape, seed, draw, dtype=None) -> Tensor:
    values = numpy.asarray(draw(_generator(who, seed), tuple(numbers(shape))))
    return Tensor(values.astype(numpy.float32) if values.dtype.kind == "f" else values, dtype)


def _value(x):
    return x.asnumpy() if isinstance(x, Tensor) else x


def standard_normal(shape, seed=None):
    return _drawn("standard_normal", shape, seed, lambda g, s: g.standard_normal(s))


def normal(shape, mean, stddev, seed=None):
    return _drawn("normal", shape, seed, lambda g, s: g.standard_normal(s) * _value(stddev) + _value(mean))


def uniform(shape, minval, maxval, seed=None, dtype=mstype.float32):
    if "int" in mstype.type_of(dtype).name:
        return _drawn("uniform", shape, seed, lambda g, s: g.integers(_value(minval), _value(maxval), s), dtype)
    return _drawn("uniform", shape, seed, lambda g, s: g.random(s) * (_value(maxval) - _value(minval)) + _value(minval), dtype)


def rand(*size, dtype=None, seed=None):
    return _drawn("rand", size[0] if len(size) == 1 else size, seed, lambda g, s: g.random(s), dtype)


def randn(*size, dtype=None, seed=None):
    return _drawn("randn", size[0] if len(size) == 1 else size, seed, lambda g, s: g.standard_normal(s), dtype)


def randint(low, high, size, seed=None, *, dtype=mstype.int64):
    return _drawn("randint", size, seed, lambda g, s: g.integers(low, high, s), dtype)


def randperm(n, seed=0, offset=0, dtype=mstype.int64):
    return _drawn("randperm", (), seed, lambda g, s: g.permutation(n), dtype)


def multinomial(input, num_samples, replacement=True, seed=None):
    """Numbers of elements, drawn by their shares of the row."""
    shares = _value(input).astype(numpy.float64)
    rows = shares.reshape(-1, shares.shape[-1])
    generator = _generator("multinomial", seed)
    found = [generator.choice(len(r), num_samples, replacement, r / r.sum()) for r in rows]
    return Tensor(numpy.array(found).reshape(*shares.shape[:-1], num_samples).astype(numpy.int32))


def bernoulli(input, p=0.5, seed=None):
    """1 with probability p, else 0: what a dropout of ones keeps; with another p for each element only outside of programs."""
    x = as_tensor(input)
    if isinstance(p, Tensor):
        return _drawn("bernoulli", x.shape, seed, lambda g, s: (g.random(s) < _value(p)).astype(numpy.float32), x.dtype)
    _, kept = P.Dropout(p, seed or 0)(filled("float32", x.shape, 1))
    return P.Cast()(kept, x.dtype)


def gumbel_softmax(logits, tau=1.0, hard=False, dim=-1):
    """softmax of (logits + Gumbel noise) / tau; hard: 1 at the largest, with the gradient of that."""
    noise = _drawn("gumbel_softmax", logits.shape, None, lambda g, s: g.gumbel(size=s))
    soft = P.Softmax(dim)((logits + noise) * (1 / tau))
    if not hard:
        return soft
    top = P.Cast()(soft == P.ReduceMax(True)(soft, dim), soft.dtype)
    from .functional import stop_gradient
    return soft + stop_gradient(top - soft)


functions = {"standard_normal": standard_normal, "normal": normal, "uniform": uniform, "rand": rand, "randn": randn, "randint": randint,
             "randperm": randperm, "multinomial": multinomial, "bernoulli": bernoulli, "gumbel_softmax": gumbel_softmax,
             "rand_like": lambda input, seed=None, *, dtype=None: rand(*input.shape, dtype=dtype, seed=seed),
             "randn_like": lambda input, seed=None, *, dtype=None: randn(*input.shape, dtype=dtype, seed=seed),
             "random_uniform": uniform}
makes = {"StandardNormal": lambda seed=0, seed2=0: lambda shape: standard_normal(shape, seed or seed2),
         "UniformReal": lambda seed=0, seed2=0: lambda shape: _drawn("UniformReal", shape, seed or seed2, lambda g, s: g.random(s)),
         "UniformInt": lambda seed=0, seed2=0: lambda shape, minval, maxval: uniform(shape, minval, maxval, seed or seed2, mstype.int32),
         "Multinomial": lambda seed=0, seed2=0, dtype=mstype.int32: lambda x, count: multinomial(floating(x), count, True, seed or seed2)}

"""How parameters start: a function of seed, name and place, so that it does not depend on how they are split."""

from __future__ import annotations

import math
import zlib

import numpy
from shardwright import _core

from .._missing import missing, near
from . import dtype as mstype
from .tensor import Tensor


def fans(shape) -> tuple[int, int]:
    """Inputs and outputs of one element, for a weight [outputs, inputs, ...]."""
    if len(shape) < 2:
        size = shape[0] if shape else 1
        return size, size
    rest = math.prod(shape[2:])
    return shape[1] * rest, shape[0] * rest


class Initializer:
    """Gives the elements of a tensor."""

    def core(self, shape) -> tuple[str, float, float] | None:
        """Name, scale and shift of the core's way to do the same, if it has one."""
        return None

    def draw(self, generator: numpy.random.Generator, shape) -> numpy.ndarray:
        raise NotImplementedError

    def values(self, shape, dtype: mstype.Type, name: str) -> numpy.ndarray:
        """Elements by the seed and the name; of a tensor without one, other elements each time."""
        core = self.core(shape)
        if core and name:
            return _core.Parameter.initialized(list(shape), *core, "float32", name).numpy()
        generator = numpy.random.default_rng([_core.seed(), zlib.crc32(name.encode())]) if name else _unnamed()
        return numpy.asarray(self.draw(generator, tuple(shape))).astype(mstype.dtype_to_nptype(dtype))


def _unnamed() -> numpy.random.Generator:
    return numpy.random.default_rng(numpy.random.randint(0, 2**31, 4))


class Constant(Initializer):
    def __init__(self, value):
        self.value = value

    def core(self, shape):
        return {0: ("zeros", 1.0, 0.0), 1: ("ones", 1.0, 0.0)}.get(self.value)

    def draw(self, generator, shape):
        return numpy.full(shape, self.value)


class Zero(Constant):
    def __init__(self):
        super().__init__(0)


class One(Constant):
    def __init__(self):
        super().__init__(1)


class Identity(Initializer):
    def draw(self, generator, shape):
        if len(shape) != 2:
            raise ValueError(f"Identity starts tensors of 2 dims, not of shape {shape}")
        return numpy.eye(*shape)


class Dirac(Initializer):
    """Convolutions that leave channels as they are."""

    def __init__(self, groups: int = 1):
        self.groups = groups

    def draw(self, generator, shape):
        if len(shape) not in (3, 4, 5) or shape[0] % self.groups:
            raise ValueError(f"Dirac starts weights of convolutions of a multiple of {self.groups} channels, not of shape {shape}")
        values, each = numpy.zeros(shape), shape[0] // self.groups
        middle = tuple(n // 2 for n in shape[2:])
        for group in range(self.groups):
            for k in range(min(each, shape[1])):
                values[(group * each + k, k, *middle)] = 1
        return values


class Orthogonal(Initializer):
    """Rows (columns) at right angles, of length gain."""

    def __init__(self, gain: float = 1.0):
        self.gain = gain

    def draw(self, generator, shape):
        if len(shape) < 2:
            raise ValueError(f"Orthogonal starts tensors of 2 dims or more, not of shape {shape}")
        rows, columns = shape[0], math.prod(shape[1:])
        q, r = numpy.linalg.qr(generator.normal(size=(max(rows, columns), min(rows, columns))))
        q = q * numpy.sign(numpy.diag(r))
        return self.gain * (q.T if rows < columns else q).reshape(shape)


class Uniform(Initializer):
    """Between -scale and scale."""

    def __init__(self, scale: float = 0.07):
        self.scale = scale

    def core(self, shape):
        return "uniform", float(self.scale), 0.0

    def draw(self, generator, shape):
        return generator.uniform(-self.scale, self.scale, shape)


class Normal(Initializer):
    def __init__(self, sigma: float = 0.01, mean: float = 0.0):
        self.sigma, self.mean = sigma, mean

    def core(self, shape):
        return "normal", float(self.sigma), float(self.mean)

    def draw(self, generator, shape):
        return generator.normal(self.mean, self.sigma, shape)


class TruncatedNormal(Initializer):
    """Normal, drawn again where it is not between `a` and `b` deviations."""

    def __init__(self, sigma: float = 0.01, mean: float = 0.0, a: float = -2.0, b: float = 2.0):
        self.sigma, self.mean, self.a, self.b = sigma, mean, a, b

    def draw(self, generator, shape):
        values = generator.normal(size=shape)
        while (outside := (values < self.a) | (values > self.b)).any():
            values[outside] = generator.normal(size=int(outside.sum()))
        return self.mean + self.sigma * values


class _Scaled(Initializer):
    """Uniform or normal with a scale that depends on the shape."""

    def scale(self, shape) -> float:
        raise NotImplementedError

    def core(self, shape):
        return ("normal" if "Normal" in type(self).__name__ else "uniform"), self.scale(shape), 0.0

    def draw(self, generator, shape):
        kind, scale, _ = self.core(shape)
        return generator.normal(0, scale, shape) if kind == "normal" else generator.uniform(-scale, scale, shape)


class XavierUniform(_Scaled):
    def __init__(self, gain: float = 1):
        self.gain = gain

    def scale(self, shape):
        return self.gain * math.sqrt(6 / sum(fans(shape)))


class XavierNormal(XavierUniform):
    def scale(self, shape):
        return self.gain * math.sqrt(2 / sum(fans(shape)))


class HeUniform(_Scaled):
    def __init__(self, negative_slope: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu"):
        self.negative_slope, self.mode, self.nonlinearity = negative_slope, mode, nonlinearity

    def variance(self, shape) -> float:
        fan = fans(shape)[0 if self.mode == "fan_in" else 1]
        gains = {"leaky_relu": 2 / (1 + self.negative_slope**2), "relu": 2.0, "tanh": 25 / 9, "sigmoid": 1.0,
                 "linear": 1.0}
        return gains[self.nonlinearity] / fan

    def scale(self, shape):
        return math.sqrt(3 * self.variance(shape))


class HeNormal(HeUniform):
    def scale(self, shape):
        return math.sqrt(self.variance(shape))


_names = {"zero": Zero, "zeros": Zero, "one": One, "ones": One, "normal": Normal, "uniform": Uniform,
          "truncatednormal": TruncatedNormal, "xavieruniform": XavierUniform, "xavier_uniform": XavierUniform,
          "xaviernormal": XavierNormal, "xavier_normal": XavierNormal, "heuniform": HeUniform,
          "he_uniform": HeUniform, "henormal": HeNormal, "he_normal": HeNormal, "identity": Identity, "dirac": Dirac, "orthogonal": Orthogonal}


def initializer_called(init) -> Initializer:
    """By itself, a number or a name. Raises: ValueError of an unknown name, TypeError of anything else."""
    if isinstance(init, Initializer):
        return init
    if isinstance(init, (int, float)):
        return Constant(init)
    if not isinstance(init, str):
        raise TypeError(f"a tensor starts as a name, a number or an Initializer says, not as {init!r}")
    if init.lower() not in _names:
        raise ValueError(f"initializer '{init}' is unknown{near(init, _names)}; there are {', '.join(_names)}")
    return _names[init.lower()]()


def initializer(init, shape=None, dtype=mstype.float32) -> Tensor:
    """A tensor without elements yet; of a tensor, it."""
    if isinstance(init, Tensor):
        return init
    return Tensor(shape=() if shape is None else shape, dtype=dtype or mstype.float32, init=initializer_called(init))


__getattr__ = missing("mindspore.common.initializer", globals())

"""The numbers that Shardwright makes by itself, again in Python: initial values (runtime/initial.h) and synthetic data
(runtime/synthetic.h). Each is a function of seed, name and index (base/random.h), so that a reference that starts from
them need not hold them."""
import math
import numpy as np

M64 = (1 << 64) - 1


def splitmix64(x):
    with np.errstate(over='ignore'):
        x = np.asarray(x, np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


class Stream:
    def __init__(self, seed, name):
        h = 0xCBF29CE484222325
        for b in name.encode():
            h = ((h ^ b) * 0x100000001B3) & M64
        self.key = splitmix64(np.uint64(seed ^ h))

    def bits(self, index):
        with np.errstate(over='ignore'):
            return splitmix64(self.key + splitmix64(index))

    def uniform(self, index):
        return (self.bits(index) >> np.uint64(11)).astype(np.float64) * 2.0 ** -53

    def normal(self, index):
        index = np.asarray(index, np.uint64)
        u, v = 1 - self.uniform(np.uint64(2) * index), self.uniform(np.uint64(2) * index + np.uint64(1))
        return np.sqrt(-2 * np.log(u)) * np.cos(2 * math.pi * v)

    def noise(self, index):
        """Nearly normal: four 16-bit uniforms."""
        bits = self.bits(index)
        parts = sum(((bits >> np.uint64(s)) & np.uint64(0xFFFF)).astype(np.float64) for s in (0, 16, 32, 48))
        return (parts / 2.0 ** 16 - 2) * math.sqrt(3)


def normal(seed, name, shape, deviation):
    return deviation * Stream(seed, name).normal(np.arange(math.prod(shape))).reshape(shape)


def uniform(seed, name, shape, half_width):
    return half_width * (2 * Stream(seed, name).uniform(np.arange(math.prod(shape))) - 1).reshape(shape)


def images(seed, step, shape, classes):
    """Noisy prototypes of random classes: `input` of `shape`, whose first dim is the batch, and `label`."""
    batch, width = shape[0], math.prod(shape[1:])
    label = (Stream(seed, 'synthetic classes').bits(np.arange(batch) + step * batch) % np.uint64(classes)).astype(np.int64)
    index = np.arange(batch * width)
    prototype = Stream(seed, 'synthetic prototype input').noise(label.repeat(width) * width + index % width)
    noise = Stream(seed, 'synthetic input input').noise(index + step * batch * width)
    return (0.6 * prototype + noise).reshape(shape), label

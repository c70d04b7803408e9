"""Batches of random numbers, yet learnable, where no data are given: those of `shardwright train` with the same seed.

Every element is a function of seed, step and its place, so each rank makes the whole batch and takes its part.
"""

import math

import arrays
import program
from tensors import Stream, error, shifted_right


def noise(stream, index):
    """Nearly normal: the sum of four uniforms of 16 bits."""
    bits = stream.bits(index)
    total = sum(shifted_right(bits, n) & 0xFFFF if n else bits & 0xFFFF for n in (0, 16, 32, 48))
    return (arrays.as_type(total, arrays.TYPES["F64"]) / 2.0**16 - 2.0) * math.sqrt(3.0)


def is_integer(value):
    return value["dtype"].startswith("int") or value["dtype"] == "uint8"


class Synthetic:
    def __init__(self, task, seed):
        self.task, self.seed, self.step, self.batch = task, seed, None, {}
        self.label, self.inputs = task["label_type"], dict(sorted(task["inputs"].items()))

    def stream(self, name):
        return Stream(self.seed, name)

    def __call__(self, step, name):
        if step != self.step:
            self.step, self.batch = step, self.at(step)
        return self.batch[name]

    def at(self, step):
        rows, label, out = self.label["shape"][0], self.task["label"], {}
        classes = self.stream("synthetic classes").below(step * rows + arrays.arange(0, rows), self.task["classes"])
        for name, value in self.inputs.items():
            if self.is_sequence(value):
                out[name], continued = self.sequence(name, value["shape"], step)
                out.setdefault(label, continued)
            else:
                out[name] = self.of_classes(name, value, classes, step)
        if label and label not in out:
            if self.is_sequence(self.label):
                out[label] = self.sequence(label, self.label["shape"], step)[1]
            else:
                out[label] = classes.reshape(self.label["shape"]) if is_integer(self.label) else self.linear(out, step)
        return out

    def is_sequence(self, value):
        """Whether a column is a sequence which the label continues, or the label's own."""
        shape = self.label["shape"]
        is_long = is_integer(self.label) and math.prod(shape) > shape[0]
        return is_long and is_integer(value) and value["shape"] == shape

    def of_classes(self, name, value, classes, step):
        random, prototype = self.stream("synthetic input " + name), self.stream("synthetic prototype " + name)
        count = math.prod(value["shape"])
        width = count // value["shape"][0]
        index = arrays.arange(0, count)
        own = classes[index // width]
        if not is_integer(value):
            x = 0.6 * noise(prototype, own * width + index % width) + noise(random, step * count + index)
            return x.reshape(value["shape"])
        below = self.task["vocabulary"].get(name, self.task["classes"])
        anything = random.below(step * count + index, below)
        congruent = anything - anything % self.task["classes"] + own
        congruent = arrays.where(congruent < below, congruent, own % below)
        return arrays.where(index % width % 2 == 1, anything, congruent).reshape(value["shape"])

    def sequence(self, name, shape, step):
        """A sequence and what continues it."""
        rows, length = shape[0], math.prod(shape) // shape[0]
        random = self.stream("synthetic sequence " + name)
        below = min(self.task["classes"], self.task["vocabulary"].get(name, self.task["classes"]))
        b = random.below(arrays.integers([0]), below)
        index = 1 + 2 * step * rows * (length + 1) + 2 * arrays.arange(0, rows * (length + 1)).reshape(rows, -1)
        follows, anything = random.uniform(index) >= 0.1, random.below(index + 1, below)
        columns = [anything[:, 0]]
        for i in range(1, length + 1):
            columns.append(arrays.where(follows[:, i], (5 * columns[-1] + b) % below, anything[:, i]))
        elements = arrays.stack(columns, 1)
        return elements[:, :-1].reshape(shape), elements[:, 1:].reshape(shape)

    def linear(self, inputs, step):
        """A few elements of the inputs' row, weighted; an integer stands for a number that is always the same."""
        rows = self.label["shape"][0]
        features = []
        for name, value in self.inputs.items():
            x = inputs[name].reshape(rows, -1)
            x = arrays.as_type(x, arrays.dtype_called(value["dtype"]))
            if is_integer(value):
                x = noise(self.stream("synthetic value " + name), arrays.as_type(x, arrays.TYPES["I64"]))
            features.append(arrays.as_type(x, arrays.TYPES["F64"]))
        features = arrays.cat(features, 1)
        random, places = self.stream("synthetic label"), self.stream("synthetic map")
        count = math.prod(self.label["shape"])
        label = 0.1 * noise(random, step * count + arrays.arange(0, count)).reshape(rows, -1)
        for j in range(label.shape[1] * 8):
            at = int(places.below(arrays.integers([2 * j]), features.shape[1])[0])
            label[:, j // 8] += noise(places, arrays.integers([2 * j + 1])) / math.sqrt(8) * features[:, at]
        label = arrays.as_type(label > 0, arrays.TYPES["F64"]) if self.task["label_is_share"] else label
        return label.reshape(self.label["shape"])


def synthetic_batches(seed):
    if program.DATA["synthetic"] is None:
        error("this model has no synthetic data; give --data")
    return Synthetic(program.DATA["synthetic"], seed)

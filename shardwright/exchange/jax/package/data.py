"""Batches of random numbers, yet learnable, where no data are given: those of `shardwright train` with the same seed.

Every element is a function of seed, step and its place.
"""

import math

import numpy as np

import program
from tensors import Stream, error


def noise(stream, index):
    """Nearly normal: the sum of four uniforms of 16 bits."""
    bits = stream.bits(index)
    total = sum((bits >> np.uint64(n)) & np.uint64(0xFFFF) for n in (0, 16, 32, 48))
    return (total.astype(np.float64) / 2.0**16 - 2.0) * math.sqrt(3.0)


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
        rows = self.label["shape"][0]
        if is_integer(self.label) and math.prod(self.label["shape"]) > rows:
            return self.sequences(step)
        classes = self.stream("synthetic classes").below(step * rows + np.arange(rows), self.task["classes"])
        out = {name: self.of_classes(name, value, classes, step) for name, value in self.inputs.items()}
        if self.task["label"]:
            is_class = is_integer(self.label)
            out[self.task["label"]] = classes.reshape(self.label["shape"]) if is_class else self.linear(out, step)
        return out

    def of_classes(self, name, value, classes, step):
        random, prototype = self.stream("synthetic input " + name), self.stream("synthetic prototype " + name)
        count = math.prod(value["shape"])
        width = count // value["shape"][0]
        index = np.arange(count)
        own = classes[index // width]
        if not is_integer(value):
            x = 0.6 * noise(prototype, own * width + index % width) + noise(random, step * count + index)
            return x.reshape(value["shape"])
        below = self.task["vocabulary"].get(name, self.task["classes"])
        anything = random.below(step * count + index, below)
        congruent = anything - anything % self.task["classes"] + own
        congruent = np.where(congruent < below, congruent, own % below)
        return np.where(index % width % 2 == 1, anything, congruent).reshape(value["shape"])

    def sequences(self, step):
        rows = self.label["shape"][0]
        length, out = math.prod(self.label["shape"]) // rows, {}
        for name, value in self.inputs.items():
            random = self.stream("synthetic sequence " + name)
            below = min(self.task["classes"], self.task["vocabulary"].get(name, self.task["classes"]))
            b = random.below(0, below)
            index = 1 + 2 * step * rows * (length + 1) + 2 * np.arange(rows * (length + 1)).reshape(rows, -1)
            follows, anything = random.uniform(index) >= 0.1, random.below(index + 1, below)
            columns = [anything[:, 0]]
            for i in range(1, length + 1):
                columns.append(np.where(follows[:, i], (5 * columns[-1] + b) % below, anything[:, i]))
            elements = np.stack(columns, 1)
            out[name] = elements[:, :-1].reshape(value["shape"])
            if self.task["label"]:
                out.setdefault(self.task["label"], elements[:, 1:].reshape(self.label["shape"]))
        return out

    def linear(self, inputs, step):
        """A few elements of the inputs' row, weighted; an integer stands for a number that is always the same."""
        rows = self.label["shape"][0]
        features = []
        for name, value in self.inputs.items():
            x = inputs[name].reshape(rows, -1)
            if is_integer(value):
                features.append(noise(self.stream("synthetic value " + name), x))
            else:
                features.append(x.astype(np.dtype(value["dtype"])).astype(np.float64))
        features = np.concatenate(features, 1)
        random, places = self.stream("synthetic label"), self.stream("synthetic map")
        count = math.prod(self.label["shape"])
        label = 0.1 * noise(random, step * count + np.arange(count)).reshape(rows, -1)
        for j in range(label.shape[1] * 8):
            at = places.below(2 * j, features.shape[1])
            label[:, j // 8] += noise(places, 2 * j + 1) / math.sqrt(8) * features[:, at]
        label = (label > 0).astype(np.float64) if self.task["label_is_share"] else label
        return label.reshape(self.label["shape"])


def synthetic_batches(seed):
    if program.SYNTHETIC is None:
        error("this model has no synthetic data; give --data")
    return Synthetic(program.SYNTHETIC, seed)

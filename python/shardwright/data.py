"""Data sets: rows of named columns, read from files or made by functions, in C++ and ahead of whoever takes them.

    data = (sw.data.cifar10("cifar", "train")
            .map(sw.data.random_crop((32, 32), padding=(4, 4, 4, 4)), sw.data.random_horizontal_flip(),
                 sw.data.rescale(1 / 255), sw.data.hwc_to_chw(), columns="image")
            .shuffle().batch(64))
    for epoch in range(10):
        for image, label in data:
            step(image, label)

A data set is a value: each method gives a new one. Row `i` of epoch `e` is a pure function of the two, of the seed and
of the file; random transforms follow from the sample, not from the order it is read in. Each loop is the next epoch.
Functions of Python's may stand in `map` and `generator`; they take and give numpy arrays, in the thread that reads.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, Iterator, Sequence

import numpy

from . import _core
from ._core import data as _data

Tensor = _core.Tensor
Transform = _core.data.Transform

rescale, normalize, cast, reshape, one_hot = (_data.rescale, _data.normalize, _data.cast, _data.reshape,
                                              _data.one_hot)
hwc_to_chw, resize, center_crop, random_crop = _data.hwc_to_chw, _data.resize, _data.center_crop, _data.random_crop
random_resized_crop, slice_patches, decode = _data.random_resized_crop, _data.slice_patches, _data.decode
random_horizontal_flip, random_vertical_flip = _data.random_horizontal_flip, _data.random_vertical_flip
image_classes, read_image = _data.image_classes, _data.read_image

# What tensors have no type for, and the type that holds it.
_held_in = {"int8": "int32", "int16": "int32", "uint16": "int32", "uint32": "int64", "uint64": "int64"}


def held(value: Any) -> numpy.ndarray:
    """An array of its own, in a type that tensors have; Python's floats are float32."""
    is_python = isinstance(value, (bool, int, float, list, tuple))
    array = numpy.array(value)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"columns hold numbers, not {value!r}")
    return array.astype("float32") if is_python and array.dtype == numpy.float64 else in_held_type(array)


def in_held_type(array: numpy.ndarray) -> numpy.ndarray:
    """The array in a type that tensors have."""
    kind = _held_in.get(array.dtype.name)
    return array.astype(kind) if kind else array


def values_of(row: Any) -> list[numpy.ndarray]:
    """The columns of what a function gives: an array, or a tuple of them."""
    return [held(x) for x in (row if isinstance(row, tuple) else (row,))]


def python_transform(function: Callable) -> Transform:
    """A function of numpy arrays, one for each column."""
    if not callable(function):
        raise TypeError(f"map takes transforms and functions, not {function!r}")
    return _data.of_python(lambda *columns: values_of(function(*(c.numpy() for c in columns))),
                           getattr(function, "__name__", type(function).__name__))


def _names(columns: str | Sequence[str] | None) -> list[str]:
    return [columns] if isinstance(columns, str) else list(columns or [])


class Buckets:
    """Samples of all lengths in batches of few: each is filled up with `fill` to the shortest of `lengths` that it fits into, and a
    batch holds samples of one length. `fit` makes a program for each length, with a plan of its own, over the same weights in one
    memory.

        data = sw.data.Buckets([{"ids": ids, "label": label}, ...], lengths=[64, 128, 256], batch=16)

    samples: dicts of arrays by column (or an array each, the column `x`). Columns that are as long as the first along dim 0 are
    filled up; others are alike in all samples. mask: the column, [batch, length], that is 1 where a sample is and 0 where something
    fills it up. In each epoch every sample comes once; the last batch of a length is filled up with empty samples, of which the mask
    is 0. Batch `i` is a function of the seed, the epoch and `i`.
    Raises: ValueError if lengths do not ascend, samples are of other columns or types, or one is longer than the longest.
    """

    def __init__(self, samples: Sequence[Any], lengths: Sequence[int], batch: int, mask: str = "mask",
                 fill: dict[str, float] | None = None, seed: int | None = None):
        rows = [s if isinstance(s, dict) else {"x": s} for s in samples]
        if not rows or not all(rows):
            raise ValueError("samples: there is none" if not rows else "samples: one has no columns")
        self._rows = [{str(name): held(value) for name, value in row.items()} for row in rows]
        self._first = next(iter(self._rows[0]))
        self._fill, self._mask = fill or {}, mask
        self._long = self._long_columns()
        self.lengths, self.size = [int(length) for length in lengths], int(batch)
        self._order = _data.BucketOrder([len(row[self._first]) for row in self._rows], self.lengths, self.size,
                                        _core.seed() if seed is None else seed)

    def _long_columns(self) -> set[str]:
        """Those that are as long as a sample, behind a look whether all samples are alike otherwise."""
        first = self._rows[0]
        for number, row in enumerate(self._rows):
            if list(row) != list(first) or row[self._first].ndim < 1:
                raise ValueError(f"sample {number} has {', '.join(f'{name} {list(a.shape)}' for name, a in row.items())}; all should have "
                                 f"{', '.join(first)}, of which '{self._first}' says the length")
        for called, names in (("mask", [self._mask]), ("fill", list(self._fill))):
            for name in names:
                if (name in first) == (called == "mask"):
                    raise ValueError(f"{called}: samples have {'a' if called == 'mask' else 'no'} column '{name}'")
        long = {name for name in first
                if all(row[name].ndim > 0 and len(row[name]) == len(row[self._first]) for row in self._rows)}
        for name, wanted in first.items():
            for number, row in enumerate(self._rows):
                a, dims = row[name], int(name in long)
                if a.dtype != wanted.dtype or a.shape[dims:] != wanted.shape[dims:]:
                    raise ValueError(f"sample {number}: '{name}' is {a.dtype}{list(a.shape)}, but {wanted.dtype}{list(wanted.shape)} in the "
                                     f"first; only what is as long as '{self._first}' in all samples may differ, along dim 0")
        return long

    def __len__(self) -> int:
        """Batches of an epoch."""
        return self._order.batches_per_epoch

    @property
    def samples(self) -> list[int]:
        """How many samples each length has."""
        return self._order.samples

    def __getitem__(self, step: int) -> dict[str, numpy.ndarray]:
        """The batch of a step that counts through all epochs."""
        if step < 0:
            raise IndexError(step)
        length, chosen = self._order.at_step(step)
        return self._batch(length, [self._rows[i] for i in chosen])

    def __iter__(self) -> Iterator[dict[str, numpy.ndarray]]:
        """The first epoch."""
        return (self[step] for step in range(len(self)))

    def empty(self, length: int) -> dict[str, numpy.ndarray]:
        """A batch of this length without samples."""
        return self._batch(length, [])

    def _batch(self, length: int, rows: list[dict[str, numpy.ndarray]]) -> dict[str, numpy.ndarray]:
        out = {}
        for name, a in self._rows[0].items():
            shape = (self.size, length, *a.shape[1:]) if name in self._long else (self.size, *a.shape)
            column = out[name] = numpy.full(shape, self._fill.get(name, 0), a.dtype)
            for i, row in enumerate(rows):
                column[(i, slice(len(row[name]))) if name in self._long else i] = row[name]
        if self._mask:
            mask = out[self._mask] = numpy.zeros((self.size, length), numpy.float32)
            for i, row in enumerate(rows):
                mask[i, :len(row[self._first])] = 1
        return out


class Data:
    """Rows of named columns. `len`: rows (batches, behind `batch`) of an epoch."""

    def __init__(self, dataset: _core.data.Dataset, epoch: int = 0):
        self._dataset, self._epoch = dataset, epoch

    # ---- what is made of it ----

    def map(self, *transforms: Transform | Callable, columns: str | Sequence[str] = (),
            outputs: str | Sequence[str] = ()) -> Data:
        """One after the other, on some columns (the first, if none are named), which `outputs` replace."""
        made = [t if isinstance(t, Transform) else python_transform(t) for t in transforms]
        return Data(self._dataset.map(_names(columns) or self.columns[:1], made, _names(outputs)))

    def shuffle(self, seed: int | None = None, buffer: int | None = None) -> Data:
        """In another order in each epoch: of all rows, or through a buffer of some, which streams need."""
        if seed is not None and not 0 <= seed < 2**64:
            raise ValueError(f"shuffle: seed {seed} should be a whole number from 0 on, below 2^64")
        return Data(self._dataset.shuffle(_core.seed() if seed is None else seed, buffer))

    def batch(self, size: int, drop_last: bool = True) -> Data:
        """Rows side by side. The last one that is not full is left out, unless it is wanted."""
        return Data(self._dataset.batch(size, drop_last))

    def repeat(self, times: int | None = None) -> Data:
        """So often in one epoch; for ever without a number."""
        return Data(self._dataset.repeat(times))

    def shard(self, count: int, index: int) -> Data:
        """Every count-th row; all shards have as many, for which the first rows are read again."""
        return Data(self._dataset.shard(count, index))

    def take(self, count: int) -> Data:
        return Data(self._dataset.take(count))

    def skip(self, count: int) -> Data:
        return Data(self._dataset.skip(count))

    def select(self, *columns: str) -> Data:
        """Some columns, in this order."""
        return Data(self._dataset.project(list(columns)))

    def rename(self, **names: str) -> Data:
        """rename(old="new")"""
        return Data(self._dataset.rename(list(names), list(names.values())))

    def zip(self, other: Data) -> Data:
        """Columns of both, side by side."""
        return Data(self._dataset.zip(other._dataset))

    def concat(self, other: Data) -> Data:
        """The rows of the other behind these."""
        return Data(self._dataset.concat(other._dataset))

    # ---- how it is read ----

    def epoch(self, number: int, ahead: int = 4) -> Iterator[tuple[Tensor, ...]]:
        """The rows of that epoch, of which a thread makes up to `ahead` before they are asked for."""
        return self._dataset.read(number, ahead)

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        self._epoch += 1
        return self.epoch(self._epoch - 1)

    def __len__(self) -> int:
        if self._dataset.is_endless:
            raise TypeError("data that are repeated without end have no length")
        return self._dataset.count()

    @property
    def columns(self) -> list[str]:
        return self._dataset.columns

    def __repr__(self) -> str:
        columns = ", ".join(f"{name} {'?' if type_ is None else type_[0] + str(list(type_[1])).replace('None', '?')}"
                            for name, type_ in zip(self.columns, self._dataset.types))
        return f"<data: {columns}>"


# ---- where rows come from ----

def mnist(folder: str, part: str = "train") -> Data:
    """Columns image uint8 [28, 28, 1] and label uint8; part: train, test or all."""
    return Data(_data.mnist(str(folder), part))


def cifar10(folder: str, part: str = "train") -> Data:
    """Columns image uint8 [32, 32, 3] and label int32, of the binary format; part: train, test or all."""
    return Data(_data.cifar(str(folder), 10, part))


def cifar100(folder: str, part: str = "train") -> Data:
    """Columns image uint8 [32, 32, 3], coarse_label and fine_label int32."""
    return Data(_data.cifar(str(folder), 100, part))


def image_folder(folder: str, decode: bool = True) -> Data:
    """Columns image uint8 [height, width, 3] and label int32: a folder of PNG, JPEG or PNM files for each class."""
    return Data(_data.image_folder(str(folder), decode))


def tokens(path: str, length: int, bytes: int = 2) -> Data:
    """Columns input and label, int32 [length], of a file of tokens (.npy, or of 2 or 4 bytes each)."""
    return Data(_data.tokens(str(path), length, bytes))


def arrays(*unnamed: Any, **named: Any) -> Data:
    """Samples lie along the first dim of each: arrays(images, labels) or arrays(image=images, label=labels)."""
    columns = {**{f"column_{i}": x for i, x in enumerate(unnamed)}, **named}
    return Data(_data.arrays([(name, x if isinstance(x, Tensor) else held(x)) for name, x in columns.items()]))


def generator(make: Callable[[], Iterable] | Sequence, columns: str | Sequence[str] = ()) -> Data:
    """What the iterator that `make()` returns gives, in its order, anew in each epoch; or a sequence, by number.

    A row is an array, or a tuple of arrays with a name each in `columns`.
    """
    names = _names(columns) or ["column_0"]
    if hasattr(make, "__getitem__") and hasattr(make, "__len__"):
        return Data(_data.indexed(lambda i: values_of(make[i]), len(make), names))
    if not callable(make):
        raise TypeError(f"generator takes a function that returns an iterator, or a sequence, not {make!r}")
    return Data(_data.streamed(lambda: (values_of(row) for row in make()), names))

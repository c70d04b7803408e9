"""Where rows come from: MNIST's and CIFAR's files, arrays, Python's generators."""

from __future__ import annotations

import gzip
import math
from pathlib import Path
from typing import Callable, Iterator

import numpy

from .. import context
from .pipeline import Dataset, Row, generator_of

how_to_draw = ("draw digits in its format: shardwright data digits --out DIR, and give DIR "
               "(samples read it from DATA_PATH)")


class _Indexed(Dataset):
    """Rows by number: shuffled and shared out."""

    def __init__(self, columns: list[str], size: int, row: Callable[[int], Row], num_samples=None, shuffle=None,
                 sampler=None, num_shards=None, shard_id=None):
        super().__init__()
        if sampler is not None:
            raise ValueError("samplers are not in this front end; there are shuffle, num_samples and num_shards")
        if (num_shards is None) != (shard_id is None):
            raise ValueError("num_shards and shard_id are given both or not at all")
        if num_shards not in (None, 1) and num_shards == context.device_count() and not context.is_rank_view():
            raise RuntimeError(f"each of {num_shards} ranks reads a shard of its own, but one process stands for all "
                               f"of them: run mpirun -n {num_shards} python3 PROGRAM")
        self.columns, self._row, self._shuffle = columns, row, shuffle
        self._count = size if num_samples is None else min(size, num_samples)
        self._size, self._shards, self._shard = size, num_shards or 1, shard_id or 0

    def get_dataset_size(self):
        return math.ceil(self._count / self._shards)

    def rows(self, epoch):
        order = generator_of(epoch).permutation(self._size) if self._shuffle else numpy.arange(self._size)
        order = order[:self._count]
        for i in range(self.get_dataset_size()):
            yield self._row(int(order[(i * self._shards + self._shard) % self._count]))


def _idx(path: Path) -> numpy.ndarray:
    """An array of bytes as MNIST stores it."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if len(data) < 4 or data[:3] != b"\0\0\x08":
        raise ValueError(f"{path} is no IDX file of bytes")
    dims = numpy.frombuffer(data, ">u4", data[3], 4).astype(int)
    values = numpy.frombuffer(data, numpy.uint8, -1, 4 + 4 * data[3])
    if values.size != math.prod(dims):
        raise ValueError(f"{path} says {tuple(dims)} but holds {values.size} bytes")
    return values.reshape(dims)


def _folder(dataset_dir, what: str) -> Path:
    if dataset_dir is None:
        raise ValueError(f"{what}: no folder is given (is DATA_PATH set?); {how_to_draw}")
    folder = Path(dataset_dir)
    if not folder.is_dir():
        raise ValueError(f"{what}: there is no folder '{dataset_dir}'; {how_to_draw}")
    return folder


class MnistDataset(_Indexed):
    """Columns image u8 [28, 28, 1] and label u32; in another order in each epoch unless it is said otherwise."""

    def __init__(self, dataset_dir, usage=None, num_samples=None, num_parallel_workers=None, shuffle=None, sampler=None,
                 num_shards=None, shard_id=None, cache=None):
        folder = _folder(dataset_dir, "MnistDataset")
        kinds = {None: ["train", "t10k"], "all": ["train", "t10k"], "train": ["train"], "test": ["t10k"]}
        if usage not in kinds:
            raise ValueError(f"usage of MnistDataset is train, test or all, not '{usage}'")
        found = [p for p in (self._files(folder, kind) for kind in kinds[usage]) if p]
        if not found:
            raise ValueError(f"MnistDataset: '{dataset_dir}' has no files such as train-images-idx3-ubyte; "
                             + how_to_draw)
        images = numpy.concatenate([_idx(image) for image, _ in found])[..., None]
        labels = numpy.concatenate([_idx(label) for _, label in found]).astype(numpy.uint32)
        super().__init__(["image", "label"], len(labels), lambda i: (images[i], labels[i]), num_samples,
                         shuffle is not False, sampler, num_shards, shard_id)

    @staticmethod
    def _files(folder: Path, kind: str) -> tuple[Path, Path] | None:
        for end in ("", ".gz"):
            files = tuple(folder / f"{kind}-{what}-ubyte{end}" for what in ("images-idx3", "labels-idx1"))
            if all(f.exists() for f in files):
                return files
        return None


class Cifar10Dataset(_Indexed):
    """Columns image u8 [32, 32, 3] and label u32, of the binary batches."""

    def __init__(self, dataset_dir, usage=None, num_samples=None, num_parallel_workers=None, shuffle=None, sampler=None,
                 num_shards=None, shard_id=None, cache=None):
        folder = _folder(dataset_dir, "Cifar10Dataset")
        patterns = {None: "*_batch*.bin", "all": "*_batch*.bin", "train": "data_batch*.bin", "test": "test_batch.bin"}
        if usage not in patterns:
            raise ValueError(f"usage of Cifar10Dataset is train, test or all, not '{usage}'")
        files = sorted(folder.glob(patterns[usage]))
        if not files:
            raise ValueError(f"Cifar10Dataset: '{dataset_dir}' has no files such as data_batch_1.bin")
        rows = numpy.concatenate([numpy.fromfile(f, numpy.uint8).reshape(-1, 3073) for f in files])
        labels = rows[:, 0].astype(numpy.uint32)
        images = rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        super().__init__(["image", "label"], len(labels), lambda i: (images[i], labels[i]), num_samples,
                         shuffle is not False, sampler, num_shards, shard_id)


class NumpySlicesDataset(_Indexed):
    """Rows of arrays: one for each column."""

    def __init__(self, data, column_names=None, num_samples=None, num_parallel_workers=1, shuffle=None, sampler=None,
                 num_shards=None, shard_id=None):
        if isinstance(data, dict):
            column_names, data = list(data), tuple(data.values())
        arrays = [numpy.asarray(x) for x in (data if isinstance(data, tuple) else (data,))]
        names = [column_names] if isinstance(column_names, str) else column_names
        names = names or [f"column_{i}" for i in range(len(arrays))]
        super().__init__(list(names), len(arrays[0]), lambda i: tuple(a[i] for a in arrays), num_samples,
                         shuffle is not False, sampler, num_shards, shard_id)


class _Streamed(Dataset):
    """What a function's iterator, or an iterable, gives, in its order."""

    def __init__(self, columns: list[str], stream: Callable[[], Iterator], num_samples):
        super().__init__()
        self.columns, self._stream, self._limit, self._size = columns, stream, num_samples, None

    def get_dataset_size(self):
        if self._size is None:
            self._size = sum(1 for _ in self.rows(0))
        return self._size

    def rows(self, epoch):
        for i, row in enumerate(self._stream()):
            if self._limit is not None and i >= self._limit:
                return
            yield _row(row)


def _row(item) -> Row:
    return tuple(numpy.asarray(x) for x in (item if isinstance(item, tuple) else (item,)))


def GeneratorDataset(source, column_names=None, column_types=None, schema=None, num_samples=None,  # noqa: N802
                     num_parallel_workers=1, shuffle=None, sampler=None, num_shards=None, shard_id=None,
                     python_multiprocessing=True, max_rowsize=None) -> Dataset:
    """Rows of a function that returns an iterator, an iterable, or an object with [i] and a length (shuffled)."""
    names = [column_names] if isinstance(column_names, str) else list(column_names or [])
    if not names:
        raise ValueError("GeneratorDataset needs column_names")
    if hasattr(source, "__getitem__") and hasattr(source, "__len__"):
        return _Indexed(names, len(source), lambda i: _row(source[i]), num_samples, shuffle is not False, sampler,
                        num_shards, shard_id)
    if num_shards is not None or shuffle:
        raise ValueError("GeneratorDataset of an iterator is kept in order; shards and shuffle need source[i] and a "
                         "length")
    return _Streamed(names, source if callable(source) else lambda: iter(source), num_samples)

"""Where rows come from: files, arrays, Python's generators."""

from __future__ import annotations

from pathlib import Path

import numpy
from shardwright import _core
from shardwright.data import held, values_of

from .. import context
from . import config
from ..mindrecord.files import Records
from .pipeline import Dataset, listed, refuse_settings
from .samplers import Sampler, Shuffle

_data = _core.data
how_to_draw = ("draw {} in its format: shardwright data {} --out DIR, and give DIR "
               "(samples read it from DATA_PATH)")


def _chosen(rows, num_samples=None, shuffle=None, sampler=None, num_shards=None, shard_id=None):
    """Rows by number: in another order in each epoch unless it is said otherwise, and shared out."""
    if sampler is not None and not isinstance(sampler, Sampler):
        raise ValueError(f"sampler {sampler!r} is not in this front end; there are SequentialSampler, RandomSampler and "
                         "DistributedSampler")
    if sampler is not None and (shuffle is not None or num_shards is not None):
        raise ValueError("a sampler says the order: shuffle and num_shards are not given beside it")
    if (num_shards is None) != (shard_id is None):
        raise ValueError("num_shards and shard_id are given both or not at all")
    if num_shards not in (None, 1) and num_shards == context.device_count() and not context.is_rank_view():
        raise RuntimeError(f"each of {num_shards} ranks reads a shard of its own, but one process stands for all "
                           f"of them: run mpirun -n {num_shards} python3 PROGRAM")
    if sampler is not None:
        rows = sampler.chosen(rows)
    elif shuffle is not False:
        rows = rows.shuffle(config.get_seed())
    if num_samples is not None:
        rows = rows.take(num_samples)
    return rows.shard(num_shards, shard_id) if num_shards else rows


def _folder(dataset_dir, what: str, drawn: tuple[str, str]) -> Path:
    how = how_to_draw.format(*drawn)
    if dataset_dir is None:
        raise ValueError(f"{what}: no folder is given (is DATA_PATH set?); {how}")
    if not Path(dataset_dir).is_dir():
        raise ValueError(f"{what}: there is no folder '{dataset_dir}'; {how}")
    return Path(dataset_dir)


def _part(what: str, usage) -> str:
    if usage not in (None, "all", "train", "test"):
        raise ValueError(f"usage of {what} is train, test or all, not '{usage}'")
    return usage or "all"


def _wide(rows, *labels: str):
    """Labels are unsigned there; tensors hold them as int64."""
    for name in labels:
        rows = rows.map([name], [_data.cast("int64")], [])
    return rows


class MnistDataset(Dataset):
    """Columns image u8 [28, 28, 1] and label; in another order in each epoch unless it is said otherwise."""

    def __init__(self, dataset_dir, usage=None, num_samples=None, num_parallel_workers=None, shuffle=None, sampler=None,
                 num_shards=None, shard_id=None, cache=None):
        folder = _folder(dataset_dir, "MnistDataset", ("digits", "digits"))
        part = _part("MnistDataset", usage)
        there = [p for p, start in (("train", "train-images"), ("test", "t10k-images"))
                 if part in (p, "all") and (any(folder.glob(start + "*")) or any(folder.glob(f"{p}/{start}*")))]
        if not there:
            raise ValueError(f"MnistDataset: '{dataset_dir}' has no files such as train-images-idx3-ubyte; "
                             + how_to_draw.format("digits", "digits"))
        rows = _data.mnist(str(folder), there[-1])  # the test set first, as there
        for part in reversed(there[:-1]):
            rows = rows.concat(_data.mnist(str(folder), part))
        super().__init__(_chosen(_wide(rows, "label"), num_samples, shuffle, sampler, num_shards, shard_id))


class FashionMnistDataset(MnistDataset):
    """The same format."""


class KMnistDataset(MnistDataset):
    """The same format."""


class PaddedDataset(Dataset):
    """Rows that are given as dicts, behind those of another data set."""

    def __init__(self, padded_samples):
        if not padded_samples:
            raise ValueError("PaddedDataset takes rows, at least one")
        names = list(padded_samples[0])
        rows = [values_of(tuple(numpy.asarray(row[n]) for n in names)) for row in padded_samples]
        super().__init__(_data.indexed(lambda i: rows[i], len(rows), names))


class _Cifar(Dataset):
    def __init__(self, what: str, classes: int, dataset_dir, usage, labels: list[str], *how):
        folder = _folder(dataset_dir, what, ("pictures", "cifar" if classes == 10 else "cifar --classes 100"))
        rows = _data.cifar(str(folder), classes, _part(what, usage))
        super().__init__(_chosen(_wide(rows, *labels), *how))


class Cifar10Dataset(_Cifar):
    """Columns image u8 [32, 32, 3] and label, of the binary batches."""

    def __init__(self, dataset_dir, usage=None, num_samples=None, num_parallel_workers=None, shuffle=None, sampler=None,
                 num_shards=None, shard_id=None, cache=None):
        super().__init__("Cifar10Dataset", 10, dataset_dir, usage, ["label"], num_samples, shuffle, sampler, num_shards,
                         shard_id)


class Cifar100Dataset(_Cifar):
    """Columns image u8 [32, 32, 3], coarse_label and fine_label."""

    def __init__(self, dataset_dir, usage=None, num_samples=None, num_parallel_workers=None, shuffle=None, sampler=None,
                 num_shards=None, shard_id=None, cache=None):
        super().__init__("Cifar100Dataset", 100, dataset_dir, usage, ["coarse_label", "fine_label"], num_samples,
                         shuffle, sampler, num_shards, shard_id)


class ImageFolderDataset(Dataset):
    """Columns image, the bytes of a file or, with decode, u8 [height, width, 3], and label: a folder for each class."""

    def __init__(self, dataset_dir, num_samples=None, num_parallel_workers=None, shuffle=None, sampler=None,
                 extensions=None, class_indexing=None, decode=False, num_shards=None, shard_id=None, cache=None,
                 decrypt=None):
        refuse_settings("ImageFolderDataset", {"extensions": extensions, "class_indexing": class_indexing,
                                               "decrypt": decrypt})
        folder = str(_folder(dataset_dir, "ImageFolderDataset", ("pictures", "images")))
        self._classes = _data.image_classes(folder)
        super().__init__(_chosen(_data.image_folder(folder, decode), num_samples, shuffle, sampler, num_shards, shard_id))

    def num_classes(self) -> int:
        return len(self._classes)

    def get_class_indexing(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self._classes)}


class NumpySlicesDataset(Dataset):
    """Rows of arrays: one for each column."""

    def __init__(self, data, column_names=None, num_samples=None, num_parallel_workers=1, shuffle=None, sampler=None,
                 num_shards=None, shard_id=None):
        if isinstance(data, dict):
            column_names, data = list(data), tuple(data.values())
        arrays = [held(numpy.asarray(x)) for x in (data if isinstance(data, tuple) else (data,))]
        names = listed(column_names) or [f"column_{i}" for i in range(len(arrays))]
        if len(names) != len(arrays):
            raise ValueError(f"NumpySlicesDataset: {len(names)} column_names for {len(arrays)} columns")
        super().__init__(_chosen(_data.arrays(list(zip(names, arrays))), num_samples, shuffle, sampler, num_shards,
                                 shard_id))


class MindDataset(Dataset):
    """Rows of `.mindrecord` files: bytes as u8 [count], numbers of no dims, arrays."""

    def __init__(self, dataset_files, columns_list=None, num_parallel_workers=None, shuffle=None, num_shards=None, shard_id=None,
                 sampler=None, padded_sample=None, num_padded=None, num_samples=None, cache=None):
        refuse_settings("MindDataset", {"padded_sample": padded_sample, "num_padded": num_padded})
        records = Records(dataset_files, listed(columns_list) or None)
        texts = [n for n in records.columns if records.schema[n]["type"] == "string"]
        if texts and columns_list is not None:
            raise ValueError(f"MindDataset: '{texts[0]}' is a column of texts, which rows here do not hold; FileReader reads them")
        names = [n for n in records.columns if n not in texts]  # there is no tensor of texts
        if texts:
            context.tell(f"mindspore: MindDataset leaves columns of texts out: {', '.join(texts)}")
        records.columns = names

        def row(i: int) -> tuple:
            values = records.row(i)
            return values_of(tuple(self._array(values[n], records.schema[n]["type"]) for n in names))

        shuffle = {Shuffle.FALSE: False, Shuffle.GLOBAL: None, Shuffle.FILES: None, Shuffle.INFILE: None}.get(shuffle, shuffle)
        super().__init__(_chosen(_data.indexed(row, len(records), names), num_samples, shuffle, sampler, num_shards, shard_id))

    @staticmethod
    def _array(value, kind: str) -> numpy.ndarray:
        return numpy.frombuffer(value, numpy.uint8) if kind == "bytes" else numpy.asarray(value, kind)


def GeneratorDataset(source, column_names=None, column_types=None, schema=None, num_samples=None,  # noqa: N802
                     num_parallel_workers=1, shuffle=None, sampler=None, num_shards=None, shard_id=None,
                     python_multiprocessing=True, max_rowsize=None, **settings) -> Dataset:
    """Rows of a function that returns an iterator, an iterable, or an object with [i] and a length (shuffled)."""
    refuse_settings("GeneratorDataset", {"schema": schema, **settings})
    names = listed(column_names)
    if not names:
        raise ValueError("GeneratorDataset needs column_names")
    rows = _generated(source, names)
    if column_types:
        for name, dtype in zip(names, column_types):
            rows = rows.map([name], [_data.cast(_type_name(dtype))], [])
    if not rows.is_stream:
        return Dataset(_chosen(rows, num_samples, shuffle, sampler, num_shards, shard_id))
    if num_shards is not None or shuffle or sampler is not None:
        raise ValueError("GeneratorDataset of an iterator is kept in order; shards and shuffle need source[i] and a "
                         "length")
    return Dataset(rows if num_samples is None else rows.take(num_samples))


def _generated(source, names: list[str]):
    if hasattr(source, "__getitem__") and hasattr(source, "__len__"):
        return _data.indexed(lambda i: _row(source[i]), len(source), names)
    start = source if callable(source) else lambda: source
    return _data.streamed(lambda: (_row(row) for row in start()), names)


def _row(row):
    return values_of(tuple(row) if isinstance(row, list) else row)


def _type_name(dtype) -> str:
    from ..common import dtype as mstype

    return mstype.type_of(dtype).name

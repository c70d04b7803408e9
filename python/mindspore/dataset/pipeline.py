"""Data sets: rows of named columns over the pipelines of the core, which a thread reads ahead unless there is a function
of Python's in them."""

from __future__ import annotations

from typing import Any, Iterator

import numpy

from ..common.tensor import Tensor
from . import config
from .transforms.made import transforms_of

# Arguments that say how fast, not what: they are taken and have no effect.
_hints = {"num_parallel_workers", "python_multiprocessing", "max_rowsize", "cache", "offload"}


def refuse_settings(where: str, settings: dict) -> None:
    """Raises: TypeError that names a setting that would do something and does not here."""
    for name, value in settings.items():
        if name not in _hints and value is not None:
            raise TypeError(f"{where}: '{name}' is not in this front end")


def listed(columns) -> list[str]:
    return [columns] if isinstance(columns, str) else list(columns or [])


class Dataset:
    """Around a data set of the core, whose next epoch it knows."""

    def __init__(self, rows):
        self._rows = rows
        self._epoch = 0
        self._size: int | None = None

    # ---- what is made of it ----

    def map(self, operations, input_columns=None, output_columns=None, column_order=None, num_parallel_workers=None,
            **settings) -> Dataset:
        """One operation or several, one after the other, on some columns (the first, if none are named)."""
        refuse_settings("map", settings)
        inputs = listed(input_columns) or self._rows.columns[:1]
        for name in inputs:
            self._known("map", name)
        mapped = Dataset(self._rows.map(inputs, transforms_of(operations), listed(output_columns)))
        return mapped.project(column_order) if column_order else mapped

    def batch(self, batch_size: int, drop_remainder: bool = False, num_parallel_workers=None, **settings) -> Dataset:
        """Rows side by side; the last batch is smaller unless it is dropped."""
        refuse_settings("batch", settings)
        if not isinstance(batch_size, int) or batch_size < 1:
            raise ValueError(f"batch_size is a whole number above 0, not {batch_size!r}")
        return Dataset(self._rows.batch(batch_size, drop_remainder))

    def shuffle(self, buffer_size: int) -> Dataset:
        """In another order in each epoch, as rows leave a buffer of that size."""
        if not isinstance(buffer_size, int) or buffer_size < 2:
            raise ValueError(f"buffer_size of shuffle is 2 or more, not {buffer_size!r}")
        return Dataset(self._rows.shuffle(config.get_seed(), buffer_size))

    def repeat(self, count: int | None = None) -> Dataset:
        """So often in one epoch; for ever without a count."""
        return Dataset(self._rows.repeat(None if count in (None, -1) else count))

    def project(self, columns) -> Dataset:
        """Some columns, in this order."""
        for name in listed(columns):
            self._known("project", name)
        return Dataset(self._rows.project(listed(columns)))

    def rename(self, input_columns, output_columns) -> Dataset:
        return Dataset(self._rows.rename(listed(input_columns), listed(output_columns)))

    def take(self, count: int = -1) -> Dataset:
        return Dataset(self._rows) if count == -1 else Dataset(self._rows.take(count))

    def skip(self, count: int) -> Dataset:
        return Dataset(self._rows.skip(count))

    def zip(self, datasets) -> Dataset:
        rows = self._rows
        for other in datasets if isinstance(datasets, tuple) else (datasets,):
            rows = rows.zip(other._rows)
        return Dataset(rows)

    def concat(self, datasets) -> Dataset:
        """Rows of the others behind these."""
        rows = self._rows
        for other in datasets if isinstance(datasets, (list, tuple)) else (datasets,):
            rows = rows.concat(other._rows)
        return Dataset(rows)

    def __add__(self, other: Dataset) -> Dataset:
        return self.concat(other)

    def apply(self, apply_func) -> Dataset:
        """What a function makes of it."""
        return apply_func(self)

    def split(self, sizes, randomize: bool = True) -> list[Dataset]:
        """Parts of so many rows, or of such shares, in one order for all epochs."""
        size = self.get_dataset_size()
        counts = [round(s * size) if isinstance(s, float) else s for s in sizes]
        if all(isinstance(s, float) for s in sizes):
            counts[-1] += size - sum(counts)
        if sum(counts) != size or min(counts) < 1:
            raise ValueError(f"split: parts of {list(sizes)} are not the {size} rows")
        if randomize:
            raise ValueError("split: randomize=True is not in this front end: shuffle the parts instead, and give "
                             "randomize=False")
        starts = [sum(counts[:i]) for i in range(len(counts))]
        return [Dataset(self._rows.skip(start).take(count)) for start, count in zip(starts, counts)]

    def _known(self, where: str, name: str) -> None:
        if name not in self._rows.columns:
            raise ValueError(f"{where}: there is no column '{name}'; there are {', '.join(self._rows.columns)}")

    # ---- how it is read ----

    def create_tuple_iterator(self, columns=None, num_epochs: int = -1, output_numpy: bool = False,
                              do_copy: bool = True) -> Epochs:
        return Epochs(self.project(columns) if columns else self, num_epochs, output_numpy, as_dict=False)

    def create_dict_iterator(self, num_epochs: int = -1, output_numpy: bool = False, do_copy: bool = True) -> Epochs:
        return Epochs(self, num_epochs, output_numpy, as_dict=True)

    def __iter__(self) -> Iterator[list]:
        return Epochs(self, -1, output_numpy=False, as_dict=False).__iter__()

    def rows(self, epoch: int) -> Iterator[tuple]:
        return self._rows.read(epoch, config.get_prefetch_size())

    def next_epoch(self) -> Iterator[tuple]:
        epoch, self._epoch = self._epoch, self._epoch + 1
        return self.rows(epoch)

    def get_dataset_size(self) -> int:
        """Rows (batches, if they are) of an epoch."""
        return self._rows.count() if self._size is None else self._size

    def set_dataset_size(self, dataset_size: int) -> None:
        """What get_dataset_size says, for one who knows it."""
        if not isinstance(dataset_size, int) or dataset_size < 1:
            raise ValueError(f"dataset_size is a whole number above 0, not {dataset_size!r}")
        self._size = dataset_size

    def reset(self) -> None:
        self._epoch = 0

    def get_repeat_count(self) -> int:
        return self._rows.repeats or -1

    def get_batch_size(self) -> int:
        return self._rows.batch_size or 1

    def get_col_names(self) -> list[str]:
        return self._rows.columns

    @property
    def columns(self) -> list[str]:
        return self._rows.columns

    def _first_row(self) -> list[numpy.ndarray]:
        return [x.numpy() for x in next(self._rows.read(0, 0))]

    def output_shapes(self) -> list[list[int]]:
        return [list(x.shape) for x in self._first_row()]

    def output_types(self) -> list:
        return [x.dtype for x in self._first_row()]

    def __len__(self) -> int:
        return self.get_dataset_size()


class Epochs:
    """Each loop over it is the next epoch; next() goes on in the epoch that is being read."""

    def __init__(self, dataset: Dataset, num_epochs: int, output_numpy: bool, as_dict: bool):
        if not isinstance(num_epochs, int) or num_epochs == 0 or num_epochs < -1:
            raise ValueError(f"num_epochs is a whole number above 0, or -1, not {num_epochs!r}")
        self._dataset, self._left = dataset, num_epochs
        self._output_numpy, self._as_dict = output_numpy, as_dict
        self._rows: Iterator[tuple] | None = None

    def __iter__(self) -> Epochs:
        if self._left == 0:
            raise RuntimeError("this iterator has given the num_epochs that it was made for")
        self._left -= self._left > 0
        self._rows = self._dataset.next_epoch()
        return self

    def __next__(self) -> Any:
        if self._rows is None:
            self.__iter__()
        try:
            row = next(self._rows)
        except StopIteration:
            self._rows = None
            raise
        values = [x.numpy() if self._output_numpy else Tensor.of(x) for x in row]
        return dict(zip(self._dataset.columns, values)) if self._as_dict else values

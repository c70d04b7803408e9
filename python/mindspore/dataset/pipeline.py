"""Data sets: rows of named columns, made anew in each epoch, one after the other."""

from __future__ import annotations

import math
from typing import Any, Callable, Iterator

import numpy

from ..common.dtype import held
from ..common.tensor import Tensor
from . import config

Row = tuple


class Dataset:
    """Subclasses say their columns, how many rows an epoch has, and make them."""

    columns: list[str] = []

    def __init__(self, source: Dataset | None = None):
        self._source = source
        self._epoch = 0

    def rows(self, epoch: int) -> Iterator[Row]:
        raise NotImplementedError

    def get_dataset_size(self) -> int:
        """Rows (batches, if they are) of an epoch."""
        return self._source.get_dataset_size()

    # ---- what is made of it ----

    def map(self, operations, input_columns=None, output_columns=None, column_order=None, num_parallel_workers=None,
            **settings) -> Dataset:
        """One operation or several, one after the other, on some columns (the first, if none are named)."""
        mapped = _Mapped(self, operations, _listed(input_columns), _listed(output_columns))
        return mapped.project(column_order) if column_order else mapped

    def batch(self, batch_size: int, drop_remainder: bool = False, num_parallel_workers=None, **settings) -> Dataset:
        """Rows side by side; the last batch is smaller unless it is dropped."""
        return _Batched(self, batch_size, drop_remainder)

    def shuffle(self, buffer_size: int) -> Dataset:
        """In another order in each epoch."""
        return _Shuffled(self, buffer_size)

    def repeat(self, count: int | None = None) -> Dataset:
        """So often in one epoch; for ever without a count."""
        return _Repeated(self, count)

    def project(self, columns) -> Dataset:
        """Some columns, in this order."""
        return _Projected(self, _listed(columns))

    def rename(self, input_columns, output_columns) -> Dataset:
        return _Renamed(self, dict(zip(_listed(input_columns), _listed(output_columns))))

    def take(self, count: int = -1) -> Dataset:
        return _Some(self, 0, None if count == -1 else count)

    def skip(self, count: int) -> Dataset:
        return _Some(self, count, None)

    def zip(self, datasets) -> Dataset:
        return _Zipped([self, *(datasets if isinstance(datasets, tuple) else (datasets,))])

    # ---- how it is read ----

    def create_tuple_iterator(self, columns=None, num_epochs: int = -1, output_numpy: bool = False,
                              do_copy: bool = True) -> Epochs:
        return Epochs(self.project(columns) if columns else self, output_numpy, as_dict=False)

    def create_dict_iterator(self, num_epochs: int = -1, output_numpy: bool = False, do_copy: bool = True) -> Epochs:
        return Epochs(self, output_numpy, as_dict=True)

    def __iter__(self) -> Iterator[list]:
        return self._next_epoch(False, False)

    def _next_epoch(self, output_numpy: bool, as_dict: bool) -> Iterator:
        epoch, self._epoch = self._epoch, self._epoch + 1
        for row in self.rows(epoch):
            values = [x if output_numpy else _tensor(x) for x in row]
            yield dict(zip(self.columns, values)) if as_dict else values

    def reset(self) -> None:
        self._epoch = 0

    def get_repeat_count(self) -> int:
        return self._source.get_repeat_count() if self._source else 1

    def get_batch_size(self) -> int:
        return self._source.get_batch_size() if self._source else 1

    def get_col_names(self) -> list[str]:
        return list(self.columns)

    def _first_row(self) -> Row:
        return tuple(numpy.asarray(x) for x in next(self.rows(0)))

    def output_shapes(self) -> list[list[int]]:
        return [list(x.shape) for x in self._first_row()]

    def output_types(self) -> list:
        return [x.dtype for x in self._first_row()]


class Epochs:
    """Each loop over it is the next epoch."""

    def __init__(self, dataset: Dataset, output_numpy: bool, as_dict: bool):
        self._dataset, self._how = dataset, (output_numpy, as_dict)

    def __iter__(self) -> Iterator:
        return self._dataset._next_epoch(*self._how)


def _tensor(x):
    array = numpy.asarray(x)
    return Tensor(held(array)) if array.dtype.kind in "fiub" else x


def _listed(columns) -> list[str]:
    return [columns] if isinstance(columns, str) else list(columns or [])


def generator_of(epoch: int, *more: int) -> numpy.random.Generator:
    """By the seed of data sets and the epoch."""
    return numpy.random.default_rng([config.get_seed(), epoch, *more])


class _Mapped(Dataset):
    def __init__(self, source: Dataset, operations, inputs: list[str], outputs: list[str]):
        super().__init__(source)
        self.operations: list[Callable] = list(operations) if isinstance(operations, (list, tuple)) else [operations]
        self.inputs = inputs or source.columns[:1]
        self.outputs = outputs or self.inputs
        for name in self.inputs:
            if name not in source.columns:
                raise ValueError(f"map: there is no column '{name}'; there are {', '.join(source.columns)}")
        at = source.columns.index(self.inputs[0])
        kept = [c for c in source.columns if c not in self.inputs]
        at = sum(c in kept for c in source.columns[:at])
        self.columns = kept[:at] + self.outputs + kept[at:]
        self._at = at

    def rows(self, epoch):
        places = [self._source.columns.index(c) for c in self.inputs]
        for row in self._source.rows(epoch):
            values: Any = tuple(row[p] for p in places)
            for operation in self.operations:
                values = operation(*values)
                values = values if isinstance(values, tuple) else (values,)
            if len(values) != len(self.outputs):
                raise ValueError(f"map: {len(values)} results for the columns {self.outputs}")
            kept = tuple(x for i, x in enumerate(row) if i not in places)
            yield kept[:self._at] + values + kept[self._at:]


class _Batched(Dataset):
    def __init__(self, source: Dataset, size: int, drop_remainder: bool):
        super().__init__(source)
        if not isinstance(size, int) or size < 1:
            raise ValueError(f"batch_size is a whole number above 0, not {size!r}")
        self.size, self.drop_remainder, self.columns = size, drop_remainder, source.columns

    def get_dataset_size(self):
        rows = self._source.get_dataset_size()
        return rows // self.size if self.drop_remainder else math.ceil(rows / self.size)

    def get_batch_size(self):
        return self.size

    def rows(self, epoch):
        rows: list[Row] = []
        for row in self._source.rows(epoch):
            rows.append(row)
            if len(rows) == self.size:
                yield _side_by_side(rows)
                rows = []
        if rows and not self.drop_remainder:
            yield _side_by_side(rows)


def _side_by_side(rows: list[Row]) -> Row:
    return tuple(numpy.stack([numpy.asarray(x) for x in column]) for column in zip(*rows))


class _Shuffled(Dataset):
    def __init__(self, source: Dataset, buffer_size: int):
        super().__init__(source)
        if not isinstance(buffer_size, int) or buffer_size < 2:
            raise ValueError(f"buffer_size of shuffle is 2 or more, not {buffer_size!r}")
        self.buffer_size, self.columns = buffer_size, source.columns

    def rows(self, epoch):
        generator, buffer = generator_of(epoch, 1), []
        for row in self._source.rows(epoch):
            if len(buffer) < self.buffer_size:
                buffer.append(row)
                continue
            place = generator.integers(len(buffer))
            buffer[place], row = row, buffer[place]
            yield row
        for place in generator.permutation(len(buffer)):
            yield buffer[place]


class _Repeated(Dataset):
    def __init__(self, source: Dataset, count: int | None):
        super().__init__(source)
        self.count, self.columns = None if count in (None, -1) else count, source.columns

    def get_dataset_size(self):
        return self._source.get_dataset_size() * (self.count or 1)

    def get_repeat_count(self):
        return self.count or -1

    def rows(self, epoch):
        done = 0
        while self.count is None or done < self.count:
            yield from self._source.rows(epoch * (self.count or 1) + done)
            done += 1


class _Projected(Dataset):
    def __init__(self, source: Dataset, columns: list[str]):
        super().__init__(source)
        for name in columns:
            if name not in source.columns:
                raise ValueError(f"project: there is no column '{name}'; there are {', '.join(source.columns)}")
        self.columns = columns

    def rows(self, epoch):
        places = [self._source.columns.index(c) for c in self.columns]
        return (tuple(row[p] for p in places) for row in self._source.rows(epoch))


class _Renamed(Dataset):
    def __init__(self, source: Dataset, names: dict[str, str]):
        super().__init__(source)
        self.columns = [names.get(c, c) for c in source.columns]

    def rows(self, epoch):
        return self._source.rows(epoch)


class _Some(Dataset):
    def __init__(self, source: Dataset, first: int, count: int | None):
        super().__init__(source)
        self.first, self.count, self.columns = first, count, source.columns

    def get_dataset_size(self):
        rest = max(0, self._source.get_dataset_size() - self.first)
        return rest if self.count is None else min(rest, self.count)

    def rows(self, epoch):
        for i, row in enumerate(self._source.rows(epoch)):
            if self.count is not None and i >= self.first + self.count:
                return
            if i >= self.first:
                yield row


class _Zipped(Dataset):
    def __init__(self, sources: list[Dataset]):
        super().__init__(sources[0])
        self.sources = sources
        self.columns = [c for s in sources for c in s.columns]

    def get_dataset_size(self):
        return min(s.get_dataset_size() for s in self.sources)

    def rows(self, epoch):
        for rows in zip(*(s.rows(epoch) for s in self.sources)):
            yield tuple(x for row in rows for x in row)

"""Data sets."""

from .._missing import missing
from . import config, samplers, transforms, vision
from .pipeline import Dataset
from .samplers import DistributedSampler, RandomSampler, SequentialSampler
from .sources import (Cifar10Dataset, Cifar100Dataset, GeneratorDataset, ImageFolderDataset, MnistDataset,
                      NumpySlicesDataset)


def zip(datasets) -> Dataset:  # noqa: A001
    """Columns of several data sets, side by side."""
    return datasets[0].zip(tuple(datasets[1:]))


__getattr__ = missing("mindspore.dataset", globals())

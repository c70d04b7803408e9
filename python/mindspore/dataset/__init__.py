"""Data sets."""

from .._missing import missing
from . import config, samplers, transforms, vision
from .pipeline import Dataset
from .samplers import DistributedSampler, RandomSampler, Sampler, SequentialSampler, Shuffle
from .sources import (Cifar10Dataset, Cifar100Dataset, FashionMnistDataset, GeneratorDataset, ImageFolderDataset, KMnistDataset, MindDataset, MnistDataset, PaddedDataset,
                      NumpySlicesDataset)


class DatasetCache:
    """A hint: rows are read again in each epoch, ahead of the step."""

    def __init__(self, session_id=None, size: int = 0, spilling: bool = False, hostname=None, port=None, num_connections=None,
                 prefetch_size=None):
        self.session_id, self.size = session_id, size


def zip(datasets) -> Dataset:  # noqa: A001
    """Columns of several data sets, side by side."""
    return datasets[0].zip(tuple(datasets[1:]))


__getattr__ = missing("mindspore.dataset", globals())

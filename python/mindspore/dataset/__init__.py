"""Data sets."""

from .._missing import missing
from . import config, transforms, vision
from .pipeline import Dataset
from .sources import Cifar10Dataset, GeneratorDataset, MnistDataset, NumpySlicesDataset

__getattr__ = missing("mindspore.dataset", globals())

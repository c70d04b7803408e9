"""What is done with images."""

from . import transforms
from .transforms import (CenterCrop, Decode, HWC2CHW, Inter, Normalize, RandomCrop, RandomHorizontalFlip,
                         RandomResizedCrop, RandomVerticalFlip, Rescale, Resize, SlicePatches, ToTensor, __getattr__)

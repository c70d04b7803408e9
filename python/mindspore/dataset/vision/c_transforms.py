"""The old name of `transforms`."""

from .transforms import (CenterCrop, Decode, HWC2CHW, Inter, Normalize, RandomCrop, RandomHorizontalFlip,
                         RandomResizedCrop, RandomVerticalFlip, Rescale, Resize, SlicePatches, __getattr__)

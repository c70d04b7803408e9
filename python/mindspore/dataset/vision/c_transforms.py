"""The old name of `transforms`."""

from .transforms import (HWC2CHW, Inter, Normalize, RandomCrop, RandomHorizontalFlip, Rescale, Resize, SlicePatches,
                         __getattr__)

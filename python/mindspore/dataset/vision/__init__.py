"""What is done with images."""

from . import c_transforms, transforms
from .transforms import (HWC2CHW, Inter, Normalize, RandomCrop, RandomHorizontalFlip, Rescale, Resize, SlicePatches,
                         __getattr__)

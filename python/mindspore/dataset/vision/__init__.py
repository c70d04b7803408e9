"""What is done with images."""

from . import adjustments, transforms
from .adjustments import *  # noqa: F403
from .transforms import (CenterCrop, Decode, HWC2CHW, Inter, Normalize, RandomCrop, RandomCropDecodeResize, RandomHorizontalFlip,
                         RandomResizedCrop, RandomVerticalFlip, Rescale, Resize, SlicePatches, ToTensor, __getattr__)

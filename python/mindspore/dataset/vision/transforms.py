"""What is done with images: arrays [height, width, channels], unless they are said to be otherwise."""

from __future__ import annotations

import enum

from shardwright import data

from ..._missing import missing
from .. import config
from ..transforms.made import Made


class Inter(enum.Enum):
    """How pixels between pixels are found."""

    NEAREST = 0
    LINEAR = 2
    BILINEAR = 2
    ANTIALIAS = 1
    BICUBIC = CUBIC = 3
    AREA = 4
    PILCUBIC = 5


def _called(interpolation) -> str:
    if not isinstance(interpolation, Inter):
        raise TypeError(f"interpolation is one of Inter, not {interpolation!r}")
    if interpolation not in (Inter.NEAREST, Inter.LINEAR, Inter.AREA):
        raise ValueError(f"pixels by Inter.{interpolation.name} are not in this front end; there are NEAREST, LINEAR and AREA")
    return interpolation.name.lower()


def _sides(size) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else tuple(size)


class Rescale(Made):
    """rescale x + shift, f32"""

    def __init__(self, rescale: float, shift: float):
        super().__init__(data.rescale(rescale, shift))


class Normalize(Made):
    """(x - mean) / std for each channel"""

    def __init__(self, mean, std, is_hwc: bool = True):
        if len(mean) != len(std) or min(std) <= 0:
            raise ValueError(f"Normalize takes a mean and a std above 0 for each channel, not {mean} and {std}")
        super().__init__(data.normalize(list(mean), list(std), not is_hwc))


class HWC2CHW(Made):
    """Channels become dim 0."""

    def __init__(self):
        super().__init__(data.hwc_to_chw())


class ToTensor(Made):
    """Channels become dim 0, and 0..255 become 0..1."""

    def __init__(self, output_type="float32"):
        from ...common import dtype as mstype

        super().__init__(data.rescale(1 / 255), data.hwc_to_chw(), data.cast(mstype.type_of(output_type).name))


class Decode(Made):
    """The bytes of a PNG, JPEG or PNM file as an image."""

    def __init__(self, to_pil: bool = False):
        if to_pil:
            raise ValueError("Decode: to_pil=True is not in this front end: images are arrays")
        super().__init__(data.decode())


class Resize(Made):
    """Bilinear, to the nearest pixel, or the mean of an area; of one number the smaller side."""

    def __init__(self, size, interpolation: Inter = Inter.LINEAR):
        super().__init__(data.resize(size if isinstance(size, int) else tuple(size), _called(interpolation)))


class CenterCrop(Made):
    """The middle."""

    def __init__(self, size):
        super().__init__(data.center_crop(_sides(size)))


class RandomCrop(Made):
    """A part of this size, of the image with `padding` zeros around it."""

    def __init__(self, size, padding=None, pad_if_needed: bool = False, fill_value=0, padding_mode=None):
        if pad_if_needed or fill_value not in (0, (0, 0, 0)) or padding_mode is not None:
            raise ValueError("RandomCrop: pad_if_needed, fill_value and padding_mode are not in this front end: zeros "
                             "are around the image, as many as `padding` says")
        sides = 0 if padding is None else padding
        around = (sides,) * 4 if isinstance(sides, int) else (tuple(sides) * 2)[:4]
        super().__init__(data.random_crop(_sides(size), around, config.get_seed()))


class RandomResizedCrop(Made):
    """A part of a random share of the image's area and of a random ratio, brought to this size."""

    def __init__(self, size, scale=(0.08, 1.0), ratio=(3.0 / 4, 4.0 / 3), interpolation: Inter = Inter.LINEAR,
                 max_attempts: int = 10):
        if max_attempts != 10:
            raise ValueError("RandomResizedCrop: max_attempts is 10 here")
        super().__init__(data.random_resized_crop(_sides(size), tuple(scale), tuple(ratio), _called(interpolation),
                                                  config.get_seed()))


class RandomCropDecodeResize(Made):
    """The same of the bytes of a file."""

    def __init__(self, size, scale=(0.08, 1.0), ratio=(3.0 / 4, 4.0 / 3), interpolation: Inter = Inter.LINEAR,
                 max_attempts: int = 10):
        super().__init__(data.decode(), *RandomResizedCrop(size, scale, ratio, interpolation, max_attempts).transforms)


class RandomHorizontalFlip(Made):
    """Mirrored with probability `prob`."""

    def __init__(self, prob: float = 0.5):
        super().__init__(data.random_horizontal_flip(prob, config.get_seed()))


class RandomVerticalFlip(Made):
    """Upside down with probability `prob`."""

    def __init__(self, prob: float = 0.5):
        super().__init__(data.random_vertical_flip(prob, config.get_seed()))


class SlicePatches(Made):
    """num_height x num_width equal parts, row by row."""

    def __init__(self, num_height: int = 1, num_width: int = 1):
        super().__init__(data.slice_patches(num_height, num_width))


from .adjustments import *  # noqa: E402, F403

__getattr__ = missing("mindspore.dataset.vision", globals())

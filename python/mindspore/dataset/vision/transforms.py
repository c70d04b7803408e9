"""What is done with images: arrays [height, width, channels], unless they are said to be otherwise."""

from __future__ import annotations

import enum

import numpy

from ..._missing import missing


class Inter(enum.Enum):
    """How pixels between pixels are found."""

    NEAREST = 0
    LINEAR = 2
    BILINEAR = 2


class Rescale:
    """factor x + shift, f32"""

    def __init__(self, rescale: float, shift: float):
        self.rescale, self.shift = numpy.float32(rescale), numpy.float32(shift)

    def __call__(self, image):
        return image.astype(numpy.float32) * self.rescale + self.shift


class Normalize:
    """(x - mean) / std for each channel"""

    def __init__(self, mean, std, is_hwc: bool = True):
        self.mean, self.std = numpy.array(mean, numpy.float32), numpy.array(std, numpy.float32)
        if (self.std <= 0).any() or len(self.mean) != len(self.std):
            raise ValueError(f"Normalize takes a mean and a std above 0 for each channel, not {mean} and {std}")
        self.is_hwc = is_hwc

    def __call__(self, image):
        shape = (-1,) if self.is_hwc else (-1, 1, 1)
        return (image.astype(numpy.float32) - self.mean.reshape(shape)) / self.std.reshape(shape)


class HWC2CHW:
    """Channels become dim 0."""

    def __call__(self, image):
        return image.transpose(2, 0, 1)


class Resize:
    """Bilinear, or to the nearest pixel; of one number the smaller side."""

    def __init__(self, size, interpolation: Inter = Inter.LINEAR):
        self.size, self.interpolation = size, interpolation

    def __call__(self, image):
        height, width = image.shape[:2]
        if isinstance(self.size, int):
            scale = self.size / min(height, width)
            to = (round(height * scale), round(width * scale))
        else:
            to = tuple(self.size)
        rows, columns = (_between(n, m) for n, m in zip((height, width), to))
        if self.interpolation is Inter.NEAREST:
            nearest = [numpy.minimum((numpy.arange(m) * n / m).astype(int), n - 1) for n, m in zip((height, width), to)]
            return image[nearest[0]][:, nearest[1]]
        x = image.astype(numpy.float32)
        x = _mixed(_mixed(x, rows, 0), columns, 1)
        return numpy.clip(numpy.rint(x), 0, 255).astype(numpy.uint8) if image.dtype == numpy.uint8 else x


def _between(n: int, m: int):
    """Of m places among n pixels: the pixels before and behind, and how much of the latter."""
    at = numpy.clip((numpy.arange(m) + 0.5) * n / m - 0.5, 0, n - 1)
    before = at.astype(int)
    return before, numpy.minimum(before + 1, n - 1), (at - before).astype(numpy.float32)


def _mixed(x, places, axis: int):
    before, behind, share = places
    share = share.reshape((-1,) + (1,) * (x.ndim - 1 - axis))
    return numpy.take(x, before, axis) * (1 - share) + numpy.take(x, behind, axis) * share


class RandomCrop:
    """A part of this size, of the image with `padding` zeros around it."""

    def __init__(self, size, padding=None):
        self.size = (size, size) if isinstance(size, int) else tuple(size)
        sides = 0 if padding is None else padding
        left, top, right, bottom = (sides,) * 4 if isinstance(sides, int) else (tuple(sides) * 2)[:4]
        self.padding = ((top, bottom), (left, right), (0, 0))

    def __call__(self, image):
        padded = numpy.pad(image, self.padding)
        top, left = (numpy.random.randint(n - m + 1) for n, m in zip(padded.shape, self.size))
        return padded[top:top + self.size[0], left:left + self.size[1]]


class RandomHorizontalFlip:
    """Mirrored with probability `prob`."""

    def __init__(self, prob: float = 0.5):
        self.prob = prob

    def __call__(self, image):
        return image[:, ::-1] if numpy.random.random() < self.prob else image


class SlicePatches:
    """num_height x num_width equal parts, row by row."""

    def __init__(self, num_height: int = 1, num_width: int = 1):
        self.num_height, self.num_width = num_height, num_width

    def __call__(self, image):
        return tuple(part for row in numpy.split(image, self.num_height, axis=0)
                     for part in numpy.split(row, self.num_width, axis=1))


__getattr__ = missing("mindspore.dataset.vision", globals())

"""What is done with images in numpy: arrays [height, width, channels] of bytes. Data sets run them as functions of Python's."""

from __future__ import annotations

import math

import numpy

from .. import config


def _image(x, who: str) -> numpy.ndarray:
    x = numpy.asarray(x)
    if x.ndim not in (2, 3):
        raise ValueError(f"{who} takes images of 2 or 3 dims, not of shape {x.shape}")
    return x


def _bytes(x: numpy.ndarray, like: numpy.ndarray) -> numpy.ndarray:
    """Rounded and cut off, where the image is bytes."""
    return numpy.clip(numpy.rint(x), 0, 255).astype(numpy.uint8) if like.dtype == numpy.uint8 else x.astype(like.dtype)


def grey_of(x: numpy.ndarray) -> numpy.ndarray:
    """[height, width] of red, green and blue."""
    if x.dtype != numpy.uint8:
        return x @ numpy.array([0.299, 0.587, 0.114], x.dtype)
    return ((x.astype(numpy.int64) @ numpy.array([9798, 19235, 3735]) + (1 << 14)) >> 15).astype(numpy.uint8)


def blended(x: numpy.ndarray, other, factor: float) -> numpy.ndarray:
    return _bytes(other * (1.0 - factor) + x.astype(numpy.float64) * factor, x)


def brighter(x, factor):
    return _bytes(x.astype(numpy.float64) * factor, x)


def contrasted(x, factor):
    return blended(x, float(int(grey_of(x).mean() + 0.5)), factor)


def saturated(x, factor):
    return blended(x, grey_of(x)[..., None].astype(numpy.float64), factor)


def _hsv(x: numpy.ndarray) -> tuple[numpy.ndarray, ...]:
    """Hue in degrees, saturation and value from 0 to 255."""
    red, green, blue = (x[..., i].astype(numpy.float64) for i in range(3))
    top = numpy.maximum(numpy.maximum(red, green), blue)
    spread = top - numpy.minimum(numpy.minimum(red, green), blue)
    safe = numpy.where(spread == 0, 1, spread)
    hue = numpy.where(top == red, (green - blue) / safe, numpy.where(top == green, 2 + (blue - red) / safe, 4 + (red - green) / safe)) * 60
    return numpy.where(spread == 0, 0, hue % 360), numpy.where(top == 0, 0, spread / numpy.where(top == 0, 1, top)) * 255, top


def _rgb(hue, saturation, value) -> numpy.ndarray:
    sector = hue / 60 % 6
    whole = numpy.floor(sector).astype(int)
    part, s = sector - whole, saturation / 255
    p, q, t = value * (1 - s), value * (1 - s * part), value * (1 - s * (1 - part))
    out = [numpy.choose(whole, c) for c in ((value, q, p, p, t, value), (t, value, value, q, p, p), (p, p, t, value, value, q))]
    return numpy.stack(out, -1)


def hued(x, factor):
    """The hue turned by a share of the circle: in bytes, as there, hues are even degrees."""
    hue, saturation, value = _hsv(x)
    hue, saturation = numpy.rint(hue / 2) % 180, numpy.rint(saturation)
    return _bytes(_rgb((hue + int(factor * 180)) % 180 * 2, saturation, value), x)


class _Adjust:
    """By a factor."""

    function = None

    def __init__(self, factor: float):
        low, high = (-0.5, 0.5) if self.function is hued else (0, math.inf)
        if not low <= factor <= high:
            raise ValueError(f"{type(self).__name__} takes a factor from {low} to {high}, not {factor}")
        self.factor = factor

    def __call__(self, image):
        return type(self).function(_image(image, type(self).__name__), self.factor)


def _adjustment(name: str, function) -> type:
    return type(name, (_Adjust,), {"function": staticmethod(function), "__doc__": f"{name} of an image by a factor."})


AdjustBrightness, AdjustContrast, AdjustSaturation, AdjustHue = (
    _adjustment(f"Adjust{what}", f) for what, f in (("Brightness", brighter), ("Contrast", contrasted), ("Saturation", saturated),
                                                   ("Hue", hued)))


class _Drawn:
    """Draws for each image anew, by the seed of data sets."""

    def generator(self) -> numpy.random.Generator:
        if not hasattr(self, "_generator"):
            self._generator = numpy.random.default_rng(config.get_seed())
        return self._generator


def _range(what: str, said, low: float = 0.0, middle: float = 1.0) -> tuple[float, float]:
    first, last = (max(low, middle - said), middle + said) if isinstance(said, (int, float)) else said
    if first > last:
        raise ValueError(f"{what} goes from {first} to {last}, and should rise")
    return float(first), float(last)


class RandomColorAdjust(_Drawn):
    """Brightness, contrast, saturation and hue by factors that are drawn, in an order that is drawn."""

    def __init__(self, brightness=(1, 1), contrast=(1, 1), saturation=(1, 1), hue=(0, 0)):
        self.steps = [(brighter, _range("brightness", brightness)), (contrasted, _range("contrast", contrast)),
                      (saturated, _range("saturation", saturation)), (hued, _range("hue", hue, -0.5, 0.0))]

    def __call__(self, image):
        x = _image(image, "RandomColorAdjust")
        generator = self.generator()
        for k in generator.permutation(len(self.steps)):
            function, (low, high) = self.steps[k]
            if (low, high) not in ((1.0, 1.0), (0.0, 0.0)):
                x = function(x, generator.uniform(low, high))
        return x


class CutOut(_Drawn):
    """Squares of zeros at places that are drawn."""

    def __init__(self, length: int, num_patches: int = 1, is_hwc: bool = True):
        if length < 1 or num_patches < 1 or not is_hwc:
            raise ValueError(f"CutOut takes a length {length} and num_patches {num_patches} above 0, and images [height, width, channels]")
        self.length, self.count = length, num_patches

    def __call__(self, image):
        x = numpy.array(_image(image, "CutOut"))
        height, width = x.shape[:2]
        for _ in range(self.count):
            y, left = self.generator().integers(height), self.generator().integers(width)
            half = self.length // 2
            x[max(y - half, 0):y - half + self.length, max(left - half, 0):left - half + self.length] = 0
        return x


class RandomGrayscale(_Drawn):
    """Grey with a probability."""

    def __init__(self, prob: float = 0.1):
        self.prob = prob

    def __call__(self, image):
        x = _image(image, "RandomGrayscale")
        return numpy.repeat(grey_of(x)[..., None], 3, -1) if self.generator().random() < self.prob else x


class Grayscale:
    """Grey, as one channel or three."""

    def __init__(self, num_output_channels: int = 1):
        self.channels = num_output_channels

    def __call__(self, image):
        return numpy.repeat(grey_of(_image(image, "Grayscale"))[..., None], self.channels, -1)


def _edges(padding) -> tuple[int, int, int, int]:
    """Left, top, right, bottom."""
    sides = (padding,) * 4 if isinstance(padding, int) else tuple(padding)
    return sides * 2 if len(sides) == 2 else sides


class Border:
    """How the edges of images are filled."""

    CONSTANT, EDGE, REFLECT, SYMMETRIC = "constant", "edge", "reflect", "symmetric"


class Pad:
    """Pixels around it: left, top, right, bottom."""

    def __init__(self, padding, fill_value=0, padding_mode=Border.CONSTANT):
        self.sides, self.value, self.mode = _edges(padding), fill_value, padding_mode

    def __call__(self, image):
        x = _image(image, "Pad")
        left, top, right, bottom = self.sides
        around = ((top, bottom), (left, right)) + ((0, 0),) * (x.ndim - 2)
        if self.mode != Border.CONSTANT:
            return numpy.pad(x, around, mode=self.mode)
        out = numpy.empty([n + sum(side) for n, side in zip(x.shape, around)], x.dtype)
        out[...] = self.value
        out[top:top + x.shape[0], left:left + x.shape[1]] = x
        return out


class Crop:
    """A part: from (top, left) on, of a size."""

    def __init__(self, coordinates, size):
        self.top, self.left = coordinates
        self.height, self.width = (size, size) if isinstance(size, int) else size

    def __call__(self, image):
        x = _image(image, "Crop")
        if self.top + self.height > x.shape[0] or self.left + self.width > x.shape[1]:
            raise ValueError(f"Crop of {self.height}x{self.width} from {(self.top, self.left)} is not in an image of {x.shape}")
        return x[self.top:self.top + self.height, self.left:self.left + self.width]


class _Plain:
    """Without settings."""

    function = None

    def __call__(self, image):
        return type(self).function(_image(image, type(self).__name__))


def equalized(x):
    """Each channel's levels spread so that there are as many of each."""
    def table(levels):
        counts = numpy.bincount(levels.reshape(-1), minlength=256)
        first = int(numpy.flatnonzero(counts)[0])
        rest = levels.size - int(counts[first])
        if not rest:
            return numpy.full(256, first)
        sums = numpy.cumsum(counts) - counts[first]
        return numpy.clip(numpy.rint(sums.astype(numpy.float32) * numpy.float32(255 / rest)), 0, 255)

    return numpy.stack([table(x[..., c])[x[..., c]] for c in range(x.shape[-1])], -1).astype(numpy.uint8)


class AutoContrast:
    """Each channel's levels stretched from 0 to 255, without a share of them at both ends (cutoff, in percent)."""

    def __init__(self, cutoff: float = 0.0, ignore=None):
        if ignore is not None:
            raise ValueError("AutoContrast with ignore is not in this front end")
        self.cutoff = cutoff

    def __call__(self, image):
        x = _image(image, "AutoContrast")
        return numpy.stack([self._stretched(x[..., c]) for c in range(x.shape[-1])], -1)

    def _stretched(self, levels):
        flat = numpy.sort(levels.reshape(-1))
        cut = int(len(flat) * self.cutoff / 100)
        low, high = int(flat[cut]), int(flat[-1 - cut])
        if high <= low:
            return levels
        scale = numpy.float32(255.0 / (high - low))
        return numpy.clip(numpy.floor(levels * scale + numpy.float32(-low) * scale), 0, 255).astype(numpy.uint8)


def _same(name: str, function, doc: str) -> type:
    return type(name, (_Plain,), {"function": staticmethod(function), "__doc__": doc})


VerticalFlip = _same("VerticalFlip", lambda x: x[::-1].copy(), "Upside down.")
HorizontalFlip = _same("HorizontalFlip", lambda x: x[:, ::-1].copy(), "Mirrored.")
Invert = _same("Invert", lambda x: 255 - x, "255 - x")
Equalize = _same("Equalize", equalized, "Each channel's levels spread.")
ToPIL = _same("ToPIL", lambda x: x, "The image: here images are arrays.")
ToNumpy = _same("ToNumpy", lambda x: x, "The image: here images are arrays.")


class ConvertMode:
    """Which colours become which."""

    COLOR_RGB2GRAY, COLOR_BGR2GRAY, COLOR_RGB2BGR, COLOR_BGR2RGB, COLOR_GRAY2RGB = "rgb2grey", "bgr2grey", "rgb2bgr", "bgr2rgb", "grey2rgb"


class ConvertColor:
    """From one kind of colours to another."""

    def __init__(self, convert_mode):
        known = {"rgb2grey": grey_of, "bgr2grey": lambda x: grey_of(x[..., ::-1]), "rgb2bgr": lambda x: x[..., ::-1].copy(),
                 "bgr2rgb": lambda x: x[..., ::-1].copy(),
                 "grey2rgb": lambda x: numpy.repeat(x if x.ndim == 3 else x[..., None], 3, -1)}
        if convert_mode not in known:
            raise ValueError(f"ConvertColor by {convert_mode!r} is not in this front end; there are {', '.join(known)}")
        self.function = known[convert_mode]

    def __call__(self, image):
        return self.function(_image(image, "ConvertColor"))


def turned(x: numpy.ndarray, degrees: float, fill_value=0, center=None) -> numpy.ndarray:
    """Turned against the clock, of the same size, to the nearest pixels."""
    height, width = x.shape[:2]
    middle = ((width - 1) / 2, (height - 1) / 2) if center is None else center
    angle = math.radians(degrees)
    rows, columns = numpy.mgrid[0:height, 0:width]
    dx, dy = columns - middle[0], rows - middle[1]
    from_x = numpy.rint(math.cos(angle) * dx - math.sin(angle) * dy + middle[0]).astype(int)
    from_y = numpy.rint(math.sin(angle) * dx + math.cos(angle) * dy + middle[1]).astype(int)
    inside = (from_x >= 0) & (from_x < width) & (from_y >= 0) & (from_y < height)
    out = numpy.empty_like(x)
    out[...] = fill_value
    out[inside] = x[from_y[inside], from_x[inside]]
    return out


class Rotate:
    """Turned by degrees, against the clock, to the nearest pixels."""

    def __init__(self, degrees: float, resample=None, expand: bool = False, center=None, fill_value=0):
        if expand or getattr(resample, "name", "NEAREST") != "NEAREST":
            raise ValueError("Rotate with expand=True or pixels other than the nearest is not in this front end")
        self.degrees, self.center, self.fill_value = degrees, center, fill_value

    def __call__(self, image):
        return turned(_image(image, "Rotate"), self.degrees, self.fill_value, self.center)


class RandomRotation(_Drawn):
    """Turned by degrees that are drawn."""

    def __init__(self, degrees, resample=None, expand: bool = False, center=None, fill_value=0):
        Rotate(0, resample, expand)
        self.low, self.high = (-degrees, degrees) if isinstance(degrees, (int, float)) else degrees
        self.center, self.fill_value = center, fill_value

    def __call__(self, image):
        return turned(_image(image, "RandomRotation"), self.generator().uniform(self.low, self.high), self.fill_value, self.center)


class GaussianBlur:
    """Each pixel a mean of those around it, by a normal distribution."""

    def __init__(self, kernel_size, sigma=None):
        sizes = (kernel_size,) * 2 if isinstance(kernel_size, int) else tuple(kernel_size)
        if any(k < 1 or k % 2 == 0 for k in sizes):
            raise ValueError(f"kernel_size of GaussianBlur is odd, not {kernel_size}")
        sigmas = (sigma,) * 2 if sigma is None or isinstance(sigma, (int, float)) else tuple(sigma)
        self.lines = [self._line(k, k * 0.15 + 0.35 if s in (None, 0) else s) for k, s in zip(sizes, sigmas)]

    @staticmethod
    def _line(size: int, sigma: float) -> numpy.ndarray:
        """Shares in 256ths, the rest of each rounding being the next one's."""
        line = numpy.exp(-((numpy.arange(size) - (size - 1) / 2) ** 2) / (2 * sigma**2))
        line = line / line.sum() * 256
        out, rest = numpy.zeros(size, numpy.int64), 0.0
        for k in range(size // 2):
            out[k] = out[-1 - k] = int(numpy.rint(line[k] + rest))
            rest += line[k] - out[k]
        out[size // 2] = 256 - 2 * out[:size // 2].sum()
        return out

    def __call__(self, image):
        x = _image(image, "GaussianBlur")
        y = x.astype(numpy.int64 if x.dtype == numpy.uint8 else numpy.float64)
        for axis, line in ((1, self.lines[0]), (0, self.lines[1])):
            half = len(line) // 2
            padded = numpy.pad(y, [(half, half) if d == axis else (0, 0) for d in range(y.ndim)], mode="reflect")
            y = sum(share * numpy.take(padded, range(k, k + x.shape[axis]), axis) for k, share in enumerate(line))
        return ((y + (1 << 15)) >> 16).astype(numpy.uint8) if x.dtype == numpy.uint8 else (y / 65536).astype(x.dtype)


__all__ = [n for n, value in globals().items() if isinstance(value, type) and not n.startswith("_")]

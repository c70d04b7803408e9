"""ATen operators and what they are here, by kind; each file fills the table `walk.conversions`."""

from . import elementwise, images, indices, layers, losses, recurrent, reductions, shapes

__all__ = ["elementwise", "images", "indices", "layers", "losses", "recurrent", "reductions", "shapes"]

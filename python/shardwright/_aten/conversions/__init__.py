"""ATen operators and what they are here, by kind; each file fills the table `walk.conversions`."""

from typing import Any, Callable

from ..walk import conversions
from . import elementwise, images, indices, layers, losses, recurrent, reductions, shapes

__all__ = ["conversion_table", "elementwise", "images", "indices", "layers", "losses", "recurrent", "reductions", "shapes"]


def conversion_table() -> dict[str, Callable[..., Any]]:
    """All of them by the name of the ATen operator."""
    return conversions

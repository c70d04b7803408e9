"""Settings of the device's memory."""

from ._missing import missing
from .context import set_context


def set_memory(init_size: str = "2GB", increase_size: str = "2GB", max_size: str = "1024GB",
               optimize_level: str = "O0", **settings) -> None:
    """max_size is what plans may use of a device."""
    set_context(max_device_memory=max_size)


__getattr__ = missing("mindspore.runtime", globals())

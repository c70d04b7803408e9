"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from typing import Iterable


def put(path, parts: Iterable[bytes], is_read_only: bool = False) -> None:
    """Writes beside the place and moves it there at the end: who reads, or writes the same, sees whole files only."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(handle, "wb") as file:
            for part in parts:
                file.write(part)
        os.chmod(beside, stat.S_IRUSR if is_read_only else stat.S_IRUSR | stat.S_IWUSR)
        os.replace(beside, path)
    except BaseException as error:
        os.unlink(beside)
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise

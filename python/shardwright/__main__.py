"""The command: `python3 -m shardwright plan ffn --devices 8` is `shardwright plan ffn --devices 8`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# Beside this module as it was found: in a build's tree the sources are links.
_program = Path(__file__).absolute().parent / "_bin" / "shardwright"


def main() -> None:
    """The program takes this process's place, so that signals and the exit status are its own."""
    if not _program.exists():
        sys.exit(f"shardwright: {_program} is not there; build it (scripts/build.sh), or pip install ./python")
    os.execv(_program, [str(_program), *sys.argv[1:]])


if __name__ == "__main__":
    main()

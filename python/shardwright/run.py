"""Runs a program that is written for MindSpore on virtual devices: python3 -m shardwright.run program.py --devices 8

`import mindspore` finds the front end that ships with us, unless the real one is installed. Options of ours stand
before the program or behind it; everything else behind it is the program's own.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from importlib.machinery import PathFinder
from pathlib import Path


def _parsed() -> tuple[str, int | None, list[str]]:
    parser = argparse.ArgumentParser(prog="python3 -m shardwright.run", description=__doc__.splitlines()[0],
                                     allow_abbrev=False)
    parser.add_argument("--devices", type=int, metavar="N",
                        help="virtual devices (default: as the program's context says)")
    parser.add_argument("--path", action="version", version=str(folder_of_mindspore()),
                        help="print the folder that PYTHONPATH needs where mpirun starts programs, and exit")
    parser.add_argument("program", help="a Python file, with its own arguments behind it")
    known, rest = parser.parse_known_args()
    for word in sys.argv[1:sys.argv.index(known.program)]:
        if word.startswith("-") and word in rest:
            parser.error(f"{word} is unknown; arguments of the program stand behind it")
    if known.devices is not None and known.devices < 1:
        parser.error(f"--devices {known.devices}: there is at least one")
    if not Path(known.program).is_file():
        parser.error(f"there is no file '{known.program}'")
    return known.program, known.devices, rest


def folder_of_mindspore() -> Path:
    """Where our `mindspore` lies: no folder of the path, lest it hide a real one. (`resolve` would lead to the sources.)"""
    return Path(__file__).absolute().parent / "_compat"


def _is_ours(folder: str) -> bool:
    return (Path(folder or ".") / "mindspore" / "_compile.py").exists()


def installed_mindspore() -> str | None:
    """Where another one than ours is."""
    installed = PathFinder.find_spec("mindspore", [p for p in sys.path if not _is_ours(p)])
    return installed.origin if installed else None


def _find_mindspore() -> None:
    """Puts ours, which lies beside this package, behind everything else, so that what is installed is found first."""
    beside = str(folder_of_mindspore())
    ours = [p for p in sys.path if _is_ours(p)] or [beside]
    installed = installed_mindspore()
    sys.path[:] = [p for p in sys.path if p not in ours] + ours
    if installed:
        print(f"shardwright.run: the MindSpore that is installed runs it ({installed})", file=sys.stderr)
    elif not any(_is_ours(p) for p in ours):
        sys.exit(f"shardwright.run: there is no package mindspore in {beside}")


def main() -> None:
    program, devices, arguments = _parsed()
    if devices is not None:
        os.environ["SHARDWRIGHT_DEVICES"] = str(devices)
    sys.argv = [program, *arguments]
    sys.path.insert(0, str(Path(program).resolve().parent))
    _find_mindspore()
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()

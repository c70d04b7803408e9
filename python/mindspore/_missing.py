"""What a module says of a name that it does not have."""

from __future__ import annotations

import difflib
import dis
import sys
from types import ModuleType
from typing import Callable, Iterable


def near(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'a' or 'b'?`, or nothing."""
    known = list(known)
    by_small = {k.lower(): k for k in known}
    found = difflib.get_close_matches(name, known, 3, 0.6)
    found += [by_small[n] for n in difflib.get_close_matches(name.lower(), by_small, 3, 0.6)]
    return "; did you mean " + " or ".join(f"'{n}'" for n in dict.fromkeys(found)) + "?" if found else ""


_of_modules = {"annotations", "missing", "near"}  # what a module has for itself


def _is_from_elsewhere(module: str, name: str, value: object) -> bool:
    return isinstance(value, ModuleType) and value.__name__ != f"{module}.{name}"


def _is_import() -> bool:
    """Whether a name is asked for by `from module import name`, which hides what an AttributeError says."""
    frame = sys._getframe(2)
    while frame.f_code.co_name == "__getattr__":  # of modules that look elsewhere first
        frame = frame.f_back
    return frame.f_code.co_code[frame.f_lasti] == dis.opmap["IMPORT_FROM"]


def public_names(module: str, namespace: dict) -> list[str]:
    """What a module has for programs."""
    return sorted(n for n, value in namespace.items() if not (
        n.startswith("_") or n in _of_modules or _is_from_elsewhere(module, n, value)))


def missing(module: str, namespace: dict) -> Callable[[str], object]:
    """A `__getattr__` for the module whose globals are `namespace`."""
    def __getattr__(name: str):
        known = public_names(module, namespace)
        if name.startswith("__"):
            raise AttributeError(f"module '{module}' has no attribute '{name}'")
        error = ImportError if _is_import() else AttributeError
        raise error(f"'{module}.{name}' is not in this front end{near(name, known)}; there are " + ", ".join(known))

    return __getattr__

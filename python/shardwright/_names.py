"""Names that a module does not have: what is there instead."""

from __future__ import annotations

import difflib
from typing import Any, Callable, Mapping, Sequence


def missing_name(module: str, known: Sequence[str], others: Mapping[str, str]) -> Callable[[str], Any]:
    """A module's `__getattr__`. others: names that other libraries use, and ours for them."""
    lowered = {name.lower(): name for name in known}

    def missing(name: str) -> Any:
        near = difflib.get_close_matches(name.lower(), lowered, n=1)
        meant = others.get(name) or (lowered[near[0]] if near else None)
        raise AttributeError(f"{module} has no '{name}'" + (f"; did you mean {meant}?" if meant else ""))

    return missing

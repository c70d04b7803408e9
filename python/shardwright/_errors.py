"""What is raised where a user's mistake has no class of Python's own."""

from __future__ import annotations


class ShardwrightError(ValueError):
    """One line that names the thing as the user wrote it and says what would be right.

    Where two sides cannot both hold they stand beside it as text: `operator` (None: the whole), `key`, of which there are
    two values ("devices", "stage", a dim), `wanted`, and `given`, which is there.
    """

    operator: str | None = None
    key: str | None = None
    wanted: str | None = None
    given: str | None = None

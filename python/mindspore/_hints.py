"""Hints for another compiler, which have no effect here."""

from __future__ import annotations

from typing import Any, Callable


def lazy_inline(fn: Callable | None = None, attrs=None, policy=None) -> Callable:
    """A decorator with or without arguments: the function as it is."""
    return fn if callable(fn) else lambda function: function


def mutable(input_data: Any, dynamic_len: bool = False) -> Any:
    """The value: a program is made for each kind of arguments."""
    return input_data


class JitConfig:
    """Settings of another compiler."""

    def __init__(self, jit_level: str = "O1", exec_mode: str = "auto", **settings):
        self.jit_config_dict = {"jit_level": jit_level, "exec_mode": exec_mode, **settings}


class Symbol:
    """A size that is not known yet: it is that of each call."""

    def __init__(self, max: int = 0, min: int = 1, divisor: int = 1, remainder: int = 0, unique: bool = False):
        self.divisor, self.remainder = divisor, remainder

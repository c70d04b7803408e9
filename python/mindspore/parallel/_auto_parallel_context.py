"""The context of parallel programs as an object, as programs read it that look behind the functions."""

from __future__ import annotations

from .. import context
from .._missing import near


class _AutoParallelContext:
    """`get_NAME()` and `set_NAME(value)` for each key of `set_auto_parallel_context`."""

    def __getattr__(self, name: str):
        verb, _, key = name.partition("_")
        keys = context.auto_parallel_keys()
        if verb not in ("get", "set") or key not in keys:
            raise AttributeError(f"auto_parallel_context() has get_KEY and set_KEY for keys of set_auto_parallel_context, not "
                                 f"'{name}'{near(key, keys)}")
        if verb == "get":
            return lambda: context.get_auto_parallel_context(key)
        return lambda value: context.set_auto_parallel_context(**{key: value})

    def get_device_num_is_set(self) -> bool:
        return context.device_count() > 1

    def get_parameter_broadcast_is_set(self) -> bool:
        return bool(context.get_auto_parallel_context("parameter_broadcast"))


_context = _AutoParallelContext()


def auto_parallel_context() -> _AutoParallelContext:
    return _context

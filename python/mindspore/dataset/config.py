"""Settings of data sets."""

from __future__ import annotations

from .. import context

_seed: int | None = None
_prefetch_size = 4


def set_seed(seed: int) -> None:
    """Of the order of data sets that are made from now on."""
    global _seed
    _seed = seed


def get_seed() -> int:
    """That, or of mindspore.set_seed, or 1."""
    if _seed is not None:
        return _seed
    return context.get_seed() if context.get_seed() is not None else 1


def set_prefetch_size(size: int) -> None:
    """How many rows (batches, if they are) a thread makes before they are asked for."""
    global _prefetch_size
    if not isinstance(size, int) or size < 1:
        raise ValueError(f"a prefetch size is a whole number above 0, not {size!r}")
    _prefetch_size = size


def get_prefetch_size() -> int:
    return _prefetch_size


_hints = {"num_parallel_workers": 8, "enable_shared_mem": True, "numa_enable": False, "enable_autotune": False, "auto_num_workers": False,
          "auto_offload": False, "callback_timeout": 60, "monitor_sampling_interval": 1000, "autotune_interval": 0,
          "multiprocessing_timeout_interval": 300, "fast_recovery": True, "debug_mode": False, "error_samples_mode": "return",
          "dynamic_shape": False, "enable_watchdog": True}


def _hint(name: str) -> tuple:
    """Two functions: a hint, which has no effect as one thread makes the rows, and what it was said to be."""
    def set_hint(value, *more) -> None:
        _hints[name] = value

    def get_hint():
        return _hints[name]

    return set_hint, get_hint


for _name in list(_hints):
    globals()[f"set_{_name}"], globals()[f"get_{_name}"] = _hint(_name)

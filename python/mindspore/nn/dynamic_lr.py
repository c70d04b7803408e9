"""Learning rates of each step, as lists. An epoch is `step_per_epoch` steps."""

from __future__ import annotations

import math
from typing import Callable

from .._missing import missing


def _check(**settings) -> None:
    """Counts are whole numbers, and all is above 0, but for what a rate ends with. Raises: ValueError, TypeError."""
    for name, value in settings.items():
        is_count = name.endswith(("step", "steps", "epoch"))
        if isinstance(value, bool) or not isinstance(value, int if is_count else (int, float)):
            raise TypeError(f"{name} is a {'whole ' if is_count else ''}number, not {value!r}")
        if value < 0 or (value == 0 and not name.startswith(("min", "end"))):
            raise ValueError(f"{name} is above 0, not {value!r}")


def _of_steps(total_step: int, step_per_epoch: int, rate: Callable[[int], float]) -> list[float]:
    return [rate(i // step_per_epoch) for i in range(total_step)]


def piecewise_constant_lr(milestone, learning_rates) -> list[float]:
    """learning_rates[i] up to step milestone[i]."""
    if len(milestone) != len(learning_rates):
        raise ValueError(f"{len(milestone)} milestones are given with {len(learning_rates)} learning rates")
    rates: list[float] = []
    for end, rate in zip(milestone, learning_rates):
        if not isinstance(end, int) or end < 1 or end < len(rates):
            raise ValueError(f"milestones are growing whole numbers above 0, not {list(milestone)}")
        rates += [float(rate)] * (end - len(rates))
    return rates


def exponential_decay_lr(learning_rate, decay_rate, total_step, step_per_epoch, decay_epoch, is_stair=False):
    """learning_rate decay_rate^(epoch / decay_epoch), with is_stair rounded down there."""
    _check(learning_rate=learning_rate, decay_rate=decay_rate, total_step=total_step, step_per_epoch=step_per_epoch,
           decay_epoch=decay_epoch)
    return _of_steps(total_step, step_per_epoch,
                     lambda epoch: learning_rate * decay_rate ** _share(epoch, decay_epoch, is_stair))


def _share(epoch: int, decay_epoch: int, is_stair: bool) -> float:
    return epoch // decay_epoch if is_stair else epoch / decay_epoch


def natural_exp_decay_lr(learning_rate, decay_rate, total_step, step_per_epoch, decay_epoch, is_stair=False):
    """learning_rate e^(-decay_rate epoch), with is_stair of the last epoch that decay_epoch divides."""
    _check(learning_rate=learning_rate, decay_rate=decay_rate, total_step=total_step, step_per_epoch=step_per_epoch,
           decay_epoch=decay_epoch)

    def rate(epoch: int) -> float:
        return learning_rate * math.exp(-decay_rate * (epoch // decay_epoch * decay_epoch if is_stair else epoch))

    return _of_steps(total_step, step_per_epoch, rate)


def inverse_decay_lr(learning_rate, decay_rate, total_step, step_per_epoch, decay_epoch, is_stair=False):
    """learning_rate / (1 + decay_rate epoch / decay_epoch), with is_stair rounded down there."""
    _check(learning_rate=learning_rate, decay_rate=decay_rate, total_step=total_step, step_per_epoch=step_per_epoch,
           decay_epoch=decay_epoch)
    return _of_steps(total_step, step_per_epoch,
                     lambda epoch: learning_rate / (1 + decay_rate * _share(epoch, decay_epoch, is_stair)))


def cosine_decay_lr(min_lr, max_lr, total_step, step_per_epoch, decay_epoch):
    """From max_lr down to min_lr in decay_epoch epochs, along half a cosine."""
    _check(min_lr=min_lr, max_lr=max_lr, total_step=total_step, step_per_epoch=step_per_epoch, decay_epoch=decay_epoch)
    if min_lr >= max_lr:
        raise ValueError(f"max_lr {max_lr} is above min_lr {min_lr}")
    delta = 0.5 * (max_lr - min_lr)
    return _of_steps(total_step, step_per_epoch, lambda epoch: min_lr + delta * (
        1 + math.cos(math.pi * min(epoch, decay_epoch) / decay_epoch)))


def polynomial_decay_lr(learning_rate, end_learning_rate, total_step, step_per_epoch, decay_epoch, power,
                        update_decay_epoch=False):
    """(learning_rate - end) (1 - epoch / decay_epoch)^power + end; update_decay_epoch: again in each decay_epoch epochs."""
    _check(learning_rate=learning_rate, end_learning_rate=end_learning_rate, total_step=total_step,
           step_per_epoch=step_per_epoch, decay_epoch=decay_epoch, power=power)

    def rate(epoch: int) -> float:
        length = decay_epoch * max(math.ceil(epoch / decay_epoch), 1) if update_decay_epoch else decay_epoch
        rest = 1 - min(epoch, length) / length
        return (learning_rate - end_learning_rate) * rest**power + end_learning_rate

    return _of_steps(total_step, step_per_epoch, rate)


def warmup_lr(learning_rate, total_step, step_per_epoch, warmup_epoch):
    """From 0 up to learning_rate in warmup_epoch epochs."""
    _check(learning_rate=learning_rate, total_step=total_step, step_per_epoch=step_per_epoch, warmup_epoch=warmup_epoch)
    return _of_steps(total_step, step_per_epoch, lambda epoch: learning_rate * min(epoch, warmup_epoch) / warmup_epoch)


__getattr__ = missing("mindspore.nn.dynamic_lr", globals())

"""Learning rates as cells that are called with the number of a step, from 0 on."""

from __future__ import annotations

import math

from .._missing import missing
from ..common import dtype as mstype
from ..ops import functional as F
from ..ops import operations as P
from .cell import Cell
from .dynamic_lr import _check


class LearningRateSchedule(Cell):
    """Subclasses define `construct(global_step)`, which gives a scalar."""

    def construct(self, global_step):
        raise NotImplementedError(f"{type(self).__name__} has no construct")


class _Decay(LearningRateSchedule):
    def __init__(self, learning_rate: float, decay_rate: float, decay_steps: int, is_stair: bool = False):
        super().__init__()
        _check(learning_rate=learning_rate, decay_rate=decay_rate, decay_steps=decay_steps)
        self.learning_rate, self.decay_rate = learning_rate, decay_rate
        self.decay_steps, self.is_stair = decay_steps, is_stair

    def _share(self, global_step):
        share = F.cast(global_step, mstype.float32) / self.decay_steps
        return F.floor(share) if self.is_stair else share


class ExponentialDecayLR(_Decay):
    """learning_rate decay_rate^(step / decay_steps), with is_stair rounded down there."""

    def construct(self, global_step):
        return self.learning_rate * F.exp(self._share(global_step) * math.log(self.decay_rate))


class NaturalExpDecayLR(_Decay):
    """learning_rate e^(-decay_rate step), with is_stair of the last step that decay_steps divides."""

    def construct(self, global_step):
        step = F.cast(global_step, mstype.float32)
        if self.is_stair:
            step = self._share(global_step) * float(self.decay_steps)
        return self.learning_rate * F.exp(step * -self.decay_rate)


class InverseDecayLR(_Decay):
    """learning_rate / (1 + decay_rate step / decay_steps), with is_stair rounded down there."""

    def construct(self, global_step):
        return self.learning_rate / (self._share(global_step) * self.decay_rate + 1.0)


class CosineDecayLR(LearningRateSchedule):
    """From max_lr down to min_lr in decay_steps steps, along half a cosine."""

    def __init__(self, min_lr: float, max_lr: float, decay_steps: int):
        super().__init__()
        _check(min_lr=min_lr, max_lr=max_lr, decay_steps=decay_steps)
        if min_lr >= max_lr:
            raise ValueError(f"max_lr {max_lr} is above min_lr {min_lr}")
        self.min_lr, self.delta, self.decay_steps = min_lr, 0.5 * (max_lr - min_lr), decay_steps

    def construct(self, global_step):
        step = F.minimum(F.cast(global_step, mstype.float32), float(self.decay_steps))
        return self.min_lr + self.delta * (1.0 + P.Cos()(step * (math.pi / self.decay_steps)))


class PolynomialDecayLR(LearningRateSchedule):
    """(learning_rate - end) (1 - step / decay_steps)^power + end; update_decay_steps: again in each decay_steps steps."""

    def __init__(self, learning_rate: float, end_learning_rate: float, decay_steps: int, power: float,
                 update_decay_steps: bool = False):
        super().__init__()
        _check(learning_rate=learning_rate, end_learning_rate=end_learning_rate, decay_steps=decay_steps, power=power)
        self.delta, self.end_learning_rate = learning_rate - end_learning_rate, end_learning_rate
        self.decay_steps, self.power, self.update_decay_steps = decay_steps, power, update_decay_steps

    def construct(self, global_step):
        step, length = F.cast(global_step, mstype.float32), float(self.decay_steps)
        if self.update_decay_steps:
            length = F.maximum(-F.floor(-step / length), 1.0) * length
        rest = 1.0 - F.minimum(step, length) / length
        return self.delta * F.pow(rest, self.power) + self.end_learning_rate


class WarmUpLR(LearningRateSchedule):
    """From 0 up to learning_rate in warmup_steps steps."""

    def __init__(self, learning_rate: float, warmup_steps: int):
        super().__init__()
        _check(learning_rate=learning_rate, warmup_steps=warmup_steps)
        self.learning_rate, self.warmup_steps = learning_rate, warmup_steps

    def construct(self, global_step):
        step = F.minimum(F.cast(global_step, mstype.float32), float(self.warmup_steps))
        return step * (self.learning_rate / self.warmup_steps)


__getattr__ = missing("mindspore.nn.learning_rate_schedule", globals())

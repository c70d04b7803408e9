"""Stochastic gradient descent, with momentum or without."""

from __future__ import annotations

import numpy

from ... import context
from ..._missing import missing
from ...common import dtype as mstype
from ...common.tensor import Tensor
from ...ops import functional as F
from .by_formula import ByFormula
from .optimizer import Optimizer


class SGD(Optimizer):
    """m' = momentum m + g;  w' = w - rate m', with nesterov w - rate (g + momentum m')."""

    state_names = {"momentum": "accum"}

    def __new__(cls, params=(), learning_rate=0.1, momentum=0.0, dampening=0.0, *more, **settings):
        return super().__new__(_DampenedSGD if dampening and momentum and cls is SGD else cls)

    def __init__(self, params, learning_rate=0.1, momentum: float = 0.0, dampening: float = 0.0,
                 weight_decay: float = 0.0, nesterov: bool = False, loss_scale: float = 1.0):
        if momentum < 0 or dampening < 0:
            raise ValueError(f"momentum {momentum} and dampening {dampening} are 0 or more")
        if nesterov and (momentum == 0 or dampening != 0):
            raise ValueError("SGD with nesterov=True needs a momentum above 0 and no dampening")
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        self.momentum, self.nesterov = momentum, nesterov
        self.core_name = "momentum" if momentum else "sgd"
        if not momentum:
            self.state_names = {}

    def scalars(self):
        return {"momentum": Tensor(float(self.momentum), mstype.float32)}

    def state_kinds(self):
        return ["accum", "stat"]

    def derived(self):
        """`stat` is 1 until there is a moment. A rank that has slices leaves it out, as it would be no slice."""
        if context.is_rank_view():
            return self.scalars()
        first = float(self.momentum == 0 or self.global_step == 0)
        kinds = {"stat": first} if self.momentum else {"accum": 0.0, "stat": first}
        return {**self.scalars(), **{f"{kind}.{p.name}": Tensor(numpy.full(tuple(p.shape), value, numpy.float32), p.dtype)
                                     for kind, value in kinds.items() for p in self.parameters}}

    def settings(self):
        return {"momentum": float(self.momentum), "nesterov": self.nesterov} if self.momentum else {}


class _DampenedSGD(SGD, ByFormula):
    """m' = momentum m + (1 - dampening) g, in the first step g;  w' = w - rate m'"""

    starts = {"accum": 0.0}

    def __init__(self, params, learning_rate=0.1, momentum: float = 0.0, dampening: float = 0.0, *more, **settings):
        self.dampening = dampening
        super().__init__(params, learning_rate, momentum, dampening, *more, **settings)

    def formula(self, weight, gradient, rate, decay, states):
        is_first = F.cast(self.step_number() == 1, gradient.dtype)
        moment = gradient * (is_first * self.dampening + (1 - self.dampening)) + states["accum"] * self.momentum
        return weight - rate * moment, {"accum": moment}


__getattr__ = missing("mindspore.nn.optim.sgd", globals())

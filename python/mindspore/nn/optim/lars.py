"""Rates of layers (You et al. 2017), around another optimizer."""

from __future__ import annotations

from typing import Callable

from ..._compile import Unit
from ..._missing import missing
from ..._trace import current
from ...common.tensor import Tensor
from ...ops import functional as F
from ..cell import Cell
from .optimizer import Optimizer, scalar, tell


def _is_layer(parameter) -> bool:
    return "LayerNorm" not in parameter.name and "bias" not in parameter.name


class LARS(Optimizer):
    """Gives another optimizer g' = t (g + weight_decay w), t = coefficient |w| / (|g| + weight_decay |w| + epsilon).

    use_clip: t is at most the rate, and divided by it. The weight decay is the other optimizer's, which has none from here
    on; parameters that lars_filter leaves out get their gradients as they are.
    """

    def __init__(self, optimizer: Optimizer, epsilon: float = 1e-5, coefficient: float = 1e-3, use_clip: bool = False,
                 lars_filter: Callable = _is_layer):
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"LARS takes an optimizer, not {optimizer!r}")
        if epsilon <= 0 or coefficient <= 0:
            raise ValueError(f"epsilon {epsilon} and coefficient {coefficient} of LARS are above 0")
        if any(group.decay is not None for group in optimizer.groups):
            raise ValueError("LARS around an optimizer whose weight_decay is a schedule is not in this front end")
        Cell.__init__(self, auto_prefix=False)
        self.opt, self.epsilon, self.coefficient, self.use_clip = optimizer, epsilon, coefficient, use_clip
        self.groups, self.parameters, self.loss_scale = optimizer.groups, optimizer.parameters, optimizer.loss_scale
        self._is_layer = {id(p): bool(lars_filter(p)) for p in self.parameters}
        self._decays = {id(p): g.weight_decay if g.decays(p) else 0.0 for g in self.groups for p in g.parameters}
        self._rates = [scalar(f"lars.rate{i}") for i in range(len(self.groups))]
        self.store = None  # of states, which the other has
        self._unit_of_gradients = Unit(self._update, is_fed=False)
        optimizer.loss_scale = 1.0
        for group in self.groups:
            group.weight_decay = 0.0

    def _update(self, gradients: tuple) -> bool:
        self._check_count(gradients)
        rates = {id(p): rate for g, rate in zip(self.groups, self._rates) for p in g.parameters}
        unscaled = [self._unscaled(g) for g in gradients]
        done = self.opt._update(tuple(self._scaled(p, g, rates[id(p)]) if self._is_layer[id(p)] else g
                                      for p, g in zip(self.parameters, unscaled)))
        current().updates.append(self)
        return done

    def _scaled(self, parameter, gradient: Tensor, rate) -> Tensor:
        weight, decay = Tensor.of(parameter.data_now()), self._decays[id(parameter)]
        size, norm = (F.sqrt(F.sum(x * x)) for x in (weight, gradient))
        trust = size * self.coefficient / (norm + size * decay + self.epsilon)
        if self.use_clip:
            trust = F.minimum(trust / rate.value(), 1.0)
        return (gradient + weight * decay if decay else gradient) * trust

    # ---- what a program that updates is told ----

    def before_step(self, program) -> None:
        for leaf, rate in zip(self._rates, self.rates_now()):
            tell(leaf, rate)

    def after_step(self) -> None:
        """The other optimizer counts."""

    @property
    def global_step(self) -> int:
        return self.opt.global_step

    # ---- states: there are only the other's, which checkpoints find as a cell in this one ----

    def states(self) -> dict[str, Tensor]:
        return {}

    def load_states(self, values: dict[str, Tensor]) -> list[str]:
        return []


__getattr__ = missing("mindspore.nn.optim.lars", globals())

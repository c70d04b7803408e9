"""Optimizers that are written in operators: programs compute new values and assign them, states among them."""

from __future__ import annotations

from ... import context
from ..._trace import current
from ...common.initializer import initializer
from ...common.parameter import Parameter
from ...common.tensor import Tensor
from ...ops import functional as F
from .optimizer import Optimizer, _numbers, scalar, tell


class ByFormula(Optimizer):
    """Subclasses say in `formula` what becomes of a parameter and its states, which start as `starts` has them."""

    starts: dict[str, float] = {}
    decays_gradients = True  # weight decay is added to gradients; else `formula` does with it what it wants

    def __init__(self, learning_rate, params, weight_decay=0.0, loss_scale: float = 1.0):
        super().__init__(learning_rate, params, weight_decay, loss_scale)
        self.store = None  # there are no states of the core's
        self._states = {id(p): {prefix: _state(f"{prefix}.{p.name}", value, p) for prefix, value in self.starts.items()}
                        for p in self.parameters}
        number = next(_numbers)
        self._rates = [scalar(f"optimizer{number}.rate{i}") for i in range(len(self.groups))]
        self._step = [scalar(f"optimizer{number}.step")]  # in a list, as it is no parameter of the cell

    def formula(self, weight: Tensor, gradient: Tensor, rate: Tensor, decay: Tensor | float | None, states: dict[str, Tensor]):
        """The new weight, and new states by their names. What there is depends on the gradient: it is made behind all
        micro-batches, as gradients are."""
        raise NotImplementedError

    def step_number(self) -> Tensor:
        """Of this step, the first being 1."""
        return self._step[0].value()

    def _update(self, gradients: tuple) -> bool:
        self._check_count(gradients)
        if context.is_auto() and context.get_auto_parallel_context("enable_parallel_optimizer"):
            context.tell(f"mindspore: enable_parallel_optimizer does not split the states of {type(self).__name__}: each "
                         "rank has all of them")
        by_parameter = {id(p): g for p, g in zip(self.parameters, gradients)}
        for group, rate in zip(self.groups, self._rates):
            for p in group.parameters:
                decay = group.weight_decay or None if group.decay is None else group.decay.value()
                self._update_one(p, self._unscaled(by_parameter[id(p)]), rate.value(), decay if group.decays(p) else None)
        current().updates.append(self)
        return True

    def _update_one(self, p: Parameter, gradient: Tensor, rate: Tensor, decay) -> None:
        weight, own = Tensor.of(p.data_now()), self._states[id(p)]
        if self.decays_gradients and decay is not None:
            gradient = gradient + weight * decay
        value, states = self.formula(weight, gradient, rate, decay, {k: s.value() for k, s in own.items()})
        F.assign(p, value)
        for kind, state in states.items():
            F.assign(own[kind], state)

    # ---- what a program that updates is told ----

    def before_step(self, program) -> None:
        self._tell_decays()
        for leaf, rate in zip(self._rates, self.rates_now()):
            tell(leaf, rate)
        tell(self._step[0], self.global_step + 1)

    def after_step(self) -> None:
        self.global_step += 1

    # ---- states, as checkpoints have them ----

    def _named_states(self) -> dict[str, Parameter]:
        return {s.name: s for own in self._states.values() for s in own.values()}

    def state_kinds(self) -> list[str]:
        return list(self.starts)

    def states(self) -> dict[str, Tensor]:
        return {**self._named_states(), **self._settings_states()}

    def load_states(self, values: dict[str, Tensor]) -> list[str]:
        taken = [name for name in self._named_states() if name in values]
        for name in taken:
            self._named_states()[name].set_data(values[name])
        return taken + self._load_settings(values)


def _state(name: str, value: float, of: Parameter) -> Parameter:
    return Parameter(initializer(value, of.shape, of.dtype), name=name, requires_grad=False)

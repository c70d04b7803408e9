"""Optimizers: what is done with gradients. States are the core's, shared by all programs that call one optimizer."""

from __future__ import annotations

import itertools
import math
from typing import Any, Callable, Iterator

import numpy
from shardwright import _core

from ... import context
from ..._compile import Unit
from ..._trace import Tracing, current, outside
from ...common import dtype as mstype
from ...common.parameter import Parameter, ParameterTuple
from ...common.tensor import Tensor
from ..cell import Cell

_steps = "optimizer.step"  # the core's state
_numbers = itertools.count()


class _Group:
    """Parameters with one learning rate (as `_rate_function` has it) and weight decay, a number or a function of the step."""

    def __init__(self, parameters: list[Parameter], rate, weight_decay, decays_all: bool = False):
        self.decays_all = decays_all  # groups that are said decay betas and gammas, too
        self.parameters, self.rate, self.weight_decay = parameters, rate, _decay_function(weight_decay)
        self.decay = scalar(f"optimizer{next(_numbers)}.decay") if callable(self.weight_decay) else None

    def decays(self, p: Parameter) -> bool:
        return self.decays_all or not _without_decay(p)

    def rate_now(self, step: int) -> float:
        return self.rate.item() if isinstance(self.rate, Parameter) else self.rate(step)


def _rate_function(rate) -> Callable[[int], float] | Parameter:
    """Of a number a parameter, which may be set; of a list, tensor or schedule a function of the step."""
    if isinstance(rate, Cell) or (callable(rate) and not isinstance(rate, Tensor)):
        return lambda step: _at_once(rate, step)
    if isinstance(rate, Tensor) and rate.ndim == 0:
        rate = rate.item()
    if isinstance(rate, (int, float)) and not isinstance(rate, bool):
        return Parameter(Tensor(_checked("a learning rate", rate), mstype.float32), name="learning_rate")
    if isinstance(rate, (list, tuple, Tensor)):
        values = [_checked("a learning rate", r) for r in (rate.tolist() if isinstance(rate, Tensor) else rate)]
        return _Rates(values)
    raise TypeError(f"a learning rate is a number, a list, a tensor or a schedule, not {rate!r}")


class _Rates:
    """A rate for each step, the last one for all that follow."""

    def __init__(self, values: list[float]):
        self.values = values

    def __call__(self, step: int) -> float:
        return self.values[min(step, len(self.values) - 1)]


def _checked(what: str, value) -> float:
    """Raises: ValueError of what is below 0, endless or no number."""
    if not 0 <= value < math.inf:
        raise ValueError(f"{what} is 0 or more, not {value}")
    return float(value)


def _decay_function(decay) -> Callable[[int], float] | float:
    if isinstance(decay, Cell):
        return lambda step: _at_once(decay, step)
    if not isinstance(decay, (int, float)) or isinstance(decay, bool):
        raise TypeError(f"weight_decay is a number or a schedule, not {decay!r}")
    return _checked("weight_decay", decay)


def scalar(name: str) -> Parameter:
    """What programs read and are told before each step."""
    return Parameter(Tensor(0.0, mstype.float32), name=name, requires_grad=False)


def tell(leaf: Parameter, value: float) -> None:
    """A scalar of the next step."""
    leaf.data_now().set(_core.Tensor(value, "float32"))


def _at_once(schedule: Callable, step: int) -> float:
    """What a schedule says, computed here whatever is being traced."""
    with outside(), context.eagerly():
        return float(schedule(Tensor(step, mstype.int32)))


def _without_decay(parameter: Parameter) -> bool:
    return "beta" in parameter.name or "gamma" in parameter.name


class _Shown(Parameter):
    """The value of a state now."""

    def __init__(self, value: Tensor, name: str):
        super().__init__(value, name, requires_grad=False)

    def set_data(self, data, slice_shape: bool = False):
        raise ValueError(f"'{self.name}' is a state of an optimizer: load_param_into_net(optimizer, {{'{self.name}': ..}}) sets it")

    assign_value = set_data


class Optimizer(Cell):
    """Calling it with gradients, one for each parameter, updates the parameters."""

    core_name = "sgd"  # of the core's optimizer

    def __init__(self, learning_rate, parameters, weight_decay=0.0, loss_scale: float = 1.0):
        super().__init__(auto_prefix=False)
        parameters = list(parameters)
        if not parameters:
            raise ValueError("an optimizer needs parameters")
        if loss_scale <= 0:
            raise ValueError(f"loss_scale {loss_scale} is above 0")
        self.groups = self._groups_of(parameters, learning_rate, weight_decay)
        self.parameters = ParameterTuple(self._in_order(parameters))
        self.loss_scale = float(loss_scale)
        self.store = _core.Store()
        self.global_step = 0
        self._unit_of_gradients = Unit(self._update, is_fed=False)

    @staticmethod
    def _groups_of(parameters: list, rate, weight_decay: float) -> list[_Group]:
        if not isinstance(parameters[0], dict):
            for p in parameters:
                if not isinstance(p, Parameter):
                    raise TypeError(f"an optimizer takes parameters or dicts of them, not {p!r}")
            return [_Group(parameters, _rate_function(rate), weight_decay)]
        of_all = _rate_function(rate)
        groups, known = [], {"params", "lr", "weight_decay", "order_params", "grad_centralization"}
        for said in parameters:
            if not said.keys() <= known:
                raise KeyError(f"a group of parameters has the keys {', '.join(sorted(known))}, not "
                               + ", ".join(sorted(said.keys() - known)))
            if "params" in said:
                decay = said.get("weight_decay", weight_decay)
                own_rate = _rate_function(said["lr"]) if "lr" in said else of_all
                groups.append(_Group(list(said["params"]), own_rate, decay, decays_all=True))
        return groups

    def _in_order(self, parameters: list) -> list[Parameter]:
        for said in parameters:
            if isinstance(said, dict) and "order_params" in said:
                return list(said["order_params"])
        return [p for group in self.groups for p in group.parameters]

    # ---- states ----

    state_names: dict[str, str] = {}  # of the core's states, as they are called in checkpoints

    def states(self) -> dict[str, Tensor]:
        """As checkpoints have them: `moments.NAME`, global_step, learning_rate."""
        out = {}
        for name, leaf in self.store.items().items():
            parameter, _, kind = name.rpartition(".")
            if kind in self.state_names:
                out[f"{self.state_names[kind]}.{parameter}"] = Tensor.of(leaf)
        return {**out, **self._settings_states()}

    def _settings_states(self) -> dict[str, Tensor]:
        """What every optimizer keeps besides: the rate, if it is a number, and how many steps there were."""
        rates = {name: rate if isinstance(rate, Parameter) else Tensor(rate.values, mstype.float32)
                 for name, rate in self._named_rates().items()}
        return {**rates, "global_step": Tensor([self.global_step], mstype.int32), **self.derived()}

    def _named_rates(self) -> dict[str, Parameter | _Rates]:
        """Those that are numbers or lists: `learning_rate`, or `learning_rate_group_0` and so on where groups have several."""
        rates = [g.rate for g in self.groups]
        is_one = all(rate is rates[0] for rate in rates)
        named = {"learning_rate": rates[0]} if is_one else {f"learning_rate_group_{i}": rate for i, rate in enumerate(rates)}
        return {name: rate for name, rate in named.items() if isinstance(rate, (Parameter, _Rates))}

    def derived(self) -> dict[str, Tensor]:
        """What MindSpore keeps in checkpoints besides and here follows from the settings and the count of steps."""
        return self.scalars()

    def scalars(self) -> dict[str, Tensor]:
        """What it has besides states, as `get_parameters` shows it."""
        return {}

    def state_kinds(self) -> list[str]:
        """What the names of its states begin with."""
        return list(self.state_names.values())

    def get_parameters(self, expand: bool = True) -> Iterator[Parameter]:
        """global_step, learning_rate and other settings, the parameters, and their states, which are zeros before the first step."""
        known = self.states()
        settings = {"global_step": known["global_step"], **({"learning_rate": known["learning_rate"]} if "learning_rate" in known else {})}
        for name, value in {**settings, **self.scalars()}.items():
            yield value if isinstance(value, Parameter) else _Shown(value, name)
        yield from self.parameters
        for kind in self.state_kinds():
            for p in self.parameters:
                name = f"{kind}.{p.name}"
                state = known.get(name)
                if state is None:
                    state = Tensor(numpy.zeros(tuple(p.shape), mstype.dtype_to_nptype(p.dtype)), p.dtype)
                yield state if isinstance(state, Parameter) else _Shown(state, name)

    def load_states(self, values: dict[str, Tensor]) -> list[str]:
        """Takes its own of them; their names."""
        taken = []
        for parameter in self.parameters:
            for kind, shown in self.state_names.items():
                name = f"{shown}.{parameter.name}"
                if name in values:
                    state = f"{parameter.name}.{kind}"
                    self.store[state] = _core.Parameter(values[name].data_now(), state, True)
                    taken.append(name)
        return taken + self._load_settings(values)

    def _load_settings(self, values: dict[str, Tensor]) -> list[str]:
        taken = []
        if "global_step" in values:
            self.global_step = int(values["global_step"].asnumpy().reshape(-1)[0])
            taken.append("global_step")
            if self.store is not None:
                self._set_step()
        for name, rate in self._named_rates().items():
            if name in values:
                if isinstance(rate, Parameter):
                    rate.set_data(Tensor.of(values[name].data_now()).reshape(tuple(rate.shape)))
                else:
                    rate.values = [_checked(name, r) for r in values[name].asnumpy().reshape(-1).tolist()]
                taken.append(name)
        return taken + self._checked_derived(values)

    def _checked_derived(self, values: dict[str, Tensor]) -> list[str]:
        """What follows from settings is not taken: a line says where it is another."""
        known = {name: own for name, own in self.derived().items() if name in values}
        others = [name for name, own in known.items() if own.size != values[name].size
                  or not numpy.allclose(own.asnumpy().reshape(-1), values[name].asnumpy().reshape(-1), 1e-4, 1e-6)]
        if others:
            context.tell(f"mindspore: {', '.join(others)} of the checkpoint follow here from the optimizer's settings and "
                         "global_step, which say something else; theirs are kept")
        return list(known)

    def _set_step(self) -> None:
        """The core counts steps, too, where the first ones are corrected."""
        step, known = _core.Tensor(float(self.global_step), "float32"), self.store.items()
        if _steps in known:
            known[_steps].set(step)
        else:
            self.store[_steps] = _core.Parameter(step, _steps, True)

    def settings(self) -> dict[str, Any]:
        """Of the core's optimizer, but for rate and weight decay."""
        return {}

    @property
    def learning_rate(self):
        rate = self.groups[0].rate
        return rate if isinstance(rate, Parameter) else Tensor(rate(self.global_step), mstype.float32)

    def get_lr(self):
        """Of the next step: of each group, if there are several."""
        rates = tuple(Tensor(r, mstype.float32) for r in self.rates_now())
        return rates[0] if len(rates) == 1 else rates

    def rates_now(self) -> list[float]:
        """Of each group, for the next step."""
        return [g.rate_now(self.global_step) for g in self.groups]

    def construct(self, gradients):
        if current():
            return self._update(tuple(gradients))
        return self._unit_of_gradients(tuple(gradients))

    def __call__(self, gradients):
        return self.construct(gradients)

    def _update(self, gradients: tuple) -> bool:
        self._check_count(gradients)
        by_parameter = {id(p): g for p, g in zip(self.parameters, gradients)}
        tracing = current()
        call = _Update(self, sum(isinstance(update, _Update) for update in tracing.updates))
        for group, name in zip(self.groups, call.rate_names):
            decayed = [p for p in group.parameters if group.weight_decay and group.decays(p)]
            others = [p for p in group.parameters if not (group.weight_decay and group.decays(p))]
            for parameters, decay in ((decayed, 0.0 if group.decay is not None else group.weight_decay), (others, 0.0)):
                if parameters:
                    pairs = [(p.data_now(), self._gradient(p, by_parameter[id(p)], group).array) for p in parameters]
                    tracing.core.update(pairs, self.core_name, {"weight_decay": decay, **self.settings()},
                                        has_set_rate=True, rate_name=name)
        tracing.updates.append(call)
        return True

    def _check_count(self, gradients: tuple) -> None:
        if len(gradients) != len(self.parameters):
            raise ValueError(f"the optimizer has {len(self.parameters)} parameters but is given {len(gradients)} "
                             "gradients")

    def _unscaled(self, gradient: Tensor) -> Tensor:
        return gradient if self.loss_scale == 1 else gradient * (1 / self.loss_scale)

    def _gradient(self, p: Parameter, gradient: Tensor, group: _Group) -> Tensor:
        """As the core's optimizers are given it: with a weight decay that changes, as they take only numbers."""
        gradient = self._unscaled(gradient)
        if group.decay is None or not group.decays(p):
            return gradient
        return gradient + Tensor.of(p.data_now()) * group.decay.value()

    def _tell_decays(self) -> None:
        for group in self.groups:
            if group.decay is not None:
                tell(group.decay, group.weight_decay(self.global_step))


class _Update:
    """A call of an optimizer in a program, which reads a rate for each group at each step. `number`: of such calls."""

    def __init__(self, optimizer: Optimizer, number: int):
        self.optimizer, self.store = optimizer, optimizer.store
        self.rate_names = [f"optimizer.rate.{number}.{i}" for i in range(len(optimizer.groups))]

    def take_states(self, store) -> None:
        """Of those of several optimizers its own, and the count of steps."""
        own = {p.name for p in self.optimizer.parameters}
        for name, leaf in store.items().items():
            if name == _steps or name.rpartition(".")[0] in own:
                self.store[name] = leaf

    def before_step(self, program) -> None:
        self.optimizer._tell_decays()
        for name, group, rate in zip(self.rate_names, self.optimizer.groups, self.optimizer.rates_now()):
            if group.parameters:
                program.set_rate(rate, name)

    def after_step(self) -> None:
        self.optimizer.global_step += 1

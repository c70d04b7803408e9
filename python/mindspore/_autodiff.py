"""Gradients of functions and cells, for inputs and parameters."""

from __future__ import annotations

import os
from typing import Any, Callable, Sequence

from shardwright import _core

from . import _calls, context
from ._compile import Unit
from ._trace import current
from .common.parameter import Parameter
from .common.tensor import Tensor


def _summed(x: Tensor) -> Tensor:
    """The sum of its elements: what is differentiated."""
    if not x.shape:
        return x
    return Tensor.of(_calls.call("reduce_sum", [x.array], dims=list(range(len(x.shape))), keep=False))


def gradients_of(loss: Tensor, of: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Of the sum of the loss's elements, in a trace; zeros for what it does not depend on."""
    tracing = current()
    found = tracing.core.gradients(_summed(loss).array, [t.data_now() for t in of])
    tracing.note_behind([array for array in found if array is not None])
    out = []
    for tensor, array in zip(of, found):
        if array is None:
            array = _calls.call("fill", [], shape=list(tensor.shape), value=0.0,
                                dtype=_core.short_name(tensor.dtype.name))
        gradient = Tensor.of(array)
        gradient.is_gradient = isinstance(tensor, Parameter)
        out.append(gradient)
    return tuple(out)


def _scale_with_aux() -> float:
    """What gradients of functions with auxiliary results are multiplied with."""
    ranks = context.devices_of_stage()
    if not context.is_auto() or ranks == 1:
        return 1
    if os.environ.get("SHARDWRIGHT_GRADIENTS") == "described":
        return float(ranks)
    context.tell(f"mindspore: gradients with has_aux=True are those of the loss; MindSpore's are {ranks} times as "
                 "large on as many ranks: SHARDWRIGHT_GRADIENTS=described does as it does")
    return 1


class GradientFunction:
    """Calls a function; gives its results with gradients, or gradients alone."""

    def __init__(self, function: Callable, position, weights, has_aux: bool, gives_value: bool):
        if position is None and weights is None:
            raise ValueError("grad_position and weights are both None: there is nothing to differentiate by")
        self.function = function
        self.positions = None if position is None else (position,) if isinstance(position, int) else tuple(position)
        self.is_one_position = isinstance(position, int)
        self.is_one_weight = isinstance(weights, Parameter)
        self.weights = None if weights is None else [weights] if self.is_one_weight else list(weights)
        self.has_aux, self.gives_value = has_aux, gives_value
        self._unit = Unit(self._traced, named=getattr(function, "construct", function))

    def __call__(self, *args, **kwargs):
        return self._unit(*args, **kwargs)

    def _traced(self, *args, **kwargs) -> Any:
        result = self.function(*args, **kwargs)
        outputs = result if isinstance(result, tuple) else (result,)
        if self.has_aux and len(outputs) < 2:
            raise ValueError("has_aux=True, but the function has one result: it should return the loss and something "
                             "more")
        loss = outputs[0]
        if not isinstance(loss, Tensor):
            raise TypeError(f"a function whose gradient is taken should return a tensor, not {loss!r}")
        for other in () if self.has_aux else outputs[1:]:
            loss = _summed(loss) + _summed(other)
        gradients = self._of(loss, args)
        if self.gives_value:
            return result, gradients
        return (gradients, outputs[1:]) if self.has_aux else gradients

    def _of(self, loss: Tensor, args: tuple) -> Any:
        inputs = [args[i] for i in self.positions or ()]
        factor = _scale_with_aux() if self.has_aux else 1
        found = gradients_of(loss if factor == 1 else loss * factor, inputs + (self.weights or []))
        of_inputs, of_weights = found[:len(inputs)], found[len(inputs):]
        by_position = of_inputs[0] if self.is_one_position else of_inputs
        by_weight = of_weights[0] if self.is_one_weight else of_weights
        if self.positions is None:
            return by_weight
        return by_position if self.weights is None else (by_position, by_weight)


def value_and_grad(fn: Callable, grad_position=0, weights=None, has_aux: bool = False,
                   return_ids: bool = False) -> GradientFunction:
    """A function that gives `(results, gradients)` of `fn`; with has_aux only result 0 is differentiated."""
    if return_ids:
        raise ValueError("value_and_grad with return_ids=True is not in this front end")
    return GradientFunction(fn, grad_position, weights, has_aux, gives_value=True)


def grad(fn: Callable, grad_position=0, weights=None, has_aux: bool = False,
         return_ids: bool = False) -> GradientFunction:
    """A function that gives gradients of `fn`, and with has_aux its other results."""
    if return_ids:
        raise ValueError("grad with return_ids=True is not in this front end")
    return GradientFunction(fn, grad_position, weights, has_aux, gives_value=False)


class GradOperation:
    """`GradOperation(...)(net[, parameters])(*inputs[, sensitivity])`: the old form of `grad`.

    By the first input; get_all: by all; get_by_list: by parameters. sens_param: the last argument is what the result
    is multiplied with before its elements are added up.
    """

    def __init__(self, get_all: bool = False, get_by_list: bool = False, sens_param: bool = False):
        for name, value in (("get_all", get_all), ("get_by_list", get_by_list), ("sens_param", sens_param)):
            if not isinstance(value, bool):
                raise TypeError(f"{name} is True or False, not {value!r}")
        self.get_all, self.get_by_list, self.sens_param = get_all, get_by_list, sens_param

    def __call__(self, fn: Callable, weights=None) -> Callable:
        if self.get_by_list and weights is None:
            weights = fn.trainable_params()

        def gradients(*args):
            inputs, sens = (args[:-1], args[-1]) if self.sens_param else (args, None)

            def loss(*x):
                return fn(*x[:len(inputs)]) if sens is None else fn(*x[:len(inputs)]) * x[-1]

            position = tuple(range(len(inputs))) if self.get_all else None if self.get_by_list else 0
            return GradientFunction(loss, position, weights if self.get_by_list else None, False, False)._traced(*args)

        return Unit(gradients)

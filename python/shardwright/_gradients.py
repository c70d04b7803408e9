"""Gradients of functions of tensors."""

from __future__ import annotations

import operator
from typing import Any, Callable, Sequence

from . import _core, _tree, ops
from ._core import Tensor
from .step import Jitted, jit

__all__ = ["grad", "value_and_grad"]


def value_and_grad(fn: Callable, argnums: int | Sequence[int] = 0, *, has_aux: bool = False, devices: int | None = None,
                   precision: str = "f32", **options: Any) -> Jitted:
    """A function of the same arguments that returns `(fn(...), gradients)`: a program, as `jit` makes one.

    fn: returns a scalar, or with has_aux `(scalar, anything)`. argnums: by which arguments, trees of arrays of which
    the gradients have the form; one number, or several for a tuple. Keyword arguments are passed on and have none: arrays
    as inputs, all else as it is. options: as those of `jit`.

    >>> import numpy as np, shardwright as sw
    >>> value, gradient = sw.value_and_grad(lambda w: sw.ops.sum(w * w))(np.array([1.0, 2.0], np.float32))
    >>> value.item(), gradient.numpy().tolist()
    (5.0, [2.0, 4.0])

    Raises: ValueError if fn returns no scalar, or there is no such argument.
    """
    is_one = hasattr(argnums, "__index__")
    positions = [operator.index(argnums)] if is_one else list(argnums)  # type: ignore[arg-type]
    name = getattr(fn, "__name__", "a function")

    def with_gradients(*arguments: Any, **keywords: Any) -> Any:
        for i in positions:
            if not -len(arguments) <= i < len(arguments):
                raise ValueError(f"argnums {i}: {name} was called with {len(arguments)} arguments"
                                 f"{' by place, of which alone there are gradients' if keywords else ''}")
        result = fn(*arguments, **keywords)
        loss = result[0] if has_aux else result
        if not isinstance(loss, Tensor) or loss.size != 1:
            raise ValueError(f"{name} should return a scalar to be differentiated, not {loss!r}")
        found = tuple(_gradients_of(loss, arguments[i]) for i in positions)
        return result, found[0] if is_one else found

    with_gradients.__name__, with_gradients.__doc__ = name, fn.__doc__
    return jit(with_gradients, devices=devices, precision=precision, **options)


def grad(fn: Callable, argnums: int | Sequence[int] = 0, *, has_aux: bool = False, devices: int | None = None,
         precision: str = "f32", **options: Any) -> Callable:
    """As `value_and_grad`, but it returns the gradients alone, or with has_aux `(gradients, anything)`.

    >>> import numpy as np, shardwright as sw
    >>> sw.grad(lambda w: sw.ops.sum(w * w))(np.array([1.0, 2.0], np.float32)).numpy().tolist()
    [2.0, 4.0]
    """
    both = value_and_grad(fn, argnums, has_aux=has_aux, devices=devices, precision=precision, **options)

    def gradients(*arguments: Any, **keywords: Any) -> Any:
        value, found = both(*arguments, **keywords)
        return (found, value[1]) if has_aux else found

    gradients.__name__, gradients.__doc__ = both.__name__, fn.__doc__
    return gradients


def _gradients_of(loss: Tensor, argument: Any) -> Any:
    """Zeros for what the loss does not depend on."""
    leaves = [leaf for _, leaf in _tree.leaves(argument)]
    trace = _core.tracing()
    assert trace is not None
    scalar = ops.reshape(loss, []) if loss.ndim else loss
    found = iter(trace.gradients(scalar, leaves))

    def of(_: str, leaf: Any) -> Tensor:
        gradient = next(found)
        return ops.call("fill", shape=list(leaf.shape), value=0.0, dtype=_core.short_name(leaf.dtype)) \
            if gradient is None else gradient

    return _tree.map_leaves(of, argument)

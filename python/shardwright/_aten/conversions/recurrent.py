"""Recurrent layers, step by step: the graph grows with the length."""

from __future__ import annotations

from typing import Any, Callable, Sequence

from ... import _core, ops
from ..._core import Tensor
from ..walk import At, Value, conversion
from .shapes import joined, select, swapped

_longest = 256  # steps; planning takes time for each


def _lstm_step(gates: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    size = gates.shape[-1] // 4
    i, f, g, o = ops.split(gates, [size] * 4, -1)
    cell = ops.sigmoid(f) * state[1] + ops.sigmoid(i) * ops.tanh(g)
    return ops.sigmoid(o) * ops.tanh(cell), cell


def _layer(at: At, steps: list[Tensor], state: tuple[Tensor, ...], weights: Sequence[Tensor], is_backward: bool,
           step: Callable[..., tuple[Tensor, ...]]) -> tuple[list[Tensor], tuple[Tensor, ...]]:
    """weights: of the input, of the state, and their biases, if there are."""
    out = []
    for x in reversed(steps) if is_backward else steps:
        state = step(x, state, weights)
        out.append(state[0])
    return (out[::-1] if is_backward else out), state


def _product(at: At, x: Tensor, weights: Sequence[Tensor], which: int) -> Tensor:
    y = at.call("matmul", x, weights[which], transpose_b=True)
    return y if len(weights) == 2 else at.call("add", y, weights[2 + which])


def _unrolled(at: At, input: Tensor, hx: Sequence[Value], params: Sequence[Tensor], has_biases: bool, num_layers: int,
              dropout: float, train: bool, bidirectional: bool, batch_first: bool, step: Callable) -> tuple[Tensor, list[Tensor]]:
    x = input if not batch_first else swapped(at, input, 0, 1)  # [steps, batch, features]
    if x.shape[0] > _longest:
        raise at.refuse(f"of {x.shape[0]} steps would be as many copies of its layer: at most {_longest} are unrolled")
    directions, count = 2 if bidirectional else 1, 4 if has_biases else 2
    states = [[at.tensor(h, like=x) for h in hx]] if hx else []
    ends: list[list[Tensor]] = [[] for _ in hx]
    for layer in range(num_layers):
        outs = []
        for direction in range(directions):
            k = layer * directions + direction
            weights = params[k * count:(k + 1) * count]
            start = tuple(select(at, h, 0, k) for h in states[0])
            # All steps' products with the input are one.
            products = _product(at, x, weights, 0)
            steps = [select(at, products, 0, t) for t in range(x.shape[0])]
            out, last = _layer(at, steps, start, weights, direction == 1, step)
            outs.append(ops.stack(out, 0))
            for kept, end in zip(ends, last):
                kept.append(end)
        x = outs[0] if directions == 1 else joined(at, outs, -1)
        if train and dropout and layer + 1 < num_layers:
            x = _core.dropout(x, float(dropout), f"{at.name}.{layer}", 0)
    y = x if not batch_first else swapped(at, x, 0, 1)
    return y, [ops.stack(kept, 0) for kept in ends]


@conversion("lstm.input")
def lstm(at: At, input: Tensor, hx: Sequence[Value], params: Sequence[Tensor], has_biases: bool, num_layers: int,
         dropout: float, train: bool, bidirectional: bool, batch_first: bool) -> Any:
    def step(x: Tensor, state: tuple[Tensor, ...], weights: Sequence[Tensor]) -> tuple[Tensor, ...]:
        return _lstm_step(at.call("add", x, _product(at, state[0], weights, 1)), state)

    y, ends = _unrolled(at, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first, step)
    return y, ends[0], ends[1]


@conversion("gru.input")
def gru(at: At, input: Tensor, hx: Value, params: Sequence[Tensor], has_biases: bool, num_layers: int, dropout: float,
        train: bool, bidirectional: bool, batch_first: bool) -> Any:
    def step(x: Tensor, state: tuple[Tensor, ...], weights: Sequence[Tensor]) -> tuple[Tensor, ...]:
        size = x.shape[-1] // 3
        (xr, xz, xn), (hr, hz, hn) = (ops.split(v, [size] * 3, -1) for v in (x, _product(at, state[0], weights, 1)))
        r, z = ops.sigmoid(xr + hr), ops.sigmoid(xz + hz)
        new = ops.tanh(xn + r * hn)
        return (new + z * (state[0] - new),)

    y, ends = _unrolled(at, input, [hx], params, has_biases, num_layers, dropout, train, bidirectional, batch_first, step)
    return y, ends[0]


@conversion("rnn_tanh.input", "rnn_relu.input")
def rnn(at: At, input: Tensor, hx: Value, params: Sequence[Tensor], has_biases: bool, num_layers: int, dropout: float,
        train: bool, bidirectional: bool, batch_first: bool) -> Any:
    def step(x: Tensor, state: tuple[Tensor, ...], weights: Sequence[Tensor]) -> tuple[Tensor, ...]:
        total = at.call("add", x, _product(at, state[0], weights, 1))
        return (ops.tanh(total) if "tanh" in at.node.op else ops.relu(total),)

    y, ends = _unrolled(at, input, [hx], params, has_biases, num_layers, dropout, train, bidirectional, batch_first, step)
    return y, ends[0]


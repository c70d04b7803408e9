"""Recurrent layers and their cells, step by step: programs grow with the number of steps."""

from __future__ import annotations

import math

from ..common import dtype as mstype
from ..common.initializer import Uniform, initializer
from ..common.parameter import Parameter
from ..ops import functional as F
from ..ops import operations as P
from .cell import Cell
from .layers import Dropout


def _product(x, weight, bias):
    y = P.MatMul(transpose_b=True)(x, weight)
    return y if bias is None else y + bias


def _rnn(activation):
    return lambda inputs, of_state, state: (activation(inputs + of_state),)


def _lstm(inputs, of_state, state):
    i, f, g, o = P.Split(-1, 4)(inputs + of_state)
    cell = P.Sigmoid()(f) * state[1] + P.Sigmoid()(i) * P.Tanh()(g)
    return P.Sigmoid()(o) * P.Tanh()(cell), cell


def _gru(inputs, of_state, state):
    (xr, xz, xn), (hr, hz, hn) = (P.Split(-1, 3)(t) for t in (inputs, of_state))
    reset, update = P.Sigmoid()(xr + hr), P.Sigmoid()(xz + hz)
    new = P.Tanh()(xn + reset * hn)
    return (new + update * (state[0] - new),)


# By kind: how many products there are of a state's size, and what a step makes of them.
_kinds = {"RNN_TANH": (1, _rnn(F.tanh)), "RNN_RELU": (1, _rnn(F.relu)), "LSTM": (4, _lstm), "GRU": (3, _gru)}


def _parameter(name: str, shape, hidden_size: int, dtype) -> Parameter:
    return Parameter(initializer(Uniform(1 / math.sqrt(hidden_size)), shape, dtype), name=name)


class _StepCell(Cell):
    """One step: of an input and a state the next state."""

    kind = ""

    def __init__(self, input_size: int, hidden_size: int, has_bias: bool = True, dtype=mstype.float32):
        super().__init__()
        count, self._step = _kinds[self.kind]
        self.input_size, self.hidden_size, self.has_bias = input_size, hidden_size, has_bias
        self.weight_ih = _parameter("weight_ih", [count * hidden_size, input_size], hidden_size, dtype)
        self.weight_hh = _parameter("weight_hh", [count * hidden_size, hidden_size], hidden_size, dtype)
        self.bias_ih = _parameter("bias_ih", [count * hidden_size], hidden_size, dtype) if has_bias else None
        self.bias_hh = _parameter("bias_hh", [count * hidden_size], hidden_size, dtype) if has_bias else None

    def construct(self, x, hx):
        state = hx if isinstance(hx, tuple) else (hx,)
        new = self._step(_product(x, self.weight_ih, self.bias_ih), _product(state[0], self.weight_hh, self.bias_hh), state)
        return new if len(new) > 1 else new[0]


class RNNCell(_StepCell):
    """tanh (relu) of the input's product and the state's."""

    def __init__(self, input_size: int, hidden_size: int, has_bias: bool = True, nonlinearity: str = "tanh", dtype=mstype.float32):
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"nonlinearity of an RNNCell is tanh or relu, not {nonlinearity!r}")
        self.kind = f"RNN_{nonlinearity.upper()}"
        super().__init__(input_size, hidden_size, has_bias, dtype)


class LSTMCell(_StepCell):
    """Of an input and (h, c) the next (h, c)."""

    kind = "LSTM"


class GRUCell(_StepCell):
    """A gated step."""

    kind = "GRU"


class _Layers(Cell):
    """All steps, of one layer or several, in one direction or both."""

    def __init__(self, kind: str, input_size, hidden_size, num_layers=1, has_bias=True, batch_first=False, dropout=0.0,
                 bidirectional=False, dtype=mstype.float32):
        super().__init__()
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout of a {type(self).__name__} is from 0 to below 1, not {dropout}")
        count, self._step = _kinds[kind]
        self.input_size, self.hidden_size, self.num_layers, self.has_bias = input_size, hidden_size, num_layers, has_bias
        self.batch_first, self.bidirectional, self.is_lstm = batch_first, bidirectional, kind == "LSTM"
        self.dropout = Dropout(p=float(dropout))
        for layer in range(num_layers):
            size = input_size if layer == 0 else hidden_size * (1 + bidirectional)
            for suffix in self._suffixes(layer):
                shapes = {"weight_ih": [count * hidden_size, size], "weight_hh": [count * hidden_size, hidden_size]}
                if has_bias:
                    shapes |= {"bias_ih": [count * hidden_size], "bias_hh": [count * hidden_size]}
                for name, shape in shapes.items():
                    setattr(self, name + suffix, _parameter(name + suffix, shape, hidden_size, dtype))

    def _suffixes(self, layer: int) -> list[str]:
        return [f"_l{layer}"] + ([f"_l{layer}_reverse"] if self.bidirectional else [])

    def _of(self, name: str, suffix: str):
        return getattr(self, name + suffix) if self.has_bias or name.startswith("weight") else None

    def construct(self, x, hx=None, seq_length=None):
        x = F.swapaxes(x, 0, 1) if self.batch_first else x
        directions = 1 + self.bidirectional
        if hx is None:
            zeros = F.zeros((self.num_layers * directions, x.shape[1], self.hidden_size), x.dtype)
            hx = (zeros, zeros) if self.is_lstm else zeros
        starts = [F.unstack(h, 0) for h in (hx if self.is_lstm else (hx,))]
        ends = []
        for layer in range(self.num_layers):
            outs = []
            for direction, suffix in enumerate(self._suffixes(layer)):
                state = tuple(s[layer * directions + direction] for s in starts)
                out, end = self._run_steps(x, state, suffix, direction == 1, seq_length)
                outs.append(out)
                ends.append(end)
            x = F.concat(outs, -1) if len(outs) > 1 else outs[0]
            if layer + 1 < self.num_layers:
                x = self.dropout(x)
        states = tuple(F.stack(list(kind), 0) for kind in zip(*ends))
        return F.swapaxes(x, 0, 1) if self.batch_first else x, states if self.is_lstm else states[0]

    def _run_steps(self, x, state, suffix: str, is_backward: bool, seq_length):
        """One layer in one direction; behind an item's length its state stays and its output is zero."""
        steps, batch, _ = x.shape
        flat = F.reshape(x, (steps * batch, x.shape[2]))
        products = F.reshape(_product(flat, self._of("weight_ih", suffix), self._of("bias_ih", suffix)), (steps, batch, -1))
        inputs = F.unstack(products, 0)
        lengths = None if seq_length is None else F.expand_dims(F.cast(seq_length, mstype.int32), 1)
        out = [None] * steps
        for t in range(steps - 1, -1, -1) if is_backward else range(steps):
            new = self._step(inputs[t], _product(state[0], self._of("weight_hh", suffix), self._of("bias_hh", suffix)), state)
            if lengths is None:
                out[t], state = new[0], new
                continue
            is_inside = F.broadcast_to(lengths > t, tuple(new[0].shape))
            out[t] = F.where(is_inside, new[0], F.zeros_like(new[0]))
            state = tuple(F.where(is_inside, a, b) for a, b in zip(new, state))
        return F.stack(out, 0), state


class RNN(_Layers):
    """Layers of RNNCell."""

    def __init__(self, input_size, hidden_size, num_layers=1, nonlinearity="tanh", **settings):
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"nonlinearity of an RNN is tanh or relu, not {nonlinearity!r}")
        super().__init__(f"RNN_{nonlinearity.upper()}", input_size, hidden_size, num_layers, **settings)


class LSTM(_Layers):
    """Layers of LSTMCell: (output, (h, c))."""

    def __init__(self, *args, **settings):
        super().__init__("LSTM", *args, **settings)


class GRU(_Layers):
    """Layers of GRUCell."""

    def __init__(self, *args, **settings):
        super().__init__("GRU", *args, **settings)

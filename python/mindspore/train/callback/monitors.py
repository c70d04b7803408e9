"""Callbacks that print."""

from __future__ import annotations

import math
import time

from ...common.tensor import Tensor
from .base import Callback


def loss_of(outputs) -> float | None:
    """The mean of the first of what a step returns."""
    first = outputs[0] if isinstance(outputs, (tuple, list)) and outputs else outputs
    return float(first.asnumpy().mean()) if isinstance(first, Tensor) else None


class LossMonitor(Callback):
    """Prints the loss, at most each `per_print_times` steps."""

    def __init__(self, per_print_times: int = 1):
        if not isinstance(per_print_times, int) or per_print_times < 0:
            raise ValueError(f"per_print_times is 0 or more, not {per_print_times!r}")
        self._every = per_print_times
        self._last = 0

    def on_train_begin(self, run_context):
        self._last = 0

    def step_end(self, run_context):
        args = run_context.original_args()
        loss = loss_of(args.net_outputs)
        if loss is None:
            return
        step = (args.cur_step_num - 1) % args.batch_num + 1
        if math.isnan(loss) or math.isinf(loss):
            raise ValueError(f"epoch: {args.cur_epoch_num} step: {step}. Invalid loss, terminating training.")
        if self._every and args.cur_step_num - self._last >= self._every:
            self._last = args.cur_step_num
            print(f"epoch: {args.cur_epoch_num} step: {step}, loss is {loss}", flush=True)

    def on_train_epoch_end(self, run_context):
        """Where `Model.fit` has evaluated behind the epoch, what that found."""
        self.epoch_end(run_context)
        args = run_context.original_args()
        if args.metrics:
            print(f"Eval result: epoch {args.cur_epoch_num}, metrics: {args.metrics}", flush=True)

    def on_eval_step_end(self, run_context):
        """Evaluation has no loss of its own."""


class TimeMonitor(Callback):
    """Prints how long each epoch has taken."""

    def __init__(self, data_size: int | None = None):
        self._steps = data_size
        self._start = 0.0

    def epoch_begin(self, run_context):
        self._start = time.perf_counter()

    def epoch_end(self, run_context):
        args = run_context.original_args()
        milliseconds = (time.perf_counter() - self._start) * 1000
        steps = self._steps or args.batch_num or 1
        print(f"{(args.mode or 'train').title()} epoch time: {milliseconds:5.3f} ms, "
              f"per step time: {milliseconds / steps:5.3f} ms", flush=True)

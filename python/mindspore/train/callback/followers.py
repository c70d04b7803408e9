"""Callbacks that follow a training: change its rate, end it, keep or write what it shows."""

from __future__ import annotations

import os
from typing import Callable

from shardwright import _core

from ...common import dtype as mstype
from ...common.tensor import Tensor
from .base import Callback
from .monitors import loss_of


class LearningRateScheduler(Callback):
    """Behind each step the rate is what a function of the rate and the step's number says."""

    def __init__(self, learning_rate_function: Callable[[float, int], float]):
        if not callable(learning_rate_function):
            raise TypeError(f"LearningRateScheduler takes a function of rate and step, not {learning_rate_function!r}")
        self.learning_rate_function = learning_rate_function

    def on_train_step_end(self, run_context):
        args = run_context.original_args()
        rate = args.optimizer.learning_rate
        args.optimizer.learning_rate.set_data(Tensor(self.learning_rate_function(float(rate.item()), args.cur_step_num), mstype.float32))


class LambdaCallback(Callback):
    """Each hook is a function that is given."""

    hooks = tuple(f"on_{what}_{when}" for what in ("train_epoch", "train_step", "train", "eval_epoch", "eval_step", "eval")
                  for when in ("begin", "end"))

    def __init__(self, **functions):
        for name, function in functions.items():
            if name not in self.hooks:
                raise ValueError(f"LambdaCallback has no '{name}'; there are {', '.join(self.hooks)}")
            setattr(self, name, function or (lambda run_context: None))


class History(Callback):
    """`epoch`: number and loss of each epoch."""

    def __init__(self):
        self.history: dict[str, list] = {}

    def on_train_begin(self, run_context):
        self.epoch: dict[str, list] = {"epoch": []}

    def on_train_epoch_end(self, run_context):
        args = run_context.original_args()
        self.epoch["epoch"].append(args.cur_epoch_num)
        found = {"net_output": loss_of(args.net_outputs), **(args.eval_results or {})}
        for name, value in found.items():
            self.history.setdefault(name, []).append(value)
        args.train_network.history = self


class EarlyStopping(Callback):
    """Ends a `Model.fit` whose metric was no better for `patience` evaluations."""

    def __init__(self, monitor: str = "eval_loss", min_delta: float = 0, patience: int = 0, verbose: bool = False, mode: str = "auto",
                 baseline: float | None = None, restore_best_weights: bool = False):
        if mode not in ("auto", "min", "max"):
            raise ValueError(f"mode of EarlyStopping is auto, min or max, not {mode!r}")
        if restore_best_weights:
            raise ValueError("EarlyStopping with restore_best_weights=True is not in this front end: ModelCheckpoint keeps weights")
        self.monitor, self.min_delta, self.patience, self.verbose, self.baseline = monitor, abs(min_delta), patience, verbose, baseline
        self.sign = 1 if mode == "max" or (mode == "auto" and "acc" in monitor) else -1

    def on_train_begin(self, run_context):
        self.best, self.waited = None if self.baseline is None else self.baseline, 0

    def on_train_epoch_end(self, run_context):
        args = run_context.original_args()
        found = {f"eval_{name}": value for name, value in (args.eval_results or {}).items()}
        found["loss"] = loss_of(args.net_outputs)
        if self.monitor not in found:
            raise ValueError(f"EarlyStopping: there is no '{self.monitor}'; there are {', '.join(found)}")
        value = found[self.monitor]
        if self.best is None or self.sign * (value - self.best) > self.min_delta:
            self.best, self.waited = value, 0
            return
        self.waited += 1
        if self.waited >= self.patience:
            if self.verbose:
                print(f"epoch {args.cur_epoch_num}: early stopping", flush=True)
            run_context.request_stop()


class SummaryCollector(Callback):
    """Writes the loss of steps as TensorBoard reads it, every `collect_freq` steps; what else is asked for is told."""

    def __init__(self, summary_dir: str, collect_freq: int = 10, num_process: int = 32, collect_specified_data=None,
                 keep_default_action: bool = True, custom_lineage_data=None, collect_tensor_freq=None, max_file_size=None,
                 export_options=None):
        from ... import context
        if collect_freq < 1:
            raise ValueError(f"collect_freq of SummaryCollector is 1 or more, not {collect_freq}")
        if any((collect_specified_data, custom_lineage_data, collect_tensor_freq, export_options)):
            context.tell("mindspore: SummaryCollector writes the loss of steps alone")
        os.makedirs(summary_dir, exist_ok=True)
        self.collect_freq = collect_freq
        self._file = _core.EventFile(summary_dir)

    def on_train_step_end(self, run_context):
        args = run_context.original_args()
        loss = loss_of(args.net_outputs)
        if loss is not None and (args.cur_step_num == 1 or args.cur_step_num % self.collect_freq == 0):
            self._file.write(args.cur_step_num, {"loss": loss})

    def __exit__(self, *error): ...

"""Training in one call: the loop that `shardwright train` runs, for steps of one's own.

    ended = sw.fit(step, data, steps=500, lr_schedule="cosine", save="run", save_every=100, resume="auto",
                   on_event=lambda event: print(event) if event["kind"] == "step" else None)
"""

from __future__ import annotations

import signal
import threading
from dataclasses import dataclass, field
from typing import Any, Callable, Iterator, Sequence

from . import _core
from .data import Buckets, Data
from .step import ModelStep, TrainStep

__all__ = ["Fitted", "fit"]


@dataclass
class Fitted:
    """What a run has come to."""

    by: str = "steps"
    """How it ended: `steps`, `none_left` (all had been done before), `time_limit`, or `request` of `on_event`."""
    first: int = 0
    """The step that ran first here."""
    steps: int = 0
    """Done, with those before."""
    losses: list[float] = field(default_factory=list)
    """Of each step that ran here, before its update."""
    evaluated: list[dict[str, Any]] = field(default_factory=list)
    """Events of held-out data."""


def fit(step: TrainStep | ModelStep, data: Data | Buckets | Sequence[Any] | Callable[[int], Any], *, steps: int = 20,
        lr_schedule: str = "constant", warmup: str = "", save: str | None = None, save_every: int = 0, keep: int = 0,
        resume: str | None = None, init: str | None = None, evaluate: Callable[[int], Any] | None = None,
        eval_every: int = 0, keep_best: str = "", tensorboard: str = "", time_limit: float = 0.0,
        on_event: Callable[[dict[str, Any]], Any] | None = None) -> Fitted:
    """Trains `step` until `steps` have been done, with those that it, or the checkpoint of `resume`, has behind it.

    data: batched `sw.data`, a sequence of batches, or a function that gives the batch of a step by its number. A batch is
    what the step takes: an array, a tuple of them, or a dict by names; all of one shape. `sw.data.Buckets` have several lengths.
    lr_schedule, warmup: as `RateSchedule`'s, from the step's rate on. save, save_every, keep, resume, init: as the command's flags;
    `resume="auto"` goes on from what `save` has. evaluate: called with the count of steps at the end and behind each
    `eval_every`; returns a loss, or a dict of loss and accuracy; keep_best="loss" saves what is best as `save/best`.
    tensorboard: a folder for event files. time_limit: seconds.
    on_event: gets every event as a dict with its `kind`; when it returns True the run ends behind this step, saved.
    Ctrl-C lets the step end, saves, and is raised then.
    Raises: ShardwrightError if options contradict each other or do not fit; what a step, `data`, `evaluate` or `on_event` raise.
    """
    if not isinstance(step, (TrainStep, ModelStep)):
        raise TypeError(f"fit trains what train_step or model_step returns, not {step!r}")
    batches = _Batches(step, data)
    out = Fitted()

    def heard(event: dict[str, Any]) -> bool:
        kind = event["kind"]
        if kind == "began":
            step.steps_done = out.first = out.steps = event["first"]
        elif kind == "step":
            step.steps_done = out.steps = event["step"] + 1
            out.losses.append(event["loss"])
        elif kind == "evaluated":
            out.evaluated.append(event)
        elif kind == "ended":
            out.by = event["by"]
        return on_event is not None and on_event(event) is True

    if not isinstance(steps, int):
        raise TypeError(f"steps={steps!r} should be a whole number")
    for name, function in (("evaluate", evaluate), ("on_event", on_event)):
        if function is not None and not callable(function):
            raise TypeError(f"{name} should be a function, not {function!r}")
    program, samples = batches.first()
    step._ready(program)
    step._samples = samples
    with _Interrupts() as interrupts:
        _core.fit(program, batches, batches.per_epoch, samples, batches.lengths, step._name, step._rate,
                  first=0 if init else step.steps_done, steps=steps, lr_schedule=lr_schedule, warmup=str(warmup), save=save,
                  save_every=save_every, keep=keep, resume=resume, init=init, eval_every=eval_every, keep_best=keep_best,
                  tensorboard=tensorboard, time_limit=time_limit, is_interrupted=interrupts.have_come,
                  evaluate=evaluate and _Evaluation(evaluate),
                  on_event=heard)
    return out


class _Evaluation:
    """What `evaluate` says, as a dict."""

    def __init__(self, evaluate: Callable[[int], Any]):
        self._evaluate = evaluate

    def __call__(self, steps: int) -> dict[str, float]:
        said = self._evaluate(steps)
        try:
            return {str(name): float(value) for name, value in (said if isinstance(said, dict) else {"loss": said}).items()}
        except (TypeError, ValueError):
            raise TypeError(f"evaluate returned {said!r}; it should be a loss, or a dict of loss and accuracy") from None


class _Interrupts:
    """While it is open the first Ctrl-C only asks for an end, and is raised behind it; the second is raised at once."""

    def __init__(self) -> None:
        self._count = 0
        self._before: Any = None

    def have_come(self) -> bool:
        return self._count > 0

    def __enter__(self) -> _Interrupts:
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before = signal.signal(signal.SIGINT, self._come)
        return self

    def _come(self, *_: Any) -> None:
        self._count += 1
        if self._count > 1:
            raise KeyboardInterrupt

    def __exit__(self, kind: Any, *_: Any) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
        if self._count > 0 and kind is None:
            raise KeyboardInterrupt


class _Batches:
    """Of each step the arrays that its program takes."""

    def __init__(self, step: TrainStep | ModelStep, data: Any):
        self._step = step
        self._program: _core.Program | None = None
        self._at: Callable[[int], Any]
        self.per_epoch = 0
        self.lengths = ""
        if isinstance(data, Buckets):
            self.per_epoch, self._at = len(data), data.__getitem__
            self.lengths = ",".join(map(str, data.lengths))
            if len(data.lengths) > 1:
                step._take_sizes([data.empty(length) for length in reversed(data.lengths)])
        elif isinstance(data, Data):
            rows = _Rows(data)
            self._at = rows
            self.per_epoch = rows.per_epoch
        elif hasattr(data, "__getitem__") and hasattr(data, "__len__"):
            if not len(data):
                raise ValueError("data: there is no batch")
            self.per_epoch = len(data)
            self._at = lambda number: data[number % len(data)]
        elif callable(data):
            self._at = data
        else:
            raise TypeError(f"data: should be batched sw.data, a sequence of batches or a function of the step's number, "
                            f"not {type(data).__name__}")

    def first(self) -> tuple[_core.Program, int]:
        """The program of the first batch, and how many samples a batch has."""
        arrays = self(self._step.steps_done)
        assert self._program is not None
        return self._program, arrays[0].shape[0] if arrays and arrays[0].ndim else 1

    def __call__(self, number: int) -> list[_core.Tensor]:
        program, arrays = self._step._program_and_arrays(self._at(number))
        if self._program is None:
            self._program = program
        elif self._program is not program:
            shapes = ", ".join(str(list(a.shape)) for a in arrays)
            raise ValueError(f"data: the batch of step {number} is of another kind than the first ({shapes}); batches "
                             f"should be alike, as drop_last of sw.data makes them, or of few lengths, as those of sw.data.Buckets")
        return arrays


class _Rows:
    """Rows of data by the number of the step, made ahead while steps are asked for in their order."""

    def __init__(self, data: Data):
        self._data = data
        self._names = data.columns
        self._next = -1
        self._rows: Iterator[tuple[_core.Tensor, ...]] = iter(())
        self.per_epoch = 0 if data._dataset.is_endless else len(data)

    def __call__(self, number: int) -> dict[str, _core.Tensor]:
        index = number % self.per_epoch if self.per_epoch else number
        if number != self._next or (index == 0 and number > 0):
            self._rows = self._data.epoch(number // self.per_epoch if self.per_epoch else 0)
            for _ in range(index):
                next(self._rows)
        self._next = number + 1
        return dict(zip(self._names, next(self._rows)))

"""What is called while a model trains."""

from __future__ import annotations

from typing import Any


class RunContext:
    """What callbacks are told: `original_args()` has cur_epoch_num, cur_step_num, net_outputs, ..."""

    def __init__(self, args: CallbackParam):
        self._args = args
        self._is_stop = False

    def original_args(self) -> CallbackParam:
        return self._args

    def request_stop(self) -> None:
        self._is_stop = True

    def get_stop_requested(self) -> bool:
        return self._is_stop


class CallbackParam(dict):
    """A dict whose items are attributes, too."""

    def __getattr__(self, name: str) -> Any:
        return self.get(name)

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


_InternalCallbackParam = CallbackParam  # its name there


class Callback:
    """Hooks of old names, and those of training and evaluation, which call them unless they are overridden."""

    def begin(self, run_context): ...
    def epoch_begin(self, run_context): ...
    def epoch_end(self, run_context): ...
    def step_begin(self, run_context): ...
    def step_end(self, run_context): ...
    def end(self, run_context): ...

    def on_train_begin(self, run_context):
        self.begin(run_context)

    def on_train_epoch_begin(self, run_context):
        self.epoch_begin(run_context)

    def on_train_epoch_end(self, run_context):
        self.epoch_end(run_context)

    def on_train_step_begin(self, run_context):
        self.step_begin(run_context)

    def on_train_step_end(self, run_context):
        self.step_end(run_context)

    def on_train_end(self, run_context):
        self.end(run_context)

    def on_eval_begin(self, run_context):
        self.begin(run_context)

    def on_eval_epoch_begin(self, run_context):
        self.epoch_begin(run_context)

    def on_eval_epoch_end(self, run_context):
        self.epoch_end(run_context)

    def on_eval_step_begin(self, run_context):
        self.step_begin(run_context)

    def on_eval_step_end(self, run_context):
        self.step_end(run_context)

    def on_eval_end(self, run_context):
        self.end(run_context)

    def __enter__(self):
        return self

    def __exit__(self, *error): ...


def callbacks_of(callbacks) -> list[Callback]:
    """None, one, or several. Raises: TypeError of what is no callback."""
    listed = [] if callbacks is None else list(callbacks) if isinstance(callbacks, (list, tuple)) else [callbacks]
    for callback in listed:
        if not isinstance(callback, Callback):
            raise TypeError(f"callbacks are Callback objects, not {callback!r}")
    return listed

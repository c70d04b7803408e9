"""Training that ends when it is asked to, behind a step."""

from __future__ import annotations

import json
import os
import signal

import numpy
from shardwright import _core, collectives

from ... import context
from ..checkpoints import load_checkpoint, save_checkpoint
from .base import Callback


class OnRequestExit(Callback):
    """Asked by a signal, or by {"GracefulExit": 1} in a file, saves a checkpoint behind the step that runs, and stops.

    All ranks stop behind the same step, whichever of them was asked. The file is directory/rank_RANK/FILE_NAME_train.ckpt;
    training goes on from it if it is there.
    """

    def __init__(self, save_ckpt: bool = True, save_mindir: bool = True, file_name: str = "Net", directory: str = "./",
                 config_file: str | None = None, sig: int = signal.SIGTERM):
        if sig == signal.SIGKILL:
            raise ValueError("OnRequestExit cannot be asked by SIGKILL; SIGTERM and SIGINT can be caught")
        if save_mindir:
            context.tell("mindspore: OnRequestExit saves a checkpoint alone: there is no MindIR here")
        self._saves, self._config_file, self._signal = save_ckpt, config_file, sig
        self._path = os.path.join(directory or ".", f"rank_{_core.own_rank()}", f"{file_name}_train.ckpt")
        self._is_asked = False
        self._former = None

    def on_train_begin(self, run_context):
        self._is_asked = False
        self._former = signal.signal(self._signal, self._ask)
        if self._saves and os.path.isfile(self._path):
            load_checkpoint(self._path, run_context.original_args().train_network)

    def on_train_step_end(self, run_context):
        if not self._all_know():
            return
        args = run_context.original_args()
        if self._saves:
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
            save_checkpoint(args.train_network, self._path,
                            append_dict={"epoch_num": args.cur_epoch_num, "step_num": args.cur_step_num})
        run_context.request_stop()

    def on_train_end(self, run_context):
        signal.signal(self._signal, self._former)

    def on_eval_begin(self, run_context):
        self._is_asked = False
        self._former = signal.signal(self._signal, self._ask)

    def on_eval_end(self, run_context):
        signal.signal(self._signal, self._former)

    def _ask(self, number, frame) -> None:
        self._is_asked = True

    def _all_know(self) -> bool:
        """Whether any rank was asked."""
        is_asked = self._is_asked or self._is_in_file()
        if not context.is_rank_view():
            return is_asked
        return bool(collectives.all_reduce(numpy.float32(is_asked), "max").item())

    def _is_in_file(self) -> bool:
        if not self._config_file or not os.path.isfile(self._config_file):
            return False
        with open(self._config_file, encoding="utf-8") as file:
            try:
                return json.load(file).get("GracefulExit") == 1
            except (ValueError, AttributeError):
                context.tell(f"mindspore: '{self._config_file}' is no JSON object; {{\"GracefulExit\": 1}} ends the training")
                return False

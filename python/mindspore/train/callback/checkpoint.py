"""Checkpoints while a model trains."""

from __future__ import annotations

import os
import time
from pathlib import Path

from ..._compile import last_program
from ..._files import put
from ...nn.cell import Cell
from ..checkpoints import refuse, save_checkpoint, wait_for_files
from ..files import check_format
from .base import Callback


class CheckpointConfig:
    """When checkpoints are made (every so many steps, or seconds), how many are kept, and what is put in.

    `keep_checkpoint_per_n_minutes` keeps one of so many minutes, where `keep_checkpoint_max` does not limit them.
    """

    def __init__(self, save_checkpoint_steps: int | None = 1, save_checkpoint_seconds: int | None = 0,
                 keep_checkpoint_max: int | None = 5, keep_checkpoint_per_n_minutes: int | None = 0,
                 integrated_save: bool = True, async_save: bool | str = False, saved_network: Cell | None = None,
                 append_info=None, enc_key=None, enc_mode: str = "AES-GCM", exception_save: bool = False,
                 crc_check: bool = False, format: str = "ckpt", **settings):
        refuse(enc_key, {**settings, "exception_save": exception_save},
               ("remove_redundancy", "map_param_inc", "global_step_num", "exception_save"))
        check_format(format)
        for name, value in (("save_checkpoint_steps", save_checkpoint_steps),
                            ("save_checkpoint_seconds", save_checkpoint_seconds),
                            ("keep_checkpoint_max", keep_checkpoint_max),
                            ("keep_checkpoint_per_n_minutes", keep_checkpoint_per_n_minutes)):
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
                raise ValueError(f"{name} is 0 or more, not {value!r}")
        if not isinstance(integrated_save, bool) or async_save not in (True, False, "thread", "process"):
            raise ValueError(f"integrated_save and async_save are True or False, not {integrated_save!r} and "
                             f"{async_save!r}")
        if not save_checkpoint_steps and not save_checkpoint_seconds:
            raise ValueError("one of save_checkpoint_steps and save_checkpoint_seconds is above 0")
        if saved_network is not None and not isinstance(saved_network, Cell):
            raise TypeError(f"saved_network is a Cell, not {saved_network!r}")
        self.save_checkpoint_steps = save_checkpoint_steps or 0
        self.save_checkpoint_seconds = 0 if save_checkpoint_steps else save_checkpoint_seconds
        self.keep_checkpoint_max = keep_checkpoint_max or 0
        self.keep_checkpoint_per_n_minutes = 0 if keep_checkpoint_max else keep_checkpoint_per_n_minutes or 0
        self.integrated_save, self.async_save, self.format = integrated_save, bool(async_save), format
        self.saved_network, self.crc_check = saved_network, crc_check
        self.append_info = list(append_info or [])
        for item in self.append_info:
            if item not in ("epoch_num", "step_num") and not isinstance(item, dict):
                raise TypeError(f"append_info holds epoch_num, step_num and dicts, not {item!r}")

    def appended(self, epoch: int, step: int) -> dict:
        """What is put in beside tensors."""
        known = {"epoch_num": epoch, "step_num": step}
        out: dict = {}
        for item in self.append_info:
            out.update(item if isinstance(item, dict) else {item: known[item]})
        return out


class ModelCheckpoint(Callback):
    """`DIRECTORY/PREFIX-EPOCH_STEP.ckpt`; the prefix becomes PREFIX_1, ... where there are files of it already."""

    def __init__(self, prefix: str = "CKP", directory: str | None = None, config: CheckpointConfig | None = None):
        if not isinstance(prefix, str) or not prefix or "/" in prefix:
            raise ValueError(f"prefix is a name without '/', not {prefix!r}")
        self._config = config or CheckpointConfig()
        self._directory = Path(directory or os.getcwd())
        self._directory.mkdir(parents=True, exist_ok=True)
        self._prefix = self._free(prefix)
        self._files: list[Path] = []
        self._last_step = 0
        self._last_time = self._kept_time = time.monotonic()

    def _free(self, prefix: str) -> str:
        def is_taken(name: str) -> bool:
            graph = self._directory / f"{name}-graph.meta"
            return graph.exists() or any(self._directory.glob(f"{name}-*.{self._config.format}"))

        name, number = prefix, 0
        while is_taken(name):
            number += 1
            name = f"{prefix}_{number}"
        return name

    @property
    def latest_ckpt_file_name(self) -> str:
        """Of the last one, or nothing."""
        return str(self._files[-1]) if self._files else ""

    def step_end(self, run_context):
        args = run_context.original_args()
        if self._is_due(args.cur_step_num):
            self._save(args)

    def end(self, run_context):
        args = run_context.original_args()
        if args.cur_step_num != self._last_step:
            self._save(args)
        wait_for_files()

    def _is_due(self, step: int) -> bool:
        if self._config.save_checkpoint_steps:
            return step - self._last_step >= self._config.save_checkpoint_steps
        return time.monotonic() - self._last_time >= self._config.save_checkpoint_seconds

    def _save(self, args) -> None:
        self._last_step, self._last_time = args.cur_step_num, time.monotonic()
        step = (args.cur_step_num - 1) % args.batch_num + 1
        if not self._files:
            self._write_graph()
        path = self._directory / f"{self._prefix}-{args.cur_epoch_num}_{step}.{self._config.format}"
        network = self._config.saved_network or args.train_network
        save_checkpoint(network, str(path), self._config.integrated_save, self._config.async_save,
                        self._config.appended(args.cur_epoch_num, args.cur_step_num), crc_check=self._config.crc_check,
                        format=self._config.format)
        self._drop_old()
        self._files.append(path)

    def _drop_old(self) -> None:
        """Before the newest is added, which may still be being written."""
        most, minutes = self._config.keep_checkpoint_max, self._config.keep_checkpoint_per_n_minutes
        while most and len(self._files) >= most:
            self._files.pop(0).unlink(missing_ok=True)
        if minutes and self._files:
            if time.monotonic() - self._kept_time < minutes * 60:
                self._files.pop().unlink(missing_ok=True)
            else:
                self._kept_time = time.monotonic()

    def _write_graph(self) -> None:
        """The step's graph as text."""
        path = self._directory / f"{self._prefix}-graph.meta"
        text = last_program[0].graph_text() if last_program else ""
        put(path, [text.encode()], is_read_only=True)

"""LightningModules whose steps Shardwright plans and runs, under Lightning's own Trainer.

    import shardwright.torch.lightning as sl

    trainer.fit(sl.planned(module, devices=4), loader)     # instead of trainer.fit(module, loader)

`training_step` and `configure_optimizers` are the module's; so are validation, logs of the loss and checkpoints of weights.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any, Callable, Iterator, Mapping, Sequence

import torch
from lightning.pytorch import LightningModule

from .._errors import ShardwrightError
from .step import TorchStep, train_step

__all__ = ["planned"]


def planned(module: LightningModule, **options: Any) -> LightningModule:
    """`module` for Lightning's Trainer, trained by Shardwright; options: those of `shardwright.torch.train_step`.

    The module itself has the trained weights when it is validated, when a checkpoint is written, and at the end.
    Raises: ShardwrightError if it has several optimizers, or says when it steps.
    """
    if not isinstance(module, LightningModule):
        raise TypeError(f"module: {module!r} should be a LightningModule")
    if not module.automatic_optimization:
        raise ShardwrightError(f"{type(module).__name__} has automatic_optimization=False: it steps by itself; "
                               "use shardwright.torch.train_step in its place")
    return _Planned(module, options)


class _Planned(LightningModule):
    def __init__(self, module: LightningModule, options: dict[str, Any]):
        super().__init__()
        self.automatic_optimization = False
        self.module, self._options = module, options
        self._step: TorchStep | None = None
        self._left_out: set[str] = set()  # of what the module logs

    def configure_optimizers(self) -> Any:
        return self.module.configure_optimizers()

    def forward(self, *arguments: Any, **keywords: Any) -> Any:
        return self.module(*arguments, **keywords)

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        if self._step is None:
            self._step = train_step(self.module, self._optimizer(), loss=self._loss_of, **self._options)
        loss = self._step(batch) if isinstance(batch, (torch.Tensor, Mapping)) or not isinstance(batch, Sequence) else self._step(*batch)
        found = torch.tensor(loss.item(), device=self.device)
        self.log("train_loss", found, prog_bar=True)
        # What counts steps for Lightning; it changes nothing, as there are no gradients.
        self.optimizers().step()  # type: ignore[union-attr]
        self._schedule("step", batch_idx + 1)
        return found

    def _optimizer(self) -> torch.optim.Optimizer:
        if self.trainer.world_size > 1:
            raise ShardwrightError(f"Lightning's Trainer has {self.trainer.world_size} devices: say devices=1 to it, and to planned() how many")
        if self.trainer.precision not in ("32-true", "64-true"):
            raise ShardwrightError(f"precision='{self.trainer.precision}' of Lightning's Trainer: say planned(..., precision='bf16') in its place")
        found = self.optimizers(use_pl_optimizer=False)
        if isinstance(found, list):
            raise ShardwrightError(f"{type(self.module).__name__} has {len(found)} optimizers; a step has one here")
        return found

    def _schedule(self, interval: str, count: int) -> None:
        for config in self.trainer.lr_scheduler_configs:
            if config.interval == interval and count % config.frequency == 0:
                if config.reduce_on_plateau:
                    raise ShardwrightError("ReduceLROnPlateau has no counterpart here; give a schedule of steps or epochs")
                config.scheduler.step()

    def on_train_epoch_end(self) -> None:
        self._schedule("epoch", self.current_epoch + 1)

    def _write_back(self) -> None:
        if self._step is not None:
            self._step.write_back()

    def on_validation_start(self) -> None:
        self._write_back()

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self._write_back()
        checkpoint["state_dict"] = self.module.state_dict()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        raise ShardwrightError("ckpt_path: Lightning's checkpoints have no states of a planned module's optimizer; load the weights, "
                               "with `load_from_checkpoint` of the module, and begin anew")

    def on_train_end(self) -> None:
        self._write_back()

    def validation_step(self, *arguments: Any) -> Any:
        with _logging_by(self.module, self.log):
            return self.module.validation_step(*arguments)

    def _loss_of(self, module: LightningModule, *batch: Any, **named: Any) -> Any:
        """As it is traced: numbers of a step that it logs are not there."""
        given = named if named else batch[0] if len(batch) == 1 else tuple(batch)
        with _logging_by(module, self._leave_out):
            return module.training_step(given, 0)

    def _leave_out(self, name: str, *_: Any, **__: Any) -> None:
        if name != "train_loss" and name not in self._left_out:
            self._left_out.add(name)
            print(f"{type(self.module).__name__}: training_step logs '{name}', which is left out: the loss is logged, as train_loss",
                  file=sys.stderr)


@contextlib.contextmanager
def _logging_by(module: LightningModule, log: Callable[..., None]) -> Iterator[None]:
    """What the module logs goes to the one that Lightning runs."""
    def log_all(values: Mapping[str, Any], *arguments: Any, **keywords: Any) -> None:
        for name, value in values.items():
            log(name, value, *arguments, **keywords)

    module.log, module.log_dict = log, log_all
    try:
        yield
    finally:
        del module.log, module.log_dict

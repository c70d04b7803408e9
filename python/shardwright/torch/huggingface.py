"""Hugging Face's Trainer, whose steps Shardwright plans and runs.

    from shardwright.torch.huggingface import Trainer      # instead of transformers'

    trainer = Trainer(model=model, args=arguments, train_dataset=data, plan={"devices": 4})
    trainer.train()

Arguments, data, schedules, callbacks, logs, evaluation and checkpoints are the Trainer's. In its checkpoints lies a folder
`shardwright` beside the model: the optimizer's states, of whatever plan.
"""

from __future__ import annotations

import os
from typing import Any, Mapping

import torch
import transformers

from .._errors import ShardwrightError
from .step import TorchStep, train_step

__all__ = ["Trainer"]

_states = "shardwright"  # the folder in a checkpoint


class Trainer(transformers.Trainer):
    """plan: options of `shardwright.torch.train_step`, as devices, cluster, precision and micro_batches. Others as of transformers'."""

    def __init__(self, *arguments: Any, plan: Mapping[str, Any] | None = None, **keywords: Any):
        super().__init__(*arguments, **keywords)
        _check(self.args)
        self._options = dict(plan or {})
        self._step: TorchStep | None = None
        self._resumed = ""

    def training_step(self, model: torch.nn.Module, inputs: Mapping[str, Any], num_items_in_batch: Any = None) -> torch.Tensor:
        """One of Shardwright: gradients, their norm and the update are its own, so that the Trainer's optimizer has nothing to do."""
        model.train()
        loss = self._planned()(**self._prepare_inputs(inputs))
        return torch.tensor(loss.item(), device=self.args.device)

    def _planned(self) -> TorchStep:
        if self._step is None:
            optimizer = getattr(self.optimizer, "optimizer", self.optimizer)  # inside of Accelerate's
            self._step = train_step(self.accelerator.unwrap_model(self.model), optimizer,
                                    loss=lambda module, **inputs: self.compute_loss(module, inputs),
                                    clip_norm=max(self.args.max_grad_norm or 0.0, 0.0), **self._options)
            if self._resumed:
                self._step.load(self._resumed)
        return self._step

    def _clip_grad_norm(self, model: torch.nn.Module) -> None:
        """The step has done it, and there are no gradients whose norm could be told."""

    def _get_grad_norm(self, model: torch.nn.Module, grad_norm: Any = None) -> None:
        """Likewise."""

    def _write_back(self) -> None:
        if self._step is not None:
            self._step.write_back()

    def train(self, *arguments: Any, **keywords: Any) -> Any:
        self._step = None  # another training begins with the model as it is
        result = super().train(*arguments, **keywords)
        if not self.args.load_best_model_at_end:  # else that is what the model has
            self._write_back()
        return result

    def evaluate(self, *arguments: Any, **keywords: Any) -> Any:
        if self.is_in_train:
            self._write_back()
        return super().evaluate(*arguments, **keywords)

    def save_model(self, *arguments: Any, **keywords: Any) -> Any:
        if self.is_in_train:
            self._write_back()
        return super().save_model(*arguments, **keywords)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        super()._save_optimizer_and_scheduler(output_dir)
        if self._step is not None:
            self._step.save(os.path.join(output_dir, _states))
            self._step.wait()
            self._step._saver = None  # nothing more is saved in this folder, so that it is let go

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is None:
            return
        self._resumed = os.path.join(checkpoint, _states)
        if not os.path.isdir(self._resumed):
            raise ShardwrightError(f"{checkpoint} has no folder {_states}, which has the optimizer's states; a Trainer of transformers "
                                   "wrote it")


def _check(args: transformers.TrainingArguments) -> None:
    """Raises: ShardwrightError if steps would not be those that are asked for."""
    if args.gradient_accumulation_steps > 1:
        raise ShardwrightError(f"gradient_accumulation_steps={args.gradient_accumulation_steps}: say plan={{'micro_batches': "
                               f"{args.gradient_accumulation_steps}}}, with batches as many times as large")
    for name in ("bf16", "fp16"):
        if getattr(args, name):
            raise ShardwrightError(f"{name}=True: say plan={{'precision': '{name}'}}")
    for name in ("deepspeed", "fsdp"):
        if getattr(args, name, None):
            raise ShardwrightError(f"{name}={getattr(args, name)!r} decides how training is split, as Shardwright's plan does; say one of them")

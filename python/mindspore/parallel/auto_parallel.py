"""Settings of how programs are split, bound to one cell or function."""

from __future__ import annotations

from typing import Any, Callable

from .. import context
from .._compile import Unit
from .._missing import missing, near
from .._trace import current
from ..nn.cell import Cell
from ._strategy_file import full_json

_modes = {"semi_auto": {"parallel_mode": "semi_auto_parallel"},
          "sharding_propagation": {"parallel_mode": "auto_parallel", "search_mode": "sharding_propagation"},
          "recursive_programming": {"parallel_mode": "auto_parallel", "search_mode": "recursive_programming"}}


class AutoParallel(Cell):
    """Calls `network` as one program that is split as the settings here say; those of the context do not count."""

    is_fed = True

    def __init__(self, network: Callable, parallel_mode: str = "semi_auto"):
        super().__init__(auto_prefix=False)
        if parallel_mode not in _modes:
            raise ValueError(f"parallel_mode '{parallel_mode}' of AutoParallel is unknown"
                             f"{near(parallel_mode, _modes)}; there are {', '.join(_modes)}")
        self.network = network
        self.parallel_mode = parallel_mode
        self._said: dict[str, Any] = dict(_modes[parallel_mode])
        self._program = Unit(self._run, named=getattr(network, "construct", network))

    def construct(self, *args, **kwargs):
        return self.network(*args, **kwargs)

    def __call__(self, *args, **kwargs):
        if current():
            return self.construct(*args, **kwargs)
        with context.bound(self._said):
            return self._program(*args, **kwargs)

    def compile(self, *args, **kwargs):
        with context.bound(self._said):
            return self._program.compile(*args, **kwargs)

    def around(self, wrap: Callable[[Callable], Cell]) -> AutoParallel:
        """The same settings for a cell around its network."""
        outer = AutoParallel(wrap(self.network), self.parallel_mode)
        outer._said = self._said
        return outer

    def _say(self, **settings) -> None:
        with context.bound({}):
            context.set_auto_parallel_context(**settings)  # it checks them
        self._said.update(settings)
        context.touch()

    # ---- settings ----

    @property
    def full_batch(self) -> bool:
        """Every rank reads the whole batch."""
        return self._said.get("dataset_strategy") == "full_batch"

    @full_batch.setter
    def full_batch(self, is_full: bool) -> None:
        self.dataset_strategy("full_batch" if is_full else "data_parallel")

    def dataset_strategy(self, config) -> None:
        self._say(dataset_strategy=config)

    def pipeline(self, stages: int = 1, output_broadcast: bool = False, interleave: bool = False,
                 scheduler: str = "1f1b") -> None:
        config = {"pipeline_interleave": interleave, "pipeline_scheduler": scheduler}
        self._say(pipeline_stages=stages, pipeline_result_broadcast=output_broadcast, pipeline_config=config)

    def hsdp(self, shard_size: int = -1, threshold: int = 64, optimizer_level: str = "level1") -> None:
        """Optimizer states, gradients and weights are split over replicas."""
        if optimizer_level not in ("level1", "level2", "level3"):
            raise ValueError(f"optimizer_level is level1, level2 or level3, not '{optimizer_level}'")
        config = {"optimizer_weight_shard_size": shard_size, "parallel_optimizer_threshold": threshold,
                  "optimizer_level": optimizer_level}
        self._say(enable_parallel_optimizer=True, parallel_optimizer_config=config)

    def comm_fusion(self, config: dict) -> None:
        self._say(comm_fusion=config)

    # ---- strategy files ----

    def save_param_strategy_file(self, file_path: str) -> None:
        """Where it is written how parameters lie (`.ckpt` or `.json`), once the network is compiled."""
        self._say(strategy_ckpt_save_file=file_path)

    def load_param_strategy_file(self, file_path: str) -> None:
        """Operators are split as the file says."""
        self._say(strategy_ckpt_load_file=file_path)

    def save_operator_strategy_file(self, file_path: str) -> None:
        """Where it is written how operators are split: the full path of a `.json`."""
        self._say(op_strategy_save_file=full_json(file_path))

    def load_operator_strategy_file(self, file_path: str) -> None:
        """Operators are split as the file says."""
        self._say(op_strategy_load_file=full_json(file_path))

    def set_group_ckpt_save_file(self, file_path: str) -> None:
        """Where it is written which ranks have the same slices as this one."""
        self._say(group_ckpt_save_file=file_path)

    def enable_gradients_mean(self) -> None:
        self._say(gradients_mean=True)

    def disable_loss_repeated_mean(self) -> None:
        self._say(loss_repeated_mean=False)

    def enable_fp32_communication(self) -> None:
        self._say(force_fp32_communication=True)


__getattr__ = missing("mindspore.parallel.auto_parallel", globals())

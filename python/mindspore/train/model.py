"""Models: training and evaluation in loops of their own."""

from __future__ import annotations

from typing import Any

from .. import amp, context
from .._missing import missing
from ..common.tensor import Tensor
from ..nn.cell import Cell
from ..nn.metrics import Loss, metrics_called
from ..nn.wrap.cell_wrapper import TrainOneStepCell, WithEvalCell, WithLossCell
from ..nn.wrap.loss_scale import TrainOneStepWithLossScaleCell
from ..parallel import _placed
from ..parallel.auto_parallel import AutoParallel
from .callback import Callback, CallbackParam, RunContext
from .callback.base import callbacks_of
from ..context import ParallelMode  # noqa: F401, E402, which programs look for here


def _checked(eval_indexes) -> list[int] | None:
    if eval_indexes is not None and not (isinstance(eval_indexes, list) and len(eval_indexes) == 3
                                         and all(isinstance(i, int) for i in eval_indexes)):
        raise ValueError(f"eval_indexes are the places of loss, outputs and label, as in [0, 1, 2], not {eval_indexes!r}")
    return eval_indexes


class Model:
    """A network with a loss (or whose result is the loss) and an optimizer."""

    def __init__(self, network: Cell, loss_fn=None, optimizer=None, metrics=None, eval_network: Cell | None = None,
                 eval_indexes=None, amp_level: str = "O0", boost_level: str = "O0", **settings):
        """settings: loss_scale_manager (with O2 it is dynamic), keep_batchnorm_fp32 (with O2 it is True)."""
        if not isinstance(network, Cell):
            raise TypeError(f"Model takes a Cell, not {network!r}")
        for name in settings.keys() - {"loss_scale_manager", "keep_batchnorm_fp32", "boost_config_dict"}:
            raise ValueError(f"Model takes no '{name}'; there are loss_scale_manager, keep_batchnorm_fp32")
        level = amp.level_called(amp_level)
        self._is_short = level != "O0"
        keeps_norms = settings.get("keep_batchnorm_fp32", level != "O3")
        if level == "O1" and not keeps_norms:
            raise ValueError("amp_level O1 computes norms in f32: keep_batchnorm_fp32=False is for O2 and O3")
        if self._is_short:
            amp.auto_mixed_precision(getattr(network, "network", network) if isinstance(network, AutoParallel) else network,
                                     "O1" if level == "O1" else "O2" if keeps_norms else "O3")
        self._loss_scale = settings.get("loss_scale_manager", amp.DynamicLossScaleManager() if level == "O2" else None)
        self._network, self._loss_fn, self._optimizer = network, loss_fn, optimizer
        self._metrics = metrics_called(metrics)
        self._eval_network, self._eval_indexes = eval_network, _checked(eval_indexes)
        if boost_level != "O0":
            context.tell(f"mindspore: boost_level {boost_level!r} has no effect")
        self._train_network: Cell | None = None
        self._of_ranks: Cell | None = None

    @property
    def train_network(self) -> Cell:
        """The network with loss and optimizer, as it trains."""
        if self._train_network is None:
            network = self._network
            self._train_network = network.around(self._to_train) if isinstance(network, AutoParallel) \
                else self._to_train(network)
        return self._train_network

    def _to_train(self, network: Cell) -> Cell:
        if self._loss_fn:
            network = WithLossCell(amp.InFloat32(network) if self._is_short else network, self._loss_fn)
        if not self._optimizer:
            return network
        if self._loss_scale is None:
            return TrainOneStepCell(network, self._optimizer)
        update = self._loss_scale.get_update_cell()
        if update is None:
            return TrainOneStepCell(network, self._optimizer, self._loss_scale.get_loss_scale())
        return TrainOneStepWithLossScaleCell(network, self._optimizer, update)

    @property
    def predict_network(self) -> Cell:
        return self._network

    # ---- training ----

    def train(self, epoch: int, train_dataset, callbacks=None, dataset_sink_mode: bool = False, sink_size: int = -1,
              initial_epoch: int = 0) -> None:
        """So many epochs; in sink mode callbacks hear of each epoch's last step, or of each `sink_size` steps."""
        self._loop(epoch, train_dataset, callbacks, dataset_sink_mode, sink_size, initial_epoch, None)

    def fit(self, epoch: int, train_dataset, valid_dataset=None, valid_frequency: int = 1, callbacks=None,
            dataset_sink_mode: bool = False, valid_dataset_sink_mode: bool = False, sink_size: int = -1,
            initial_epoch: int = 0) -> None:
        """The same, with evaluations in between."""
        def evaluate(number: int) -> dict | None:
            if valid_dataset is None or number % valid_frequency:
                return None
            found = self.eval(valid_dataset, callbacks)
            self._network.set_train()
            return found

        self._loop(epoch, train_dataset, callbacks, dataset_sink_mode, sink_size, initial_epoch, evaluate)

    def _loop(self, epochs, dataset, callbacks, is_sunk, sink_size, initial_epoch, evaluate) -> None:
        if not isinstance(epochs, int) or epochs < 1:
            raise ValueError(f"epoch is a whole number above 0, not {epochs!r}")
        _check_dataset(dataset)
        hooks = callbacks_of(callbacks)
        network = self.train_network
        network.set_train()
        args = CallbackParam(
            train_network=network, network=self._network, loss_fn=self._loss_fn, optimizer=self._optimizer,
            epoch_num=epochs - initial_epoch, batch_num=dataset.get_dataset_size(), mode="train",
            cur_step_num=initial_epoch * dataset.get_dataset_size(), train_dataset=dataset,
            dataset_sink_mode=is_sunk, list_callback=hooks,
            parallel_mode=context.get_auto_parallel_context("parallel_mode"))
        run = RunContext(args)
        _tell(hooks, "on_train_begin", run)
        for epoch in range(initial_epoch, epochs):
            args.cur_epoch_num = epoch + 1
            _tell(hooks, "on_train_epoch_begin", run)
            self._train_epoch(network, dataset, args, run, hooks, is_sunk, sink_size)
            if evaluate:
                args.metrics = args.eval_results = evaluate(epoch + 1)
            _tell(hooks, "on_train_epoch_end", run)
            if run.get_stop_requested():
                break
        _tell(hooks, "on_train_end", run)

    @staticmethod
    def _train_epoch(network, dataset, args, run, hooks: list[Callback], is_sunk: bool, sink_size: int) -> None:
        every = 1 if not is_sunk else args.batch_num if sink_size == -1 else sink_size
        for number, batch in enumerate(_batches(dataset), 1):
            args.cur_step_num += 1
            if (number - 1) % every == 0:
                _tell(hooks, "on_train_step_begin", run)
            args.net_outputs = network(*batch)
            if number % every == 0 or number == args.batch_num:
                _tell(hooks, "on_train_step_end", run)
            if run.get_stop_requested():
                return

    # ---- evaluation ----

    def eval(self, valid_dataset, callbacks=None, dataset_sink_mode: bool = False) -> dict[str, Any]:
        """What the metrics find, by name."""
        if not self._metrics:
            raise ValueError("eval needs metrics: Model(..., metrics={'accuracy'})")
        _check_dataset(valid_dataset)
        hooks = callbacks_of(callbacks)
        network = self._eval_network or WithEvalCell(self._network, self._loss_fn, self._is_short)
        network.set_train(False)
        args = CallbackParam(eval_network=network, network=self._network, mode="eval", cur_step_num=0, cur_epoch_num=1,
                             batch_num=valid_dataset.get_dataset_size())
        run = RunContext(args)
        for metric in self._metrics.values():
            metric.clear()
        _tell(hooks, "on_eval_begin", run)
        _tell(hooks, "on_eval_epoch_begin", run)
        for batch in _batches(valid_dataset):
            args.cur_step_num += 1
            with context.results_for_all():  # of which ranks conclude the same
                args.net_outputs = network(*batch)
            loss, outputs, label = self._of_metrics(args.net_outputs)
            for metric in self._metrics.values():
                metric.update(loss) if isinstance(metric, Loss) else metric.update(outputs, label)
            _tell(hooks, "on_eval_step_end", run)
        _tell(hooks, "on_eval_epoch_end", run)
        _tell(hooks, "on_eval_end", run)
        return {name: metric.eval() for name, metric in self._metrics.items()}

    def _of_metrics(self, results) -> tuple:
        """Loss, outputs and label among what the network for evaluation results in."""
        return results if self._eval_indexes is None else tuple(results[i] if i >= 0 else None for i in self._eval_indexes)

    def predict(self, *predict_data, backend=None) -> Tensor:
        """What the network makes of tensors."""
        return self._to_predict()(*predict_data)

    def _to_predict(self) -> Cell:
        """In modes that share programs each rank gives its rows of the batch, as in training."""
        self._network.set_train(False)
        if not context.is_auto() or isinstance(self._network, AutoParallel):
            return self._network
        if self._of_ranks is None:
            self._of_ranks = _OfRanks(self._network)
        return self._of_ranks

    # ---- before anything runs ----

    def build(self, train_dataset=None, valid_dataset=None, sink_size: int = -1, epoch: int = 1,
              sink_mode: bool = True) -> None:
        """Plans the train step and the evaluation for the first batch, without running them."""
        if train_dataset is not None:
            self._planned_to_train(train_dataset)
        if valid_dataset is not None:
            network = self._eval_network or WithEvalCell(self._network, self._loss_fn)
            network.set_train(False).compile(*next(iter(_batches(valid_dataset))))

    def _planned_to_train(self, dataset):
        return self.train_network.set_train().compile(*next(iter(_batches(dataset))))

    def infer_train_layout(self, train_dataset, dataset_sink_mode: bool = True, sink_size: int = -1) -> dict[str, list]:
        """Plans the train step. {parameter: [device matrix, tensor map, slice shape, field, uniform split, group]}."""
        self._check_parallel("infer_train_layout")
        return _layouts(self._planned_to_train(train_dataset))

    def infer_predict_layout(self, *predict_data, skip_backend_compile: bool = False) -> dict[str, list]:
        """The same of the network alone, for these inputs."""
        self._check_parallel("infer_predict_layout")
        return _layouts(self._to_predict().compile(*predict_data))

    def _check_parallel(self, name: str) -> None:
        if not isinstance(self._network, AutoParallel) and not (context.is_graph_mode() and context.is_auto()):
            raise RuntimeError(f"{name} is for graph mode (set_context(mode=GRAPH_MODE)) with parallel_mode "
                               "semi_auto_parallel or auto_parallel")


class _OfRanks(Cell):
    """A network whose inputs are a batch that ranks read."""

    is_fed = True

    def __init__(self, network: Cell):
        super().__init__(auto_prefix=False)
        self.network = network

    def construct(self, *inputs):
        return self.network(*inputs)


def _layouts(program) -> dict[str, list]:
    placed = _placed.of_program(program)
    return placed.layout_lists() if placed else {}


def _check_dataset(dataset) -> None:
    """Raises: TypeError of what is no data set."""
    if not hasattr(dataset, "get_dataset_size"):
        raise TypeError(f"a Model takes a data set, or an object with its methods, get_dataset_size and "
                        f"create_tuple_iterator among them, not {dataset!r}")


def _batches(dataset):
    """Of a data set of ours, or an object of the user's with the same methods."""
    make = getattr(dataset, "create_tuple_iterator", None)
    for batch in make() if make else dataset:
        yield tuple(batch.values()) if isinstance(batch, dict) else tuple(batch)
    if make and hasattr(dataset, "reset") and not hasattr(dataset, "rows"):
        dataset.reset()


def _tell(hooks: list[Callback], hook: str, run: RunContext) -> None:
    for callback in hooks:
        getattr(callback, hook)(run)


__getattr__ = missing("mindspore.train.model", globals())

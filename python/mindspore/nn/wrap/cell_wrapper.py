"""Cells around networks: with a loss, a train step, cut batches; and what is done with gradients of several ranks."""

from __future__ import annotations

from typing import Callable

from ... import context
from ..._autodiff import gradients_of
from ..._compile import Unit
from ..._missing import missing, near
from ..._trace import MicroBatches, current
from ...common.tensor import Tensor
from ...communication.management import members_of
from ...ops import functional as F
from ...ops.collectives import AllReduce
from ..cell import Cell


class WithLossCell(Cell):
    """loss(backbone(data), label)"""

    def __init__(self, backbone: Cell, loss_fn: Callable):
        super().__init__(auto_prefix=False)
        self._backbone = backbone
        self._loss_fn = loss_fn

    def construct(self, data, label):
        return self._loss_fn(self._backbone(data), label)

    @property
    def backbone_network(self) -> Cell:
        return self._backbone


class WithEvalCell(Cell):
    """Loss, outputs and label."""

    is_fed = True

    def __init__(self, network: Cell, loss_fn: Callable, add_cast_fp32: bool = False):
        super().__init__(auto_prefix=False)
        self._network = network
        self._loss_fn = loss_fn
        self.add_cast_fp32 = add_cast_fp32

    def construct(self, data, label):
        outputs = self._network(data)
        if self.add_cast_fp32:
            outputs = F.cast(outputs, "float32")
        return self._loss_fn(outputs, label), outputs, label


class TrainOneStepCell(Cell):
    """Trains a network, whose result is the loss, on one batch. Returns the loss, with gradients by name if asked for."""

    is_fed = True

    def __init__(self, network: Cell, optimizer: Callable, sens: float | None = None, return_grad: bool = False):
        super().__init__(auto_prefix=False)
        self.network = network
        self.optimizer = optimizer
        self.weights = optimizer.parameters
        self.sens = 1.0 if sens is None else float(sens)
        self.return_grad = return_grad
        network.set_train()
        self.grad_reducer = None  # of ranks that compute on their own
        if context.is_data_parallel() and context.is_rank_view():
            self.grad_reducer = DistributedGradReducer(self.weights)
            self._gradients = Unit(self._loss_and_gradients)

    def __call__(self, *inputs):
        if self.grad_reducer is None or current():
            return super().__call__(*inputs)
        loss, gradients = self._gradients(*inputs)
        return self._updated(loss, self.grad_reducer(gradients))

    def construct(self, *inputs):
        return self._updated(*self._loss_and_gradients(*inputs))

    def _updated(self, loss, gradients):
        self.optimizer(gradients)
        return (loss, {p.name: g for p, g in zip(self.weights, gradients)}) if self.return_grad else loss

    def _loss_and_gradients(self, *inputs):
        loss = self.network(*inputs)
        return loss, gradients_of(loss if self.sens == 1 else loss * self.sens, self.weights)


class _Parts(Cell):
    """The batch in equal parts along dim 0: the network runs on each, and results are added up."""

    def __init__(self, network: Cell, count, what: str):
        super().__init__(auto_prefix=False)
        if not isinstance(count, int) or isinstance(count, bool):
            raise TypeError(f"{what} is a whole number, not {count!r}")
        if count < 1:
            raise ValueError(f"{what} is 1 or more, not {count}")
        self.network = network
        self.count = count

    def construct(self, *inputs):
        tracing = current()
        if self.count == 1:
            return self.network(*inputs)
        if tracing is None or self._cut_of(tracing) not in (1, self.count):
            return self._one_after_the_other(inputs)
        if self._cut_of(tracing) == 1:
            raise self._asked(tracing)
        loss = self.network(*inputs)
        return loss * float(self.count)  # results of parts become their mean

    def _cut_of(self, tracing) -> int:
        """Into how many parts, as far as cells of this kind are concerned, the batch is cut that is being traced."""
        return tracing.batch_parts // tracing.interleave

    def _asked(self, tracing) -> MicroBatches:
        return MicroBatches(self.count * tracing.interleave, tracing.interleave)

    def _one_after_the_other(self, inputs: tuple):
        for x in inputs:
            if x.shape[0] % self.count:
                raise ValueError(f"a batch of {x.shape[0]} cannot be cut into {self.count} equal parts")
        parts = [[x[i * (x.shape[0] // self.count):(i + 1) * (x.shape[0] // self.count)] for x in inputs]
                 for i in range(self.count)]
        total = self.network(*parts[0])
        for part in parts[1:]:
            total = total + self.network(*part)
        return total


class PipelineCell(_Parts):
    """The parts run through the stages of a pipeline."""

    def __init__(self, network: Cell, micro_size: int, stage_config: dict | None = None):
        super().__init__(network, micro_size, "micro_size")
        cells = dict(network.cells_and_names())
        for name, stage in (stage_config or {}).items():
            if name not in cells:
                raise KeyError(f"stage_config: there is no cell '{name}'{near(name, cells)}; there are "
                               + ", ".join(n for n in cells if n))
            cells[name].pipeline_stage = stage


class GradAccumulationCell(_Parts):
    """Gradients of the parts are added up, and parameters updated once."""

    def __init__(self, network: Cell, micro_size: int):
        super().__init__(network, micro_size, "micro_size")


class MicroBatchInterleaved(_Parts):
    """One part computes while another's tensors travel."""

    def __init__(self, network: Cell, interleave_num: int = 2):
        super().__init__(network, interleave_num, "interleave_num")

    def _cut_of(self, tracing) -> int:
        return tracing.interleave

    def _asked(self, tracing) -> MicroBatches:
        return MicroBatches((tracing.batch_parts // tracing.interleave) * self.count, self.count)


class DistributedGradReducer(Cell):
    """Sums gradients over ranks that compute on their own, or takes their mean, unless they are `layerwise_parallel`."""

    def __init__(self, parameters, mean: bool | None = None, degree: int | None = None, fusion_type: int = 1,
                 group: str = "world"):
        super().__init__(auto_prefix=False)
        if context.is_auto() and context.is_graph_mode():
            raise RuntimeError("DistributedGradReducer has no place in the modes semi_auto_parallel and "
                               "auto_parallel, in which gradients are those of the whole batch")
        self.all_reduce = AllReduce(group=group)
        self.mean = context.get_auto_parallel_context("gradients_mean") if mean is None else mean
        ranks = len(members_of(group)) if context.is_rank_view() else context.device_count()
        self.degree = ranks if degree is None else degree
        self._parameters = tuple(parameters)

    def __call__(self, grads):
        context.copies_of_batch()  # every rank is fed by a process of its own
        if not context.is_rank_view():
            return tuple(grads)
        if len(grads) != len(self._parameters):
            raise ValueError(f"DistributedGradReducer of {len(self._parameters)} parameters is given {len(grads)} gradients")
        return tuple(g if p.layerwise_parallel else self._reduced(g) for g, p in zip(grads, self._parameters))

    def _reduced(self, gradient):
        total = self.all_reduce(gradient)
        return F.div(total, float(self.degree)) if self.mean else total


class PipelineGradReducer(Cell):
    """Passes on the gradients of a pipeline, divided by the scale."""

    def __init__(self, parameters, scale_sense: float = 1.0, opt_shard: bool | None = None):
        super().__init__(auto_prefix=False)
        if not context.is_graph_mode():
            raise RuntimeError("PipelineGradReducer needs GRAPH_MODE")
        self.scale = scale_sense.item() if isinstance(scale_sense, Tensor) else float(scale_sense)

    def construct(self, grads):
        return tuple(grads) if self.scale == 1 else tuple(F.div(g, self.scale) for g in grads)


__getattr__ = missing("mindspore.nn.wrap.cell_wrapper", globals())

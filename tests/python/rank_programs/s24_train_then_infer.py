"""Trains on ranks; then infers, from their slices, under a strategy of its own. Each a test that every rank runs."""

import os

import numpy as np

import mindspore as ms
from mindspore import Model, Tensor, context, load_distributed_checkpoint, ops, train
from mindspore.communication import get_group_size, init
from mindspore.nn import Cell, Momentum, SoftmaxCrossEntropyWithLogits


class Net(Cell):
    def __init__(self, matmul_size, strategy=None):
        super().__init__()
        self.matmul_weight = ms.Parameter(Tensor(np.linspace(-1, 1, np.prod(matmul_size)).reshape(matmul_size), ms.float32))
        self.matmul = ops.MatMul()
        self.neg = ops.Neg()
        if strategy is not None:
            self.matmul.shard(strategy)

    def construct(self, inputs):
        return self.neg(self.matmul(inputs, self.matmul_weight))


class FakeData:
    """Two batches of 32 rows, the same on all ranks."""

    def __init__(self):
        self.index = 0

    def get_dataset_size(self):
        return 2

    def get_repeat_count(self):
        return 1

    def create_tuple_iterator(self, num_epochs=-1, do_copy=True):
        return self

    def __iter__(self):
        self.index = 0
        return self

    def __next__(self):
        if self.index == 2:
            raise StopIteration
        draw = np.random.RandomState(self.index)
        self.index += 1
        label = np.eye(16, dtype=np.float32)[draw.randint(16, size=32)]
        return Tensor(draw.randn(32, 96).astype(np.float32)), Tensor(label)

    def reset(self):
        self.index = 0


def test_train():
    context.set_context(mode=context.GRAPH_MODE)
    init()
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", device_num=get_group_size(),
                                 strategy_ckpt_save_file="./train_strategy.ckpt")
    network = Net((96, 16), ((2, 1), (1, get_group_size() // 2)))
    model = Model(network, SoftmaxCrossEntropyWithLogits(reduction="mean"), Momentum(network.trainable_params(), 0.01, 0.9))
    config = train.CheckpointConfig(keep_checkpoint_max=1, integrated_save=False)
    rank = int(os.getenv("RANK_ID"))
    callback = train.ModelCheckpoint(prefix="parallel", directory=f"./rank_{rank}_ckpt", config=config)
    model.train(epoch=2, train_dataset=FakeData(), callbacks=[callback], dataset_sink_mode=False)
    ms.reset_auto_parallel_context()


def test_inference():
    context.set_context(mode=context.GRAPH_MODE)
    init(backend_name="hccl")
    context.set_auto_parallel_context(full_batch=True, parallel_mode="semi_auto_parallel", device_num=get_group_size(),
                                      strategy_ckpt_load_file="./train_strategy.ckpt")
    predict_data = Tensor(np.random.RandomState(5).randn(128, 96).astype(np.float32))
    network = Net((96, 16))
    model = Model(network)
    predict_layout = model.infer_predict_layout(predict_data)
    assert predict_layout["matmul_weight"][:3] == [[2, get_group_size() // 2], [-1, 0], [96, 32 // get_group_size()]]
    paths = [f"./rank_{i}_ckpt/parallel-2_2.ckpt" for i in range(get_group_size())]
    load_distributed_checkpoint(network, paths, predict_layout)
    np.save(f"result_{os.getenv('RANK_ID')}.npy", model.predict(predict_data).asnumpy())

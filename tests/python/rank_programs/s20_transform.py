"""Trains under one strategy and saves slices; or goes on, under another, from slices that were transformed for it."""

import argparse

import numpy as np

import mindspore as ms
import mindspore.dataset as ds
from mindspore import nn, ops, train
from mindspore.common.initializer import initializer
from mindspore.communication import get_group_size, get_rank, init

parser = argparse.ArgumentParser()
parser.add_argument("--how", choices=["rows", "columns", "optimizer", "stages"])
parser.add_argument("--load", default="", help="transformed slices: FOLDER/rank_R/newR.ckpt")
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--out", default="")
args = parser.parse_args()
is_staged = args.how == "stages"

ms.set_context(mode=ms.GRAPH_MODE)
init()
ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True, pipeline_stages=2 if is_staged else 1)
if args.how == "optimizer":
    ms.set_auto_parallel_context(enable_parallel_optimizer=True,
                                 parallel_optimizer_config={"parallel_optimizer_threshold": 0})
if args.out:
    ms.set_auto_parallel_context(strategy_ckpt_save_file=f"{args.out}/strategies/rank_{get_rank()}.ckpt")
ms.set_seed(1)
n = get_group_size() // (2 if is_staged else 1)
strategies = {"rows": (((1, n), (n, 1)), ((n, 1), (1, 1))), "columns": (((1, 1), (1, n)), ((2, n // 2), (n // 2, 1))),
              "optimizer": (((n, 1), (1, 1)), ((n // 2, 2), (2, 1))), "stages": (((n, 1), (1, 1)), ((1, n), (n, 1)))}


class Layer(nn.Cell):
    def __init__(self, shape, strategy):
        super().__init__()
        self.weight = ms.Parameter(initializer("normal", shape, ms.float32))
        self.bias = ms.Parameter(initializer("zeros", shape[1:], ms.float32))
        self.matmul = ops.MatMul().shard(strategy)
        self.relu = ops.ReLU()

    def construct(self, x):
        return self.relu(self.matmul(x, self.weight) + self.bias)


class Network(nn.Cell):
    def __init__(self):
        super().__init__()
        self.layer1 = Layer([16, 32], strategies[args.how][0])
        self.layer2 = Layer([32, 8], strategies[args.how][1])
        if is_staged:
            self.layer1.pipeline_stage, self.layer2.pipeline_stage = 0, 1

    def construct(self, x):
        return self.layer2(self.layer1(x))


draw = np.random.RandomState(0)
rows, labels = draw.randn(32, 16).astype(np.float32), draw.randint(8, size=32).astype(np.int32)
data_set = ds.NumpySlicesDataset((rows, labels), ["data", "label"], shuffle=False).batch(16)
net = nn.WithLossCell(Network(), nn.CrossEntropyLoss())
optimizer = nn.Adam(net.trainable_params(), 1e-2)
model = ms.Model((nn.PipelineCell if is_staged else nn.GradAccumulationCell)(net, 2), optimizer=optimizer)
if not args.epochs:
    model.build(data_set)
    raise SystemExit
if args.load:
    slices = ms.load_checkpoint(f"{args.load}/rank_{get_rank()}/new{get_rank()}.ckpt")
    layouts = model.infer_train_layout(data_set)
    missing, more = ms.load_param_into_net(model.train_network, slices)
    assert not more and not set(missing) & layouts.keys(), (missing, more)
callbacks = [train.LossMonitor()]
if args.out:
    config = train.CheckpointConfig(save_checkpoint_steps=100, integrated_save=False)
    callbacks.append(train.ModelCheckpoint("net", f"{args.out}/slices/rank_{get_rank()}", config))
model.train(args.epochs, data_set, callbacks)

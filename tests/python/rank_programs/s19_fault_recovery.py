"""Each rank saves its slices; a second run goes on from them. `--net`: only the network's parameters, as SGD needs."""

import argparse
import sys

import numpy as np

import mindspore as ms
import mindspore.dataset as ds
from mindspore import nn, ops, train
from mindspore.common.initializer import initializer
from mindspore.communication import get_rank, init

parser = argparse.ArgumentParser()
parser.add_argument("--is_recover", type=int, default=0, choices=[1, 0])
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--optimizer", default="sgd")
args_opt = parser.parse_args()

ms.set_context(mode=ms.GRAPH_MODE)
ms.set_auto_parallel_context(parallel_mode=ms.ParallelMode.SEMI_AUTO_PARALLEL)
ms.set_auto_parallel_context(enable_parallel_optimizer=True, parallel_optimizer_config={"parallel_optimizer_threshold": 0})
ms.set_auto_parallel_context(strategy_ckpt_save_file=f"./strategies/rank_{get_rank() if init() is None else 0}.ckpt")
ms.set_seed(1)


class Network(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc1_weight = ms.Parameter(initializer("normal", [16, 32], ms.float32))
        self.fc2_weight = ms.Parameter(initializer("normal", [32, 8], ms.float32))
        self.matmul1 = ops.MatMul().shard(((2, 2), (2, 1)))
        self.relu1 = ops.ReLU().shard(((4, 1),))
        self.matmul2 = ops.MatMul().shard(((1, 2), (2, 2)))

    def construct(self, x):
        return self.matmul2(self.relu1(self.matmul1(x, self.fc1_weight)), self.fc2_weight)


def create_dataset(batch_size):
    draw = np.random.RandomState(0)
    rows, labels = draw.randn(24, 16).astype(np.float32), draw.randint(8, size=24).astype(np.int32)
    return ds.NumpySlicesDataset((rows, labels), ["image", "label"], shuffle=False).batch(batch_size)


net = Network()
data_set = create_dataset(8)
if args_opt.optimizer == "adam":
    optimizer = nn.Adam(net.trainable_params(), 1e-2)
else:
    optimizer = nn.SGD(net.trainable_params(), 1e-1)
ckpt_config = train.CheckpointConfig(save_checkpoint_steps=1000, keep_checkpoint_max=4, integrated_save=False)
ckpoint_cb = train.ModelCheckpoint(prefix="checkpoint", directory="./checkpoints/rank_{}".format(get_rank()),
                                   config=ckpt_config)
model = ms.Model(net, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)

if bool(args_opt.is_recover):
    param_dict = ms.load_checkpoint("./checkpoints/rank_{}/checkpoint-2_3.ckpt".format(get_rank()))
    layouts = model.infer_train_layout(data_set)
    assert {n: list(param_dict[n].shape) for n in layouts} == {n: layout[2] for n, layout in layouts.items()}, layouts
    target = net if args_opt.optimizer == "sgd" else model.train_network
    not_loaded, left = ms.load_param_into_net(target, param_dict)
    print(f"rank {get_rank()}: {not_loaded} {sorted(left)}", file=sys.stderr)

model.train(args_opt.epochs, data_set, callbacks=[train.LossMonitor(), ckpoint_cb])

"""LeNet whose cells are placed on ranks; each rank trains and evaluates on all of the data."""

import os

import mindspore as ms
import mindspore.context as context
import mindspore.dataset as ds
from mindspore import nn
from mindspore.communication import get_rank, init
from mindspore.train import Accuracy, LossMonitor, Model, TimeMonitor

context.set_context(mode=context.GRAPH_MODE)
init()
ms.set_seed(1)


class LeNet(nn.Cell):
    def __init__(self, num_class=10, num_channel=1):
        super().__init__()
        self.conv1 = nn.Conv2d(num_channel, 6, 5, pad_mode="valid", weight_init="he_normal")
        self.conv2 = nn.Conv2d(6, 16, 5, pad_mode="valid", weight_init="he_normal")
        self.fc1 = nn.Dense(16 * 4 * 4, 32, "he_normal", "zeros")
        self.fc2 = nn.Dense(32, 24, "he_normal", "zeros")
        self.fc3 = nn.Dense(24, num_class, "he_normal", "zeros")
        self.relu = nn.ReLU()
        self.max_pool2d = nn.MaxPool2d(kernel_size=2, stride=2)
        self.flatten = nn.Flatten()

    def construct(self, x):
        x = self.max_pool2d(self.relu(self.conv1(x)))
        x = self.max_pool2d(self.relu(self.conv2(x)))
        return self.fc3(self.relu(self.fc2(self.relu(self.fc1(self.flatten(x))))))


def create_dataset(usage, batch_size=32):
    data_set = ds.MnistDataset(os.getenv("DATA_PATH"), usage=usage)
    data_set = data_set.map([ds.vision.Rescale(1.0 / 255.0, 0), ds.vision.HWC2CHW()], "image")
    return data_set.map(ds.transforms.TypeCast(ms.int32), "label").batch(batch_size, drop_remainder=True)


net = LeNet()
for rank, cell in enumerate((net.fc1, net.fc2, net.fc3, net.conv1, net.conv2)):
    cell.place("MS_WORKER", rank)
loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
model = Model(net, loss, nn.Momentum(net.trainable_params(), 0.02, 0.9), metrics={"Accuracy": Accuracy()})
model.train(2, create_dataset("train"), callbacks=[LossMonitor(5), TimeMonitor()], dataset_sink_mode=False)
accuracy = model.eval(create_dataset("test"), dataset_sink_mode=False)
if get_rank() == 0:
    print("Accuracy is:", accuracy)
print(net.fc3.weight.asnumpy().sum(), accuracy["Accuracy"])

"""The data set of the programs here: MNIST's files in the folder that DATA_PATH names."""

import os

import mindspore as ms
import mindspore.dataset as ds


def create_dataset(batch_size):
    data_set = ds.MnistDataset(os.getenv("DATA_PATH"), usage="train", num_samples=8 * batch_size)
    image_transforms = [ds.vision.Rescale(1.0 / 255.0, 0), ds.vision.Normalize(mean=(0.1307,), std=(0.3081,)),
                        ds.vision.HWC2CHW()]
    data_set = data_set.map(image_transforms, "image")
    data_set = data_set.map(ds.transforms.TypeCast(ms.int32), "label")
    return data_set.batch(batch_size)


def train(net, loss_fn, optimizer, data_set, epochs=2):
    """In the functional style: the step is one function."""
    def forward_fn(data, target):
        logits = net(data)
        return loss_fn(logits, target), logits

    grad_fn = ms.value_and_grad(forward_fn, None, net.trainable_params(), has_aux=True)

    @ms.jit
    def train_step(inputs, targets):
        (loss_value, _), grads = grad_fn(inputs, targets)
        optimizer(grads)
        return loss_value

    for epoch in range(epochs):
        for i, (image, label) in enumerate(data_set):
            loss_output = train_step(image, label)
            if i % 2 == 0:
                print("epoch: %s, step: %s, loss is %s" % (epoch, i, loss_output))

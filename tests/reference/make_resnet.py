#!/usr/bin/python3
"""Training runs of torchvision's residual networks in f64, as an outside reference.

Needs Debian's python3-torchvision. Each file holds the loss of every step, before its update, and a few final
values. Initial weights and batches are not stored: they are those that Shardwright makes of a seed, made again by counted.py.
"""
import math, os
import numpy as np, torch, torchvision
from torch import nn
import torch.nn.functional as F

import counted
from make_reference import HERE, save

SEED = 7


class Cosines(nn.Module):
    """The head of the face classifier, in place of `fc`: an embedding, and its cosines with each class, scaled."""

    def __init__(self, inputs, features, classes, scale):
        super().__init__()
        self.embedding, self.classes, self.scale = nn.Linear(inputs, features), nn.Linear(features, classes, bias=False), scale

    def forward(self, x):
        return self.scale * F.linear(F.normalize(self.embedding(x)), F.normalize(self.classes.weight))


def initial(model):
    """As Shardwright starts them (frontend/modules): convolutions normal, by their fan-out; dense layers uniform, stored as
    (in, out), the classes of a face classifier normal; norms 1 and 0, as torch does."""
    def start(parameter, values):
        with torch.no_grad():
            parameter.copy_(torch.from_numpy(np.ascontiguousarray(values)))

    for name, m in model.named_modules():
        name = name.replace('fc.', '')
        if isinstance(m, nn.Conv2d):
            deviation = math.sqrt(2 / (m.out_channels * m.kernel_size[0] * m.kernel_size[1]))
            start(m.weight, counted.normal(SEED, name + '.weight', tuple(m.weight.shape), deviation))
        elif isinstance(m, nn.Linear):
            shape, bound = (m.in_features, m.out_features), 1 / math.sqrt(m.in_features)
            if m.bias is None:
                start(m.weight, counted.normal(SEED, name + '.weight', shape, 0.01).T)
            else:
                start(m.weight, counted.uniform(SEED, name + '.weight', shape, bound).T)
                start(m.bias, counted.uniform(SEED, name + '.bias', tuple(m.bias.shape), bound))


def run(file, model, image, batch, rate, steps=5, classes=10):
    model = model.double().train()
    initial(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    losses = []
    for step in range(steps):
        x, y = counted.images(SEED, step, (batch, 3, image, image), classes)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(torch.from_numpy(x)), torch.from_numpy(y))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    kept = {'final.' + name: b.numpy() for name, b in model.named_buffers() if name.startswith('bn1.running')}
    kept.update({'final.' + name.replace('fc.embedding', 'embedding'): b.detach().numpy()
                 for name, b in model.named_parameters() if name.startswith('fc') and name.endswith('bias')})
    save(os.path.join(HERE, file + '.safetensors'), {'loss': np.array(losses), **kept},
         {'network': f'{image} x {image} pixels, {model.conv1.out_channels} channels first', 'batch': batch, 'seed': SEED,
          'loss': 'cross_entropy (mean)', 'optimizer': 'momentum', 'lr': rate, 'momentum': 0.9,
          'made by': f'torchvision {torchvision.__version__}, f64'})
    print(file, losses)


def narrowed(model, width):
    """The same network with `width` channels where there were 64."""
    scaled = lambda n: n if n == 3 else n * width // 64
    for parent in list(model.modules()):
        for name, m in list(parent.named_children()):
            if isinstance(m, nn.Conv2d):
                setattr(parent, name, nn.Conv2d(scaled(m.in_channels), scaled(m.out_channels), m.kernel_size, m.stride,
                                                m.padding, bias=False))
            elif isinstance(m, nn.BatchNorm2d):
                setattr(parent, name, nn.BatchNorm2d(scaled(m.num_features)))
            elif isinstance(m, nn.Linear):
                setattr(parent, name, nn.Linear(scaled(m.in_features), m.out_features))
    return model


def main():
    torch.set_num_threads(1)
    of = torchvision.models
    run('resnet18', narrowed(of.resnet18(num_classes=10), 8), image=32, batch=8, rate=0.02)
    face = narrowed(of.resnet18(num_classes=10), 4)
    face.fc = Cosines(32, features=8, classes=64, scale=8)
    run('face', face, image=32, batch=8, rate=0.01, classes=64)
    # A larger rate multiplies the difference that the last digit makes a hundredfold in every step.
    run('resnet50', of.resnet50(num_classes=10), image=64, batch=8, rate=0.0001)


if __name__ == '__main__':
    main()

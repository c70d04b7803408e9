#!/usr/bin/python3
"""Networks of PyTorch, exported to ONNX and trained by Shardwright: the losses must be PyTorch's.

  networks_test.py SHARDWRIGHT [--full] [NETWORK ...]

For each network: random weights, `torch.onnx.export` in training mode, five steps in PyTorch, and the same five steps of
`shardwright train NETWORK.onnx` on one device, and split on four. f64 losses must agree within 1e-7, in f32 the first loss
within 1e-5 of PyTorch's in f64, relative (of ResNet-50, PyTorch's own first loss in f32 moves by as much from run to run;
later losses drift apart, because sums are taken in another order), in mixed precision within 2e-3,
or the first within 5e-2 where batch norms amplify roundings. --full takes the networks as torchvision has them; else
widths, images and depths are small. Dropout is trained with rate 0: its masks come from other random numbers than PyTorch's.
"""
import os, sys, tempfile, time
import numpy as np, torch, torchvision
from torch import nn

from pytorch import agree, export, save, train, train_by_shardwright

STEPS, BATCH = 5, 4


class Encoder(nn.Module):
    """nn.TransformerEncoder over given vectors, one class a position."""
    def __init__(self, width, layers, classes):
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, batch_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, layers), nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.encoder(x))


class TextClassifier(nn.Module):
    """Embedding, two layers with gelu, the mean over the words."""
    def __init__(self, words, width, classes):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.hidden = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.LayerNorm(2 * width))
        self.head = nn.Linear(2 * width, classes)

    def forward(self, ids):
        return self.head(self.hidden(self.embedding(ids)).mean(1))


class NarrowVGG(nn.Module):
    """VGG-11's layers with an eighth of the channels."""
    def __init__(self, classes):
        super().__init__()
        widths = [8, 'M', 16, 'M', 32, 32, 'M', 64, 64, 'M', 64, 64, 'M']
        self.features = torchvision.models.vgg.make_layers(widths)
        self.head = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.0), nn.Linear(64, classes))

    def forward(self, x):
        return self.head(torch.flatten(self.features(x), 1))


class NarrowResNet(torchvision.models.ResNet):
    """A ResNet whose blocks have a quarter of the channels."""
    def __init__(self, block, layers, classes):
        super().__init__(block, layers)
        self.fc = nn.Linear(512 // 4 * block.expansion, classes)

    def _make_layer(self, block, planes, *more, **options):
        return super()._make_layer(block, planes // 4, *more, **options)


def images(size, classes):
    return lambda g: (g.standard_normal((BATCH, 3, size, size)), g.integers(0, classes, BATCH))


def network(name, full):
    """The network, and a function that draws a batch."""
    m, classes = torchvision.models, 10
    if name in ('resnet18', 'resnet50'):
        block, layers = (m.resnet.BasicBlock, (2, 2, 2, 2)) if name == 'resnet18' else (m.resnet.Bottleneck, (3, 4, 6, 3))
        net = getattr(m, name)(num_classes=classes) if full else NarrowResNet(block, layers, classes)
        return net, images(64 if full else 96, classes)
    if name == 'mobilenet_v2':
        net = m.mobilenet_v2(num_classes=classes, width_mult=1.0 if full else 0.25, dropout=0.0)
        return net, images(64, classes)
    if name == 'vgg11':
        return (m.vgg11(num_classes=classes, dropout=0.0), images(224, classes)) if full else \
               (NarrowVGG(classes), images(32, classes))
    if name == 'densenet121':
        net = m.densenet121(num_classes=classes) if full else \
              m.DenseNet(growth_rate=8, block_config=(6, 12, 24, 16), num_init_features=16, num_classes=classes)
        return net, images(64, classes)
    if name == 'encoder':
        width, length = (256, 32) if full else (32, 6)
        return Encoder(width, 6 if full else 2, classes), lambda g: (
            g.standard_normal((BATCH, length, width)), g.integers(0, classes, (BATCH, length)))
    if name == 'text':
        words, length = (20000, 64) if full else (100, 8)
        return TextClassifier(words, 128 if full else 16, classes), lambda g: (
            g.integers(0, words, (BATCH, length)), g.integers(0, classes, BATCH))
    raise SystemExit(f'network {name} is unknown')


# Batch norms of few elements make losses depend on rounding: those of ResNet-50 in PyTorch itself move by 1e-8 in five
# steps if images are kept with channels last, and by more at higher rates.
RATES = {'resnet50': 0.0002}  # others: 0.002
NETWORKS = ['resnet18', 'resnet50', 'mobilenet_v2', 'vgg11', 'densenet121', 'encoder', 'text']
OPSETS = {'resnet18': 9, 'mobilenet_v2': 12, 'densenet121': 13, 'encoder': 14, 'text': 16}  # others: 13


def check(shardwright, name, full, folder):
    torch.manual_seed(7)
    net, draw = network(name, full)
    g = np.random.default_rng(11)
    batches = [draw(g) for _ in range(STEPS)]
    start = {k: v.clone() for k, v in net.state_dict().items()}
    good, rate = True, RATES.get(name, 0.002)
    path, data = os.path.join(folder, f'{name}.onnx'), os.path.join(folder, f'{name}.safetensors')
    labels = np.stack([y for _, y in batches]).astype(np.int32)
    want = None
    has_norms = name not in ('vgg11', 'encoder', 'text')
    for precision, dtype, steps, tolerance in [('f64', np.float64, STEPS, 1e-7), ('f32', np.float32, 1, 1e-5),
                                               ('bf16', np.float32, 1 if has_norms else STEPS, 5e-2 if has_norms else 2e-3)]:
        net.load_state_dict(start)
        net = net.to(torch.from_numpy(np.zeros(0, dtype)).dtype)
        inputs = np.stack([x.astype(np.float32).astype(dtype) if x.dtype.kind == 'f' else x for x, _ in batches])
        export(net, torch.tensor(inputs[0]), path, OPSETS.get(name, 13))
        net.load_state_dict(start)  # an export in training mode moves the running statistics
        save(data, {'input': inputs, 'label': labels}, {})
        want = want or train(net, inputs, labels, 'cross_entropy', rate)
        splits = [['--devices', '1'], ['--devices', '4', '--parallel', 'data_parallel'], ['--devices', '4']]
        for split in splits if precision == 'f64' or precision == 'bf16' and not has_norms else splits[:1]:
            begin = time.time()
            got = train_by_shardwright(shardwright, path, data, inputs, 'cross_entropy', rate, precision, split)
            title = f'{name} {precision} {" ".join(split[1::2])} {time.time() - begin:.1f} s'
            good = agree(title, got, want, tolerance, steps) and good
    return good


def main():
    arguments = [a for a in sys.argv[2:] if a != '--full']
    good = True
    with tempfile.TemporaryDirectory(dir=os.environ.get('KEEP')) as folder:
        for name in arguments or NETWORKS:
            good = check(os.path.abspath(sys.argv[1]), name, '--full' in sys.argv, folder) and good
    sys.exit(0 if good else 1)


main()

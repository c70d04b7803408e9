"""What the tests that compare with PyTorch share: export, training, and the same training by Shardwright."""
import json, os, subprocess, sys, warnings
import numpy as np, torch
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'reference'))
from make_reference import save

warnings.filterwarnings('ignore')
torch.set_num_threads(1)
MOMENTUM = 0.9


def export(net, example, path, opset):
    net.train()
    torch.onnx.export(net, example, path, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
                      opset_version=opset, input_names=['input'], output_names=['output'],
                      dynamic_axes={'input': {0: 'batch'}, 'output': {0: 'batch'}})


def loss_of(name, output, label):
    if name == 'cross_entropy':
        return nn.functional.cross_entropy(output.flatten(0, -2), label.long().flatten())
    return nn.functional.mse_loss(output, label)


def train(net, inputs, labels, loss, rate):
    """The loss of each step, before its update."""
    optimizer, losses = torch.optim.SGD(net.parameters(), lr=rate, momentum=MOMENTUM), []
    for x, y in zip(inputs, labels):
        optimizer.zero_grad()
        value = loss_of(loss, net(torch.tensor(x)), torch.tensor(y))
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return losses


def train_by_shardwright(shardwright, path, data, inputs, loss, rate, precision, more=()):
    words = [shardwright, 'train', path, '--loss', loss, '--data', data, '--precision', precision, '--global-batch',
             str(inputs.shape[1]), '--steps', str(len(inputs)), '--json', '--optimizer', 'momentum', '--lr', str(rate),
             '--momentum', str(MOMENTUM), *more]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f'{" ".join(words)} ended with {done.returncode}: {done.stderr}')
    return [line['loss'] for line in map(json.loads, done.stdout.splitlines()) if 'loss' in line]


def agree(title, got, want, tolerance, steps):
    """Whether the first `steps` losses do; says how far they are apart."""
    worst = max(abs(a - b) / max(abs(b), 1) for a, b in zip(got[:steps], want[:steps]))
    good = len(got) == len(want) and bool(np.isfinite(want).all()) and worst <= tolerance
    print(f'  {title:45} {want[0]:.9f} -> {want[-1]:.9f}, off by {worst:.1e}{"" if good else "   FAILED"}')
    if not good:
        print(f'    wanted {want}\n    got    {got}')
    return good

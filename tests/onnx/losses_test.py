#!/usr/bin/python3
"""Losses against PyTorch's: networks that are exported with their loss are trained as they are, and --loss adds one.

  losses_test.py SHARDWRIGHT [CASE ...]

Three steps in f64, on one device and on four, and in mixed precision. The class weights of a loss must stay as they are; logits are large in some
cases, where a loss that is computed step by step would be infinite.
"""
import json, os, subprocess, sys, tempfile
import numpy as np, torch
import torch.nn.functional as F
from torch import nn

from pytorch import MOMENTUM, agree, save

STEPS, RATE = 3, 0.05
WEIGHTS = torch.tensor([0.5, 2.0, 1.0, 0.25, 3.0], dtype=torch.float64)


def classes(*shape):
    return lambda g: g.integers(0, 5, shape)


def some_ignored(*shape):
    def draw(g):
        labels = g.integers(0, 5, shape)
        labels.flat[::3] = -100
        return labels
    return draw


def bits(*shape):
    return lambda g: (g.random(shape) < 0.5).astype(np.float64)


MIX = torch.tensor(np.random.default_rng(8).standard_normal((5, 5)))


def log_likelihood(**more):
    return lambda x, t: F.nll_loss(F.log_softmax(x, 1), t, **more)


ROWS, IMAGE = (12, 5), (4, 5, 3, 2)
# Shape of the scores, labels, and the loss.
EXPORTED = {
    'mean': (ROWS, classes(12), F.cross_entropy),
    'sum': (ROWS, classes(12), lambda x, t: F.cross_entropy(x, t, reduction='sum')),
    'none': (ROWS, classes(12), lambda x, t: F.cross_entropy(x, t, reduction='none').square().mean()),
    'weights': (ROWS, classes(12), lambda x, t: F.cross_entropy(x, t, WEIGHTS)),
    'weights_of_module': (ROWS, classes(12), nn.CrossEntropyLoss(WEIGHTS)),
    'ignored': (ROWS, some_ignored(12), F.cross_entropy),
    'ignored_class': (ROWS, classes(12), lambda x, t: F.cross_entropy(x, t, ignore_index=3)),
    'weights_and_ignored': (IMAGE, some_ignored(4, 3, 2), lambda x, t: F.cross_entropy(x, t, WEIGHTS)),
    'pixels': (IMAGE, classes(4, 3, 2), F.cross_entropy),
    'large_scores': (ROWS, classes(12), lambda x, t: F.cross_entropy(1000 * x, t)),
    'likelihood': (ROWS, classes(12), log_likelihood()),
    'likelihood_of_pixels': (IMAGE, some_ignored(4, 3, 2), log_likelihood(weight=WEIGHTS)),
    'likelihood_sum': (ROWS, classes(12), log_likelihood(reduction='sum', ignore_index=0)),
    'binary': (ROWS, bits(12, 5), F.binary_cross_entropy_with_logits),
    'binary_of_large': (ROWS, bits(12, 5), lambda x, t: F.binary_cross_entropy_with_logits(1000 * x, t)),
    'binary_weighted': (ROWS, bits(12, 5), lambda x, t: F.binary_cross_entropy_with_logits(
        x, t, torch.tensor(0.5, dtype=torch.float64), pos_weight=WEIGHTS)),
    'binary_by_hand': (ROWS, bits(12, 5), lambda x, t: -(t * torch.sigmoid(x).log() + (1 - t) * (1 - torch.sigmoid(x)).log()).mean()),
    'of_product': (ROWS, classes(12), lambda x, t: F.cross_entropy(x @ MIX, t)),
    'likelihood_of_product': (ROWS, some_ignored(12), lambda x, t: log_likelihood(weight=WEIGHTS)(x @ MIX, t)),
    'binary_of_product': (ROWS, bits(12, 5), lambda x, t: F.binary_cross_entropy_with_logits(x @ MIX, t)),
    'many_squares_of_product': ((8192, 5), bits(8192, 5), lambda x, t: (x @ MIX - t).square().sum() / 8192),
    'squares': (ROWS, bits(12, 5), lambda x, t: (x - t).square().mean()),
}
# Those that --loss adds to a network that gives scores: shape, labels, PyTorch's loss, and ours.
ADDED = {
    'added_binary': (ROWS, bits(12, 5), F.binary_cross_entropy_with_logits, 'binary_cross_entropy'),
    'added_binary_of_large': (ROWS, bits(12, 5), lambda x, t: F.binary_cross_entropy_with_logits(1000 * x, t),
                              'binary_cross_entropy'),
}


class Net(nn.Module):
    """Scores that parameters shift, and the loss, if there is one; `scale` is what the loss is told without."""
    def __init__(self, shape, loss, scale=1):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(shape[1:], dtype=torch.float64) + 0.5)
        self.loss, self.scale = loss, scale

    def forward(self, x, *target):
        scores = x * self.weight
        return self.loss(scores, *target) if self.loss else scores * self.scale


def run(shardwright, path, data, words, precision='f64'):
    command = [shardwright, 'train', path, '--data', data, '--precision', precision, '--steps', str(STEPS), '--json',
               '--optimizer', 'momentum', '--lr', str(RATE), '--momentum', str(MOMENTUM), *words]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        print(f'{" ".join(command)} ended with {done.returncode}: {done.stderr}')
        return [], done.stderr
    return [line['loss'] for line in map(json.loads, done.stdout.splitlines()) if 'loss' in line], done.stderr


def check(shardwright, name, folder):
    torch.manual_seed(3)
    is_added = name in ADDED
    shape, draw, loss, *flag = ADDED[name] if is_added else EXPORTED[name]
    scale = 1000 if name == 'added_binary_of_large' else 1
    net, g = Net(shape, loss), np.random.default_rng(5)
    inputs = g.standard_normal((STEPS, *shape))
    targets = np.stack([draw(g) for _ in range(STEPS)])
    exported = Net(shape, None if is_added else loss, scale)
    exported.load_state_dict(net.state_dict())
    example = (torch.tensor(inputs[0]),) if is_added else (torch.tensor(inputs[0]), torch.tensor(targets[0]))
    label = 'label' if is_added else 'target'
    path, data = os.path.join(folder, f'{name}.onnx'), os.path.join(folder, f'{name}.safetensors')
    torch.onnx.export(exported, example, path, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
                      opset_version=13, input_names=['input', 'target'][:len(example)], output_names=['output'])
    save(data, {'input': inputs, label: targets}, {})
    optimizer, want = torch.optim.SGD(net.parameters(), lr=RATE, momentum=MOMENTUM), []
    for x, t in zip(inputs, targets):
        optimizer.zero_grad()
        value = net(torch.tensor(x), torch.tensor(t))
        value.backward()
        optimizer.step()
        want.append(value.item())
    good = True
    for words in ([], ['--devices', '4', '--parallel', 'data_parallel']):
        got, said = run(shardwright, path, data, [*words, *(['--loss', *flag] if is_added else [])])
        good = agree(f'{name} {" ".join(words)}', got, want, 1e-9, STEPS) and good
        if ("no --loss: its first output 'output' is the loss" in said) == is_added:
            print(f'    said {said!r}')
            good = False
    if not name.endswith('large') and name != 'large_scores':  # of scores in 8 bits these are something else
        for precision, more in (('bf16', []), ('fp16', ['--loss-scale', '64'])):
            got, _ = run(shardwright, path, data, [*more, *(['--loss', *flag] if is_added else [])], precision)
            good = agree(f'{name} {precision}', got, want, 2e-2, STEPS) and good
    return good


def main():
    good = True
    with tempfile.TemporaryDirectory(dir=os.environ.get('KEEP')) as folder:
        for name in sys.argv[2:] or [*EXPORTED, *ADDED]:
            good = check(os.path.abspath(sys.argv[1]), name, folder) and good
    sys.exit(0 if good else 1)


main()

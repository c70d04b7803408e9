#!/usr/bin/python3
"""Operators that PyTorch exports to ONNX, one by one: Shardwright trains with PyTorch's losses.

  operators_test.py SHARDWRIGHT [--opsets 9,13,16] [CASE ...]

A case is a function of x = input * weight + bias, so that its gradient shows in the losses after the first. Three steps in
f64; operators that an operator set does not have yet are left out there, and the test says how many were run.
"""
import os, sys, tempfile
import numpy as np, torch
import torch.nn.functional as F
from torch import nn

from pytorch import agree, export, save, train, train_by_shardwright

OPSETS = [9, 11, 13, 16]
MATRIX, IMAGE, SEQUENCE, VOLUME = (4, 6), (4, 3, 8, 6), (4, 5, 6), (4, 2, 5, 6, 4)


class Net(nn.Module):
    """A case behind an affine function; `modules` have parameters of their own."""
    def __init__(self, shape, function, *modules):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(shape[1:]) + 0.5)
        self.bias = nn.Parameter(torch.randn(shape[1:]) * 0.3)
        self.parts, self.function = nn.ModuleList(modules), function

    def forward(self, x):
        return self.function(x * self.weight + self.bias, *self.parts)


def positive(f):
    return lambda x: f(x.abs() + 0.5)


def batch_of(x):
    return x.shape[0]


CASES = {
    # elements
    'arithmetic': (MATRIX, lambda x: (x + 2) * (x - 0.5) / (x * x + 3) - 3 * x + x / 4 + (1 - x)),
    'powers': (MATRIX, positive(lambda x: x**2 + x**3 + x**0.5 + torch.pow(x, x) + torch.pow(2.0, x) + x**-1)),
    'functions': (MATRIX, positive(lambda x: x.sqrt() + x.exp() + x.log() + x.reciprocal() + x.sin() + x.cos() + x.abs())),
    'activations': (MATRIX, lambda x: x.tanh() + x.sigmoid() + x.relu() + F.softplus(x) + F.elu(x, 0.7) + torch.erf(x)),
    'kinked': (MATRIX, lambda x: F.leaky_relu(x, 0.2) + F.relu6(3 * x) + x.clamp(-0.5, 1.5) + x.clamp(min=0.1) - x),
    'gelu': (MATRIX, lambda x: F.gelu(x) + F.silu(x) + F.gelu(x, approximate='tanh')),
    'hard': (MATRIX, lambda x: F.hardswish(x) + F.hardsigmoid(x)),
    'prelu': (IMAGE, lambda x, p: p(x), nn.PReLU(3)),
    'extremes': (MATRIX, lambda x: torch.max(x, 0.5 * x.flip(0)) + torch.min(x, x.t().reshape(4, 6))),
    'steps': (MATRIX, lambda x: x.floor() + x.ceil() + x.round() + x.sign() + x),
    'comparisons': (MATRIX, lambda x: torch.where((x > 0) & (x < 1) | (x >= 1.5), x, 0.1 * x) + (x <= 0.2).to(x.dtype)),
    'not_equal': (MATRIX, lambda x: torch.where(x != 0, x * 2, x) + torch.where(~(x == 1), x, x * 3)),
    'masked': (MATRIX, lambda x: x.masked_fill(torch.ones(6, 6, dtype=torch.bool).triu(1)[:4], -1.0)),
    # shapes
    'views': (IMAGE, lambda x: x.view(batch_of(x), -1).reshape(batch_of(x), 12, 12).unsqueeze(1).squeeze(1).flatten(1)),
    'orders': (IMAGE, lambda x: x.permute(0, 2, 3, 1).contiguous().view(x.size(0), x.size(2), -1).transpose(1, 2)),
    'parts': (IMAGE, lambda x: torch.cat([*x.split([1, 2], 1), *x.chunk(3, 1)[:2]], 1)),
    'slices': (IMAGE, lambda x: x[:, 1:, ::2, -3:] + x[:, :1, 1::2, :3] + x[:, [0, 2]][:, :, :4, :3]),
    'one_index': (SEQUENCE, lambda x: x[:, 0] + x[:, -1] * x[:, 2]),
    'expanded': (SEQUENCE, lambda x: x[:, :1].expand(-1, 5, -1) * x + x[:, :, :1].expand_as(x)),
    'tiled': (MATRIX, lambda x: x.repeat(1, 3)[:, 2:14]),
    'padded': (IMAGE, lambda x: F.pad(x, (1, 2, 0, 3), value=0.5)),
    'padded_by_elements': (IMAGE, lambda x: F.pad(x, (2, 1, 3, 0), mode='reflect') + F.pad(x, (1, 2, 0, 3), mode='replicate')),
    'cut': (IMAGE, lambda x: F.pad(x, (-1, 2, 0, -3))),
    'pixel_shuffle': ((4, 8, 3, 2), lambda x: F.pixel_shuffle(x, 2) * 2),
    'pixel_unshuffle': (IMAGE, lambda x: F.pixel_unshuffle(x, 2) * 2),
    'gathered': (SEQUENCE, lambda x: x.gather(1, torch.tensor([[[0, 4, 2, 1, 3, 0], [4, 4, 0, 1, 2, 3]]]).expand(4, 2, 6))),
    'scattered': (SEQUENCE, lambda x: x.scatter(1, torch.tensor([[[0, 4, 2, 1, 3, 0]]]).expand(4, 1, 6), x[:, 1:2] * 3)),
    'put': (MATRIX, lambda x: torch.zeros(7, 6, dtype=x.dtype).index_put((torch.tensor([6, 0, 3, 1]),), x)[:6] * 2),
    'top_k': (SEQUENCE, lambda x: x.topk(3, 1)[0] + x.topk(3, 1, largest=False)[0] * 2),
    'stacked': (MATRIX, lambda x: torch.stack([x, x * x], 1)),
    'made': (SEQUENCE, lambda x: x + torch.arange(x.size(1), dtype=x.dtype).view(1, -1, 1) * 0.1 + torch.zeros_like(x) + 1),
    'of_shapes': (SEQUENCE, lambda x: x.reshape(x.size(0) * x.size(1) // 5, x.size(1), x.size(2) // 2, 2).sum(-1)),
    # reductions
    'sums': (SEQUENCE, lambda x: x.sum(1) + x.mean(1) + x.mean((1, 2), keepdim=True).squeeze(-1)),
    'largest': (SEQUENCE, lambda x: x.amax(1) - x.amin(1)),
    'norms_of_vectors': (SEQUENCE, lambda x: x / x.norm(dim=2, keepdim=True) + x.norm(p=1, dim=2, keepdim=True)),
    'products_along': (SEQUENCE, lambda x: x.prod(1) + x.prod(2, keepdim=True).sum(1)),
    'softmax': (SEQUENCE, lambda x: x.softmax(-1) + x.log_softmax(2) + x.softmax(1)),
    'variance': (SEQUENCE, lambda x: (x - x.mean(2, keepdim=True)) / (x.var(2, unbiased=False, keepdim=True) + 1e-3).sqrt()),
    'cumulative': (SEQUENCE, lambda x: x.cumsum(1)),
    'log_sum': (SEQUENCE, lambda x: x.exp().sum(1).log()),
    # layers
    'linear': (SEQUENCE, lambda x, a, b: b(torch.tanh(a(x))), nn.Linear(6, 4), nn.Linear(4, 3, bias=False)),
    'gemm': (MATRIX, lambda x, a: a(x), nn.Linear(6, 5)),
    'products': (SEQUENCE, lambda x: x @ x.transpose(1, 2) @ x + (x @ torch.ones(6, dtype=x.dtype)).unsqueeze(-1)),
    'product_of_broadcast': (IMAGE, lambda x: torch.matmul(x[:, :1], x.transpose(2, 3))),
    'conv': (IMAGE, lambda x, a, b: b(torch.relu(a(x))), nn.Conv2d(3, 4, 3, padding=1, stride=2), nn.Conv2d(4, 2, (2, 1), dilation=(2, 1), bias=False)),
    'grouped_conv': (IMAGE, lambda x, a: a(x), nn.Conv2d(3, 6, 3, groups=3, padding=(1, 0))),
    'einsum': (SEQUENCE, lambda x: torch.einsum('bij,bkj->bik', x, x) + torch.einsum('bij,bkj,bil->bkl', x, x, x)[:, :, :5] + torch.einsum('bii->bi', x[:, :, :5]).unsqueeze(1)),
    'conv3d': (VOLUME, lambda x, a: a(x), nn.Conv3d(2, 4, (2, 3, 1), padding=(1, 0, 2), stride=(2, 1, 1), dilation=(2, 1, 1), groups=2)),
    'transposed_conv': (IMAGE, lambda x, a, b: b(torch.relu(a(x))), nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1), nn.ConvTranspose2d(4, 2, (2, 1), dilation=(2, 1), groups=2)),
    'transposed_conv1d': (SEQUENCE, lambda x, a: a(x), nn.ConvTranspose1d(5, 4, 3, stride=3)),
    'transposed_conv3d': (VOLUME, lambda x, a: a(x), nn.ConvTranspose3d(2, 3, (3, 2, 1), stride=(2, 1, 2), padding=(1, 0, 0), output_padding=(1, 0, 1))),
    'conv1d': (SEQUENCE, lambda x, a: a(x), nn.Conv1d(5, 4, 3, padding=1)),
    'pools': (IMAGE, lambda x, p, q: p(x) + q(x), nn.MaxPool2d(3, 2, 1), nn.AvgPool2d(3, 2, 1)),
    'pools_without_pads': (IMAGE, lambda x: F.avg_pool2d(x, 2, padding=1, stride=2, count_include_pad=False)[:, :, :4, :3] + F.max_pool2d(x, 2)),
    'global_pools': (IMAGE, lambda x: F.adaptive_avg_pool2d(x, 1) + F.adaptive_max_pool2d(x, 1)),
    'pool1d': (SEQUENCE, lambda x: F.max_pool1d(x, 2) + F.avg_pool1d(x, 2)),
    'pool3d': (VOLUME, lambda x: F.max_pool3d(x, (3, 2, 2), (1, 2, 1), (1, 1, 0))[:, :, :4, :3] + F.avg_pool3d(x, (2, 3, 2), (1, 2, 1), (0, 1, 0))[:, :, :4, :3]),
    'pools_rounded_up': (IMAGE, lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True) + F.avg_pool2d(x, 3, 2, padding=0, ceil_mode=True)),
    'places_of_largest': (IMAGE, lambda x: x[:, :, :4, :3] * F.max_pool2d(x, 2, return_indices=True)[1]),
    'norm_pool': (IMAGE, lambda x: F.lp_pool2d(x.abs() + 0.1, 3, 2, 2)),
    'upsampled': (IMAGE, lambda x: F.interpolate(x, scale_factor=2) + F.interpolate(x, (16, 12), mode='bilinear')),
    'resized': (IMAGE, lambda x: F.interpolate(x, (5, 9), mode='bicubic') + F.interpolate(x, (5, 9), mode='bilinear', align_corners=True) + F.interpolate(x, (5, 9))),
    'sampled': ((4, 4, 5, 6), lambda x: sum(F.grid_sample(x[:, :2], x[:, 2:].permute(0, 2, 3, 1) * 0.9, mode, padding, corners)
                                            for mode in ('bilinear', 'nearest', 'bicubic') for padding in ('zeros', 'border', 'reflection') for corners in (True, False))),
    'shrunk': (MATRIX, lambda x: F.hardshrink(x, 0.3) + F.softshrink(x, 0.4) * 2),
    'lstm': (SEQUENCE, lambda x, a: a(x)[0] + a(x)[1][1].sum(), nn.LSTM(6, 3, 2, batch_first=True, bidirectional=True)),
    'gru': (SEQUENCE, lambda x, a: a(x)[0] + a(x)[1].sum(), nn.GRU(6, 4, batch_first=True)),
    'rnn': (SEQUENCE, lambda x, a: a(x)[0], nn.RNN(6, 3, batch_first=True, nonlinearity='relu', bidirectional=True)),
    'batch_norm': (IMAGE, lambda x, n: n(x), nn.BatchNorm2d(3)),
    'batch_norm_of_vectors': (MATRIX, lambda x, n: torch.tanh(n(x)), nn.BatchNorm1d(6, momentum=0.3)),
    'layer_norm': (SEQUENCE, lambda x, n: n(x), nn.LayerNorm(6)),
    'instance_norm': (IMAGE, lambda x, n: n(x), nn.InstanceNorm2d(3, affine=True)),
    'group_norm': ((4, 4, 6, 2), lambda x, n: n(x), nn.GroupNorm(2, 4)),
    'dropout_of_rate_0': (MATRIX, lambda x: F.dropout(x, 0.0)),
    'attention': (SEQUENCE, lambda x, a: a(x, x, x, need_weights=False)[0], nn.MultiheadAttention(6, 2, batch_first=True)),
}
# What an operator set has not yet: PyTorch refuses the export.
NOT_YET = {'extremes': 11, 'slices': 11, 'steps': 11, 'cumulative': 11, 'pools_without_pads': 11, 'einsum': 12, 'resized': 11, 'sampled': 16,
           'scattered': 16, 'put': 11, 'top_k': 11, 'pools_rounded_up': 11, 'gathered': 11, 'padded_by_elements': 11, 'cut': 11, 'upsampled': 11,
           'pixel_shuffle': 11, 'pixel_unshuffle': 13, 'pool3d': 11, 'places_of_largest': 11, 'norm_pool': 11, 'lstm': 13, 'gru': 13, 'rnn': 13}
# Numbers that ONNX holds as f32, such as 1/6.
LOOSE = {'hard': 1e-7}


def check(shardwright, name, opset, folder):
    torch.manual_seed(3)
    shape, function, *modules = CASES[name]
    net = Net(shape, function, *modules).double()
    start = {k: v.clone() for k, v in net.state_dict().items()}
    g = np.random.default_rng(5)
    inputs = g.standard_normal((3, *shape))
    path, data = os.path.join(folder, f'{name}_{opset}.onnx'), os.path.join(folder, f'{name}.safetensors')
    export(net, torch.tensor(inputs[0]), path, opset)
    labels = g.standard_normal((3, *net(torch.tensor(inputs[0])).shape))
    net.load_state_dict(start)
    save(data, {'input': inputs, 'label': labels}, {})
    want = train(net, inputs, labels, 'mean_squared_error', 0.01)
    net.load_state_dict(start)
    got = train_by_shardwright(shardwright, path, data, inputs, 'mean_squared_error', 0.01, 'f64')
    return agree(f'{name}, operator set {opset}', got, want, LOOSE.get(name, 1e-9), 3)


def main():
    words, opsets = sys.argv[2:], OPSETS
    if '--opsets' in words:
        at = words.index('--opsets')
        opsets = [int(v) for v in words[at + 1].split(',')]
        del words[at:at + 2]
    good, count = True, 0
    with tempfile.TemporaryDirectory(dir=os.environ.get('KEEP')) as folder:
        for opset in opsets:
            for name in words or CASES:
                if opset < NOT_YET.get(name, 0):
                    continue
                good = check(os.path.abspath(sys.argv[1]), name, opset, folder) and good
                count += 1
    print(f'{count} runs')
    sys.exit(0 if good else 1)


main()

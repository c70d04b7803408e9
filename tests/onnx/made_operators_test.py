#!/usr/bin/python3
"""ONNX operators that PyTorch 1.13 does not export: files that are made node by node train with PyTorch's losses.

  made_operators_test.py SHARDWRIGHT [CASE ...]

A case is a node, or a few, of parts of x = input * weight + bias, and the same in PyTorch. Three steps in f64.
"""
import os, sys, tempfile
import numpy as np, torch
import torch.nn.functional as F
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from pytorch import agree, save, train, train_by_shardwright

OPSET = 17  # the highest that onnx 1.12 knows; what the operators mean does not depend on it


class Net(nn.Module):
    def __init__(self, shape, function):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(shape[1:]) + 0.5)
        self.bias = nn.Parameter(torch.randn(shape[1:]) * 0.3)
        self.function = function

    def forward(self, x):
        return self.function(x * self.weight + self.bias)


def heads(x, count):
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def attention(q, k, v, allowed=None, scale=None, cap=0.0):
    """Who sees no key gets 0."""
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    scores = q @ k.mT * (scale or q.shape[-1] ** -0.5)
    if cap:
        scores = torch.tanh(scores / cap) * cap
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -1e30)
        return (scores.softmax(-1) * allowed) @ v
    return scores.softmax(-1) @ v


def of_heads(y):
    return y.transpose(1, 2).flatten(2)


def thirds(x, sizes=(8, 4, 4)):
    return x.split(sizes, -1)


def grouped(x, **more):
    q, k, v = thirds(x)
    return of_heads(attention(heads(q, 4), heads(k, 2), heads(v, 2), **more))


CAUSAL = torch.ones(5, 5).tril().bool()
NEAR = torch.tensor([[-1 <= j - i <= 2 for j in range(5)] for i in range(5)])
MASK = torch.tensor([[1, 0, 1, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 1], [1, 1, 0, 0, 0]]).bool()
ANGLES = torch.arange(5.0).unsqueeze(1) * torch.tensor([[1.0, 0.3]])


def rotated(x, interleaved):
    """Of heads of 6, the first 4 elements."""
    v = x.unflatten(-1, (2, 6))
    a, b = (v[..., 0:4:2], v[..., 1:4:2]) if interleaved else (v[..., :2], v[..., 2:4])
    c, s = (t.double().unsqueeze(1) for t in (ANGLES.cos(), ANGLES.sin()))
    pair = [a * c - b * s, a * s + b * c]
    turned = torch.stack(pair, -1).flatten(-2) if interleaved else torch.cat(pair, -1)
    return torch.cat([turned, v[..., 4:]], -1).flatten(2)


def gated_delta(x):
    q, k, v, decay, beta = x.split([8, 4, 6, 2, 2], -1)
    q, k, v = heads(q, 4), heads(k, 2), heads(v, 2)
    state, out = torch.zeros(4, 2, 2, 3, dtype=x.dtype), []
    for t in range(x.shape[1]):
        state = state * decay[:, t].exp()[..., None, None]
        fresh = beta[:, t, :, None] * (v[:, :, t] - torch.einsum('bhde,bhd->bhe', state, k[:, :, t]))
        state = state + k[:, :, t, :, None] * fresh[:, :, None]
        out.append(torch.einsum('bhd,bhde->bhe', q[:, :, t], state.repeat_interleave(2, 1)) * 2 ** -0.5)
    return torch.stack(out, 1).flatten(2)


def causal_conv(x):
    y = F.conv1d(F.pad(x, (2, 0)), KERNEL.double(), groups=5)
    return F.silu(y)


KERNEL = torch.tensor([[[0.5, -1.0, 2.0]]]).repeat(5, 1, 1) * torch.arange(1, 6).view(5, 1, 1)
SPLIT = ('Split', ['x', 'sizes'], ['q', 'k', 'v'], {'axis': -1})
GQA = {'q_num_heads': 4, 'kv_num_heads': 2}


def split_in(*sizes):
    return {'sizes': np.array(sizes, np.int64)}


def body(name, nodes, inputs, outputs):
    value = lambda v: helper.make_tensor_value_info(v, TensorProto.DOUBLE, None)
    return helper.make_graph([helper.make_node(op, ins, outs) for op, ins, outs in nodes], name, [value(v) for v in inputs], [value(v) for v in outputs])


def scanned(x):
    """From the last row on: y = tanh(y + x row), and all of them."""
    y, out = torch.zeros(4, 6, dtype=x.dtype), []
    for t in reversed(range(5)):
        y = torch.tanh(y + x[:, t] * x[:, 0])
        out.append(y * 2)
    return torch.stack(out, 1) + y.unsqueeze(1)


def looped(x):
    """Three rounds of y = y sin(x) + x / 2."""
    y = x
    for _ in range(3):
        y = y * torch.sin(x) + x * 0.5
    return y


def offsets_of(x):
    """A convolution of the first two channels, one row of two taps, at places that the others say."""
    image, by = x[:, :2], x[:, 2:]
    out = 0
    for tap in range(2):
        rows = torch.arange(5.0, dtype=x.dtype).view(1, 5, 1) + by[:, 2 * tap, :, :4]
        columns = torch.arange(4.0, dtype=x.dtype).view(1, 1, 4) + tap + by[:, 2 * tap + 1, :, :4]
        grid = torch.stack([columns / 2 - 1, rows / 2 - 1], -1)
        out = out + torch.einsum('bchw,oc->bohw', F.grid_sample(image, grid, align_corners=True), TAPS.double()[:, :, 0, tap])
    return out


TAPS = torch.tensor([[[[1.0, -0.5]], [[0.5, 2.0]]], [[[-1.0, 1.0]], [[0.25, 0.5]]], [[[0.0, 1.5]], [[1.0, -1.0]]]])
SCAN = body('scan', [('Mul', ['row', 'first'], ['p']), ('Add', ['before', 'p'], ['s']), ('Tanh', ['s'], ['after']), ('Add', ['after', 'after'], ['twice'])],
            ['before', 'row'], ['after', 'twice'])
LOOP = body('loop', [('Identity', ['go'], ['goes']), ('Sin', ['x'], ['s']), ('Mul', ['before', 's'], ['p']), ('Mul', ['x', 'half'], ['h']), ('Add', ['p', 'h'], ['after'])],
            ['round', 'go', 'before'], ['goes', 'after'])
# shape, nodes, constants by name, the function
CASES = {
    'attention': ((4, 5, 16), [SPLIT, ('Attention', ['q', 'k', 'v'], ['y'], GQA)], split_in(8, 4, 4), grouped),
    'attention_causal': ((4, 5, 16), [SPLIT, ('Attention', ['q', 'k', 'v'], ['y'], {**GQA, 'is_causal': 1, 'scale': 0.25})],
                         split_in(8, 4, 4), lambda x: grouped(x, allowed=CAUSAL, scale=0.25)),
    'attention_masked': ((4, 5, 16), [SPLIT, ('Attention', ['q', 'k', 'v', 'mask'], ['y'], GQA)],
                         {**split_in(8, 4, 4), 'mask': MASK.numpy()}, lambda x: grouped(x, allowed=MASK)),
    'attention_bent': ((4, 5, 16), [SPLIT, ('Attention', ['q', 'k', 'v', 'mask'], ['y'], {**GQA, 'softcap': 2.0, 'is_causal': 1})],
                       {**split_in(8, 4, 4), 'mask': MASK.numpy()}, lambda x: grouped(x, allowed=MASK & CAUSAL, cap=2.0)),
    'attention_window': ((4, 5, 16), [SPLIT, ('Attention', ['q', 'k', 'v'], ['y'], {**GQA, 'left_window_size': 1, 'right_window_size': 2})],
                         split_in(8, 4, 4), lambda x: grouped(x, allowed=NEAR)),
    'rotary': ((4, 5, 12), [('RotaryEmbedding', ['x', 'cos', 'sin', 'places'], ['y'], {'num_heads': 2, 'rotary_embedding_dim': 4})],
               {'cos': ANGLES.cos().numpy(), 'sin': ANGLES.sin().numpy(), 'places': np.tile(np.arange(5), (4, 1))}, lambda x: rotated(x, False)),
    'rotary_interleaved': ((4, 5, 12), [('RotaryEmbedding', ['x', 'cos', 'sin', 'places'], ['y'],
                                         {'num_heads': 2, 'rotary_embedding_dim': 4, 'interleaved': 1})],
                           {'cos': ANGLES.cos().numpy(), 'sin': ANGLES.sin().numpy(), 'places': np.tile(np.arange(5), (4, 1))}, lambda x: rotated(x, True)),
    'rms_norm': ((4, 5, 6), [('RMSNormalization', ['x', 'ones'], ['y'], {'axis': 1, 'epsilon': 0.01})], {'ones': np.ones((5, 6), np.int64)},
                 lambda x: x / (x.square().mean((1, 2), keepdim=True) + 0.01).sqrt()),
    'group_norm': ((4, 4, 6), [('GroupNormalization', ['x', 'ones', 'zeros'], ['y'], {'num_groups': 2})],
                   {'ones': np.ones(2, np.int64), 'zeros': np.zeros(2, np.int64)}, lambda x: F.group_norm(x, 2)),
    'response_norm': ((4, 5, 3, 2), [('LRN', ['x'], ['y'], {'size': 3, 'alpha': 0.5, 'beta': 0.6, 'bias': 1.5})], {},
                      lambda x: F.local_response_norm(x, 3, 0.5, 0.6, 1.5)),
    'lp_norm': ((4, 5, 6), [('LpNormalization', ['x'], ['y'], {'axis': 1, 'p': 2})], {}, lambda x: F.normalize(x, dim=1)),
    'linear_attention': ((4, 5, 22), [('Split', ['x', 'sizes'], ['q', 'k', 'v', 'd', 'b'], {'axis': -1}),
                                      ('LinearAttention', ['q', 'k', 'v', '', 'd', 'b'], ['y', 's'], GQA)], split_in(8, 4, 6, 2, 2), gated_delta),
    'causal_conv': ((4, 5, 6), [('CausalConvWithState', ['x', 'kernel'], ['y'], {'activation': 'silu'})], {'kernel': KERNEL.numpy()}, causal_conv),
    'swiglu': ((4, 8), [('Split', ['x', 'sizes'], ['a', 'b'], {'axis': -1}), ('SwiGLU', ['a', 'b'], ['y'], {'alpha': 1.5})], split_in(4, 4),
               lambda x: x[:, :4] * torch.sigmoid(1.5 * x[:, :4]) * x[:, 4:]),
    'affine_grid': ((4, 2, 3), [('AffineGrid', ['x', 'size'], ['y'], {})], {'size': np.array([4, 3, 5, 6], np.int64)},
                    lambda x: F.affine_grid(x, (4, 3, 5, 6), align_corners=False)),
    'cumulative_product': ((4, 5, 6), [('CumProd', ['x', 'dim'], ['y'], {})], {'dim': np.array(1, np.int64)}, lambda x: x.cumprod(1)),
    'cumulative_product_back': ((4, 5, 6), [('CumProd', ['x', 'dim'], ['y'], {'reverse': 1, 'exclusive': 1})], {'dim': np.array(2, np.int64)},
                                lambda x: torch.cat([x.flip(2).cumprod(2).flip(2)[:, :, 1:], torch.ones_like(x[:, :, :1])], 2)),
    'largest_of_places': ((4, 5), [('ScatterElements', ['x', 'at', 'x'], ['y'], {'axis': 1, 'reduction': 'max'})],
                          {'at': np.array([[1, 0, 1, -1, 2]] * 4)}, lambda x: x.scatter_reduce(1, torch.tensor([[1, 0, 1, 4, 2]] * 4), x, 'amax')),
    'rows_of_places': ((4, 5), [('GatherND', ['x', 'at'], ['y'], {'batch_dims': 1})], {'at': np.array([[[1], [-1]]] * 4)}, lambda x: x[:, [1, 4]]),
    'put_back': ((4, 2, 6, 6), [('MaxPool', ['x'], ['p', 'i'], {'kernel_shape': [2, 2], 'strides': [2, 2]}),
                                ('MaxUnpool', ['p', 'i'], ['y'], {'kernel_shape': [2, 2], 'strides': [2, 2]})], {},
                 lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2)),
    'columns': ((4, 12, 9), [('Col2Im', ['x', 'size', 'block'], ['y'], {})], {'size': np.array([4, 4]), 'block': np.array([2, 2])},
                lambda x: F.fold(x, (4, 4), (2, 2))),
    'scan': ((4, 5, 6), [('Gather', ['x', 'zero'], ['first'], {'axis': 1}), ('Scan', ['start', 'x'], ['last', 'all'], {
        'body': SCAN, 'num_scan_inputs': 1, 'scan_input_axes': [1], 'scan_input_directions': [1], 'scan_output_axes': [1]}),
                         ('Unsqueeze', ['last', 'one'], ['wide'], {}), ('Add', ['all', 'wide'], ['y'], {})],
             {'zero': np.array(0), 'one': np.array([1]), 'start': np.zeros((4, 6), np.float64)}, scanned),
    'loop': ((4, 6), [('Loop', ['count', '', 'x'], ['y'], {'body': LOOP})], {'count': np.array(3), 'half': np.array(0.5)}, looped),
    'lists': ((4, 6), [('SplitToSequence', ['x', 'two'], ['parts'], {'axis': 1}), ('SequenceLength', ['parts'], ['count'], {}), ('SequenceAt', ['parts', 'last'], ['tail'], {}),
                       ('SequenceInsert', ['parts', 'tail', 'first'], ['more'], {}), ('SequenceErase', ['more'], ['fewer'], {}),
                       ('ConcatFromSequence', ['fewer'], ['flat'], {'axis': 1}), ('Cast', ['count'], ['number'], {'to': TensorProto.DOUBLE}), ('Mul', ['flat', 'number'], ['y'], {})],
              {'two': np.array(2), 'last': np.array(-1), 'first': np.array(0)}, lambda x: torch.cat([x[:, 4:], x[:, :4]], 1) * 3),
    'list_of_rows': ((4, 6), [('SplitToSequence', ['x'], ['rows'], {'axis': 1, 'keepdims': 0}), ('ConcatFromSequence', ['rows'], ['y'], {'axis': -1, 'new_axis': 1})],
                     {}, lambda x: x * 1),
    'deformed': ((4, 6, 5, 5), [('Split', ['x', 'sizes'], ['image', 'by'], {'axis': 1}), ('Slice', ['by', 'from', 'to', 'dim'], ['offsets'], {}),
                                ('DeformConv', ['image', 'taps', 'offsets'], ['y'], {})],
                 {**split_in(2, 4), 'taps': TAPS.numpy(), 'from': np.array([0]), 'to': np.array([4]), 'dim': np.array([3])}, offsets_of),
    'padded_by_a_number': ((4, 6), [('ReduceSum', ['x'], ['sum'], {'keepdims': 0}), ('Pad', ['x', 'pads', 'sum'], ['y'], {})],
                           {'pads': np.array([0, 1, 0, 2])}, lambda x: torch.cat([x.sum().expand(4, 1), x, x.sum().expand(4, 2)], 1)),
    'determinant': ((4, 5, 3, 3), [('Det', ['x'], ['y'], {})], {}, torch.det),
}


def write(net, shape, nodes, constants, path, rank):
    """x = input weight + bias before the nodes; constants, also those that are numbers, are no initializers of floats."""
    made = [helper.make_node('Mul', ['input', 'weight'], ['scaled'], 'Mul'), helper.make_node('Add', ['scaled', 'bias'], ['x'], 'Add')]
    tensors = [numpy_helper.from_array(net.weight.detach().numpy(), 'weight'), numpy_helper.from_array(net.bias.detach().numpy(), 'bias')]
    for name, value in constants.items():
        if value.dtype.kind == 'f':
            made.append(helper.make_node('Constant', [], [name], name, value=numpy_helper.from_array(value, name)))
        elif name in ('ones', 'zeros'):
            tensors.append(numpy_helper.from_array(value, name + '_whole'))
            made.append(helper.make_node('Cast', [name + '_whole'], [name], name, to=TensorProto.DOUBLE))
        else:
            tensors.append(numpy_helper.from_array(value, name))
    made += [helper.make_node(op, ins, outs, f'{op}_{i}', **attributes) for i, (op, ins, outs, attributes) in enumerate(nodes)]
    inputs = [helper.make_tensor_value_info('input', TensorProto.DOUBLE, ['batch', *shape[1:]])]
    outputs = [helper.make_tensor_value_info('y', TensorProto.DOUBLE, [None] * rank)]
    model = helper.make_model(helper.make_graph(made, 'made', inputs, outputs, tensors), opset_imports=[helper.make_opsetid('', OPSET)])
    with open(path, 'wb') as f:
        f.write(model.SerializeToString())


def check(shardwright, name, folder):
    torch.manual_seed(3)
    shape, nodes, constants, function = CASES[name]
    net = Net(shape, function).double()
    g = np.random.default_rng(5)
    inputs = g.standard_normal((3, *shape))
    wanted = net(torch.tensor(inputs[0])).shape
    path, data = os.path.join(folder, f'{name}.onnx'), os.path.join(folder, f'{name}.safetensors')
    write(net, shape, nodes, constants, path, len(wanted))
    labels = g.standard_normal((3, *wanted))
    save(data, {'input': inputs, 'label': labels}, {})
    want = train(net, inputs, labels, 'mean_squared_error', 0.01)
    tables = [n for n, value in constants.items() if value.dtype.kind == 'f' and value.size > 1]  # else they are trained
    model = path + (f":frozen={'+'.join(tables)}" if tables else '')
    got = train_by_shardwright(shardwright, model, data, inputs, 'mean_squared_error', 0.01, 'f64')
    return agree(name, got, want, 1e-7, 3)  # cosines are f32 in the file


def main():
    good = True
    with tempfile.TemporaryDirectory(dir=os.environ.get('KEEP')) as folder:
        for name in sys.argv[2:] or CASES:
            good = check(os.path.abspath(sys.argv[1]), name, folder) and good
    sys.exit(0 if good else 1)


main()

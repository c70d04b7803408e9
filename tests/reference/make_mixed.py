#!/usr/bin/python3
"""Losses of mixed precision from outside: PyTorch's CPU autocast in bf16, and a loop in numpy that rounds by itself.

Needs Debian's python3-torch and python3-torchvision. Writes mixed.safetensors: `NETWORK.OPTIMIZER`, the loss of every step before
its update, of networks that start from the weights and read the batches of ffn.safetensors, llama.safetensors and
gpt.safetensors (again from the first where there are fewer than steps); `numpy.OPTIMIZER`, the same of the FFN in numpy; and
`resnet18.loss` and `resnet18.gradient.NAME`, of the first step of the narrow ResNet-18 of make_resnet.py. `f32.*` are the
same in full precision, which says how far rounding alone takes a loss.
"""
import json, os, struct
import numpy as np, torch, torchvision
import torch.nn.functional as F

import counted, make_decoders, make_reference, make_resnet
from make_reference import HERE, save

STEPS = 20
RATES = {'sgd': 0.05, 'momentum': 0.02, 'adam': 0.0002, 'adamw': 0.0002}
UPDATES = {
    'sgd': lambda p: torch.optim.SGD(p, lr=RATES['sgd']),
    'momentum': lambda p: torch.optim.SGD(p, lr=RATES['momentum'], momentum=0.9),
    'adam': lambda p: torch.optim.Adam(p, lr=RATES['adam']),
    'adamw': lambda p: torch.optim.AdamW(p, lr=RATES['adamw'], weight_decay=0.1),
}


def load(path):
    with open(path, 'rb') as f:
        length, = struct.unpack('<Q', f.read(8))
        header, blob = json.loads(f.read(length)), f.read()
    kinds = {'F32': np.float32, 'I32': np.int32, 'F64': np.float64}
    return {n: np.frombuffer(blob[t['data_offsets'][0]:t['data_offsets'][1]], kinds[t['dtype']]).reshape(t['shape'])
            for n, t in header.items() if n != '__metadata__'}


def reference(name):
    t = load(os.path.join(HERE, name + '.safetensors'))
    return {n[5:]: v for n, v in t.items() if n.startswith('init.')}, t['input'], t['label']


def losses(loss_of, init, x, y, update, is_mixed):
    p = {k: torch.tensor(v, requires_grad=True) for k, v in init.items()}
    optimizer, out = update(list(p.values())), []
    for s in range(STEPS):
        s %= len(x)
        optimizer.zero_grad()
        with torch.autocast('cpu', dtype=torch.bfloat16, enabled=is_mixed):
            loss = loss_of(p, torch.tensor(x[s]), torch.tensor(y[s]).long())
        loss.backward()
        optimizer.step()
        out.append(loss.item())
    return np.array(out)


# ---- the FFN in numpy: masters in f32, every result of an operator rounded to bf16, sums in f32

def bf16(x):
    """To the nearest, ties to even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def step_of_ffn(master, x, y, layers=5):
    """The loss, and the gradients as they reach the masters."""
    w = {k: bf16(v) for k, v in master.items()}
    inputs, x = [], bf16(x)
    for i in range(1, layers + 1):
        inputs.append(x)
        x = bf16(bf16(x @ w[f'dense{i}.weight']) + w[f'dense{i}.bias'])
        if i < layers: x = np.maximum(x, 0)
    e = np.exp(x - x.max(-1, keepdims=True))  # f32
    share = e / e.sum(-1, keepdims=True)
    rows = np.arange(len(y))
    loss = -np.log(share[rows, y]).mean()
    share[rows, y] -= 1
    dy, gradients = bf16(share / np.float32(len(y))), {}
    for i in range(layers, 0, -1):
        gradients[f'dense{i}.weight'] = bf16(inputs[i - 1].T @ dy)
        gradients[f'dense{i}.bias'] = bf16(dy.sum(0))
        dy = bf16(dy @ w[f'dense{i}.weight'].T) * (inputs[i - 1] > 0)
    return loss, gradients


def ffn_in_numpy(init, x, y, optimizer):
    """The updates of sgd, momentum, adam and adamw as their papers have them, in f32."""
    master = {k: v.copy() for k, v in init.items()}
    first, second = ({k: np.zeros_like(v) for k, v in init.items()} for _ in range(2))
    rate, out = np.float32(RATES[optimizer]), []
    for s in range(STEPS):
        loss, gradients = step_of_ffn(master, x[s], y[s])
        out.append(loss)
        for k, g in gradients.items():
            if optimizer == 'sgd':
                master[k] -= rate * g
            elif optimizer == 'momentum':
                first[k] = np.float32(0.9) * first[k] + g
                master[k] -= rate * first[k]
            else:
                first[k] = np.float32(0.9) * first[k] + np.float32(0.1) * g
                second[k] = np.float32(0.999) * second[k] + np.float32(0.001) * g * g
                m, v = first[k] / np.float32(1 - 0.9 ** (s + 1)), second[k] / np.float32(1 - 0.999 ** (s + 1))
                if optimizer == 'adamw': master[k] *= np.float32(1 - RATES[optimizer] * 0.1)
                master[k] -= rate * m / (np.sqrt(v) + np.float32(1e-8))
    return np.array(out, np.float64)


# ---- the first step of a residual network

def first_of_resnet(is_mixed):
    model = make_resnet.narrowed(torchvision.models.resnet18(num_classes=10), 8).train()
    make_resnet.initial(model)
    x, y = counted.images(make_resnet.SEED, 0, (32, 3, 64, 64), 10)
    with torch.autocast('cpu', dtype=torch.bfloat16, enabled=is_mixed):
        loss = F.cross_entropy(model(torch.from_numpy(x).float()), torch.from_numpy(y))
    loss.backward()
    gradient = lambda n, g: np.ascontiguousarray(g.numpy().T if n == 'fc.weight' else g.numpy())
    return loss.item(), {n: gradient(n, p.grad) for n, p in model.named_parameters()}


def main():
    torch.set_num_threads(1)
    ffn = make_reference.mlp(5)
    llama = dict(layers=4, hidden=32, heads=8, kv_heads=4, ffn=48, vocab=64, seq=16, batch=8)
    gpt = dict(layers=2, hidden=32, heads=8, vocab=64, seq=16, batch=8)
    def decoder(network, z):
        return lambda p, x, y: F.cross_entropy(network(p, x.long(), z).view(-1, z['vocab']), y.view(-1))
    networks = {'ffn': lambda p, x, y: F.cross_entropy(ffn(p, x), y),
                'llama': decoder(make_decoders.llama, llama), 'gpt': decoder(make_decoders.gpt, gpt)}
    t = {}
    for network, loss_of in networks.items():
        init, x, y = reference(network)
        for optimizer, update in UPDATES.items():
            name = f'{network}.{optimizer}'
            t[name] = losses(loss_of, init, x, y, update, True)
            t['f32.' + name] = losses(loss_of, init, x, y, update, False)
            far = np.abs(t[name] / t['f32.' + name] - 1).max()
            print(f'{name}: {t[name][0]:.4f} -> {t[name][-1]:.4f}, {far:.1e} from f32')
            if network != 'ffn': continue
            own = t['numpy.' + optimizer] = ffn_in_numpy(init, x, y, optimizer)
            print(f'  numpy: {own[0]:.4f} -> {own[-1]:.4f}, {np.abs(own / t[name] - 1).max():.1e} from autocast')
    loss, gradients = first_of_resnet(True)
    whole_loss, whole = first_of_resnet(False)
    print(f'resnet18: {loss:.5f}, in f32 {whole_loss:.5f}')
    t['resnet18.loss'], t['f32.resnet18.loss'] = np.array([loss]), np.array([whole_loss])
    for n, g in gradients.items():
        if g.size > 5000: continue
        t['resnet18.gradient.' + n], t['f32.resnet18.gradient.' + n] = g, whole[n]
        print(f'  {n}: {np.linalg.norm(g - whole[n]) / np.linalg.norm(whole[n]):.1e} from f32')
    save(os.path.join(HERE, 'mixed.safetensors'), t,
         {'made by': f'torch {torch.__version__} autocast cpu bfloat16, numpy {np.__version__}', 'steps': STEPS,
          **{'lr of ' + k: v for k, v in RATES.items()}, 'momentum': 0.9, 'weight decay of adamw': 0.1})


if __name__ == '__main__':
    main()

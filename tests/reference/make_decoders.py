#!/usr/bin/python3
"""Training runs of small decoders in PyTorch, as an outside reference; float64 throughout, from float32 initial weights.

Needs Debian's python3-torch and python3-numpy. The files are written as make_reference.py does: `init.*` (dense weights as
(in, out)), `input` and `label` [steps, batch, sequence], `loss` of every step before its update. The networks are written here
anew from the formulas of their papers, with PyTorch's own functions where it has them.
"""
import math, os
import numpy as np, torch
import torch.nn.functional as F
from make_reference import HERE, save

def tokens(steps, batch, sequence, vocabulary, seed):
    """x' = 5 x + 3 mod vocabulary, now and then broken: learnable, so that the losses move."""
    g = np.random.default_rng(seed)
    x = g.integers(0, vocabulary, (steps, batch, sequence + 1))
    for i in range(1, sequence + 1):
        follows = g.random((steps, batch)) < 0.9
        x[..., i] = np.where(follows, (5 * x[..., i - 1] + 3) % vocabulary, x[..., i])
    return x[..., :-1].astype(np.int32), x[..., 1:].astype(np.int32)

class Weights:
    """Initial weights by name, in float32."""
    def __init__(self, seed): self.g, self.all = np.random.default_rng(seed), {}
    def normal(self, name, *shape, scale=0.15): self.all[name] = (scale * self.g.standard_normal(shape)).astype(np.float32)
    def near(self, name, n, mean): self.all[name] = (mean + 0.1 * self.g.standard_normal(n)).astype(np.float32)
    def dense(self, name, a, b, bias=False):
        self.normal(name + '.weight', a, b)
        if bias: self.near(name + '.bias', b, 0)

def heads_of(x, heads):
    b, s, w = x.shape
    return x.view(b, s, heads, w // heads).transpose(1, 2)

def attend(q, k, v):
    """Causal; each head of k and v serves several of q."""
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    s = q.shape[2]
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[3])
    scores = scores.masked_fill(torch.ones(s, s).triu(1).bool(), -math.inf)
    y = torch.softmax(scores, -1) @ v
    return y.transpose(1, 2).reshape(y.shape[0], s, -1)

# ---- llama: RMS norm, rotary positions, swiglu, grouped heads

def llama_weights(z, seed):
    w, kv = Weights(seed), z['hidden'] // z['heads'] * z['kv_heads']
    w.normal('embedding.weight', z['vocab'], z['hidden'])
    for l in range(z['layers']):
        n = f'layers.{l}'
        for norm in ('norm1', 'norm2'): w.near(f'{n}.{norm}.weight', z['hidden'], 1)
        for part, to in (('q', z['hidden']), ('k', kv), ('v', kv), ('o', z['hidden'])):
            w.dense(f'{n}.attention.{part}', z['hidden'], to)
        w.dense(n + '.ffn.gate', z['hidden'], z['ffn']); w.dense(n + '.ffn.up', z['hidden'], z['ffn'])
        w.dense(n + '.ffn.down', z['ffn'], z['hidden'])
    w.near('norm.weight', z['hidden'], 1)
    w.dense('head', z['hidden'], z['vocab'])
    return w.all

def rotary(x):
    """Pair i is (x[i], x[i + d/2])."""
    s, d = x.shape[-2:]
    angle = torch.outer(torch.arange(s, dtype=x.dtype), 10000 ** (-torch.arange(0, d, 2, dtype=x.dtype) / d))
    a, b = x[..., :d // 2], x[..., d // 2:]
    return torch.cat((a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()), -1)

def llama(p, t, z):
    rms = lambda x, n: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * p[n + '.weight']
    x = p['embedding.weight'][t]
    for l in range(z['layers']):
        n = f'layers.{l}'
        h = rms(x, n + '.norm1')
        q, k, v = (heads_of(h @ p[f'{n}.attention.{i}.weight'], z[m]) for i, m in (('q', 'heads'), ('k', 'kv_heads'), ('v', 'kv_heads')))
        x = x + attend(rotary(q), rotary(k), v) @ p[n + '.attention.o.weight']
        h = rms(x, n + '.norm2')
        x = x + (F.silu(h @ p[n + '.ffn.gate.weight']) * (h @ p[n + '.ffn.up.weight'])) @ p[n + '.ffn.down.weight']
    return rms(x, 'norm') @ p['head.weight']

# ---- gpt: layer norm, learned positions, gelu, biases, tied head

def gpt_weights(z, seed):
    w, h = Weights(seed), z['hidden']
    w.normal('embedding.weight', z['vocab'], h)
    w.normal('positions.weight', z['seq'], h)
    for l in range(z['layers']):
        n = f'layers.{l}'
        for norm in ('norm1', 'norm2'): w.near(f'{n}.{norm}.weight', h, 1); w.near(f'{n}.{norm}.bias', h, 0)
        for part in 'qkvo': w.dense(f'{n}.attention.{part}', h, h, bias=True)
        w.dense(n + '.ffn.up', h, 4 * h, bias=True); w.dense(n + '.ffn.down', 4 * h, h, bias=True)
    w.near('norm.weight', h, 1); w.near('norm.bias', h, 0)
    return w.all

def gpt(p, t, z):
    dense = lambda x, n: x @ p[n + '.weight'] + p[n + '.bias']
    norm = lambda x, n: F.layer_norm(x, x.shape[-1:], p[n + '.weight'], p[n + '.bias'], 1e-5)
    x = p['embedding.weight'][t] + p['positions.weight']
    for l in range(z['layers']):
        n = f'layers.{l}'
        h = norm(x, n + '.norm1')
        x = x + dense(attend(*(heads_of(dense(h, f'{n}.attention.{i}'), z['heads']) for i in 'qkv')), n + '.attention.o')
        x = x + dense(F.gelu(dense(norm(x, n + '.norm2'), n + '.ffn.up'), approximate='tanh'), n + '.ffn.down')
    return norm(x, 'norm') @ p['embedding.weight'].T

def run(name, network, weights, z, steps, seed, update, **meta):
    init = weights(z, seed)
    x, y = tokens(steps, z['batch'], z['seq'], z['vocab'], seed + 1)
    p = {k: torch.tensor(v, dtype=torch.float64, requires_grad=True) for k, v in init.items()}
    opt, losses = update(list(p.values())), []
    for s in range(steps):
        opt.zero_grad()
        loss = F.cross_entropy(network(p, torch.tensor(x[s]).long(), z).view(-1, z['vocab']), torch.tensor(y[s]).long().view(-1))
        loss.backward(); opt.step()
        losses.append(loss.item())
    t = {'input': x, 'label': y, 'loss': np.array(losses)}
    t.update({'init.' + k: v for k, v in init.items()})
    save(os.path.join(HERE, name + '.safetensors'), t, dict(z, loss='cross_entropy (mean over tokens)', **meta))
    print(f'{name}: {sum(v.size for v in init.values())} parameters, loss {losses[0]:.6f} -> {losses[-1]:.6f}')

def main():
    torch.manual_seed(0); torch.set_num_threads(1)
    sizes = dict(layers=4, hidden=32, heads=8, kv_heads=4, ffn=48, vocab=64, seq=16, batch=8)
    run('llama', llama, llama_weights, sizes, 10, 1, lambda p: torch.optim.AdamW(p, lr=0.003, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1),
        optimizer='adamw (0.9, 0.95, 1e-8), weight decay 0.1', lr=0.003)
    sizes = dict(layers=2, hidden=32, heads=8, vocab=64, seq=16, batch=8)
    run('gpt', gpt, gpt_weights, sizes, 10, 3, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), optimizer='momentum', lr=0.1, momentum=0.9)

if __name__ == '__main__':
    main()

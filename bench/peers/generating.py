"""A LLaMA-like decoder in PyTorch that writes token by token with a cache of keys and values: generating.py FILE CORE

FILE has the weights under our names, those of dense layers as (in, out); the sizes are read off them, but for the heads of
64 features. Says `ready`; then for each line with a number of tokens begins anew, writes so many, the likeliest each, and
answers a line of seconds, CPU seconds and token for each.
"""
import os
import sys
import time

import pytorch
import training

FEATURES = 64


def decoder(weights, torch, room):
    """A function of a token and its place, to the scores of the next."""
    functional = torch.nn.functional
    layers = 1 + max(int(name.split('.')[1]) for name in weights if name.startswith('layers.'))
    dense = {name: t.T.contiguous() for name, t in weights.items() if t.dim() == 2 and name != 'embedding.weight'}
    rates = 10000.0 ** (-torch.arange(0, FEATURES, 2).float() / FEATURES)
    turns = torch.outer(torch.arange(room).float(), rates)
    cosines, sines = turns.cos().repeat(1, 2), turns.sin().repeat(1, 2)
    kv_heads = weights['layers.0.attention.k.weight'].shape[1] // FEATURES
    keys = torch.zeros(layers, kv_heads, room, FEATURES)
    values = torch.zeros(layers, kv_heads, room, FEATURES)

    def norm(x, name):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * weights[name]

    def turned(y, place):
        a, b = y[..., :FEATURES // 2], y[..., FEATURES // 2:]
        return y * cosines[place] + torch.cat((-b, a), -1) * sines[place]

    def step(token, place):
        x = weights['embedding.weight'][token].view(1, -1)
        for i in range(layers):
            name = f'layers.{i}'
            y = norm(x, f'{name}.norm1.weight')
            q, k, v = (functional.linear(y, dense[f'{name}.attention.{p}.weight']).view(-1, FEATURES) for p in 'qkv')
            keys[i, :, place], values[i, :, place] = turned(k, place), v
            seen_keys, seen_values = keys[i, :, :place + 1], values[i, :, :place + 1]
            q = turned(q, place).view(kv_heads, -1, FEATURES)
            p = torch.softmax(torch.matmul(q, seen_keys.transpose(1, 2)) / FEATURES ** 0.5, -1)
            x = x + functional.linear(torch.matmul(p, seen_values).view(1, -1), dense[f'{name}.attention.o.weight'])
            y = norm(x, f'{name}.norm2.weight')
            gate, up = (functional.linear(y, dense[f'{name}.ffn.{p}.weight']) for p in ('gate', 'up'))
            x = x + functional.linear(functional.silu(gate) * up, dense[f'{name}.ffn.down.weight'])
        return functional.linear(norm(x, 'norm.weight'), dense['head.weight'])

    return step


def run(path, core, room):
    os.sched_setaffinity(0, [int(core)])
    torch = pytorch.set_up()
    torch.set_grad_enabled(False)
    step = decoder(training.load(path, torch), torch, int(room))
    print('ready', flush=True)
    for line in iter(sys.stdin.readline, ''):
        lines, token = [], 1
        for place in range(int(line)):
            start, cpu_start = time.perf_counter(), time.thread_time()
            token = int(step(token, place).argmax())
            lines.append(f'{time.perf_counter() - start} {time.thread_time() - cpu_start} {token}')
        print('\n'.join(lines), flush=True)


if __name__ == '__main__':
    run(*sys.argv[1:])

"""A LLaMA-like decoder in PyTorch, for ddp.py, or decoder.py FILE CORE OPTIMIZER RATE [TYPE]: RMS norms, rotary
positions, causal attention, gated feed-forward.

Its weights are `init.NAME` with our names, those of dense layers as (in, out); the sizes are read off them, but for the
heads of 64 features.
"""
import math
import sys

import training

FEATURES = 64


def network(tensors, torch):
    nn, functional = torch.nn, torch.nn.functional
    weights = {name[len('init.'):]: t for name, t in tensors.items() if name.startswith('init.')}
    sequence = tensors['input'].shape[-1]

    def dense(name):
        layer = nn.Linear(*weights[name + '.weight'].shape, bias=False)
        with torch.no_grad():
            layer.weight.copy_(weights[name + '.weight'].T)
        return layer

    class Norm(nn.Module):
        def __init__(self, name):
            super().__init__()
            self.weight = nn.Parameter(weights[name + '.weight'].clone())

        def forward(self, x):
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight

    class Layer(nn.Module):
        def __init__(self, name):
            super().__init__()
            self.norm1, self.norm2 = Norm(name + '.norm1'), Norm(name + '.norm2')
            self.q, self.k, self.v, self.o = (dense(f'{name}.attention.{part}') for part in 'qkvo')
            self.gate, self.up, self.down = (dense(f'{name}.ffn.{part}') for part in ('gate', 'up', 'down'))

        def attention(self, x, turns, mask):
            batch, length, hidden = x.shape

            def heads(y):
                return y.view(batch, length, -1, FEATURES).transpose(1, 2)

            def turned(y):
                a, b = y[..., :FEATURES // 2], y[..., FEATURES // 2:]
                return y * turns[0] + torch.cat((-b, a), -1) * turns[1]

            q, k, v = turned(heads(self.q(x))), turned(heads(self.k(x))), heads(self.v(x))
            scores = functional.softmax(q @ k.transpose(-1, -2) / math.sqrt(FEATURES) + mask, -1)
            return self.o((scores @ v).transpose(1, 2).reshape(batch, length, hidden))

        def forward(self, x, turns, mask):
            x = x + self.attention(self.norm1(x), turns, mask)
            y = self.norm2(x)
            return x + self.down(functional.silu(self.gate(y)) * self.up(y))

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding.from_pretrained(weights['embedding.weight'], freeze=False)
            count = sum(name.endswith('.norm1.weight') for name in weights)
            self.layers = nn.ModuleList(Layer(f'layers.{n}') for n in range(count))
            self.norm, self.head = Norm('norm'), dense('head')
            rates = 1 / (10000 ** (torch.arange(0, FEATURES, 2).float() / FEATURES))
            angles = torch.outer(torch.arange(sequence).float(), rates)
            angles = torch.cat((angles, angles), -1)
            self.register_buffer('turns', torch.stack((angles.cos(), angles.sin())))
            self.register_buffer('mask', torch.full((sequence, sequence), -math.inf).triu(1))

        def forward(self, tokens):
            x = self.embedding(tokens)
            for layer in self.layers:
                x = layer(x, self.turns, self.mask)
            scores = self.head(self.norm(x))
            return scores.view(-1, scores.shape[-1])

    return Decoder()


if __name__ == '__main__':
    training.run(network, *sys.argv[1:])

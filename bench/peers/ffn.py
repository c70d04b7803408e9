"""Training steps of a dense network in PyTorch: ffn.py FILE CORE OPTIMIZER RATE [TYPE]

Its weights are `init.denseN.weight` as (in, out) and `init.denseN.bias`; the rest is in training.py.
"""
import sys

import training


def network(tensors, torch):
    layers = []
    while f'init.dense{len(layers) // 2 + 1}.weight' in tensors:
        name = f'init.dense{len(layers) // 2 + 1}'
        weight = tensors[name + '.weight']
        layer = torch.nn.Linear(*weight.shape)
        with torch.no_grad():
            layer.weight.copy_(weight.T)
            layer.bias.copy_(tensors[name + '.bias'])
        layers += [layer, torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


if __name__ == '__main__':
    training.run(network, *sys.argv[1:])

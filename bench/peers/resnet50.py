"""Training steps of torchvision's ResNet-50: resnet50.py FILE CORE OPTIMIZER RATE [TYPE]

Its weights are `init.NAME` with torchvision's names, that of the last layer as (in, out); the rest is in training.py.
Tensors are channels-last, which is faster at 224x224 and makes no difference at 64x64.
"""
import sys

import training


def network(tensors, torch):
    import torchvision
    weights = {name[len('init.'):]: t for name, t in tensors.items() if name.startswith('init.')}
    weights['fc.weight'] = weights['fc.weight'].T
    net = torchvision.models.resnet50(weights=None, num_classes=weights['fc.bias'].numel())
    missing, unexpected = net.load_state_dict(weights, strict=False)
    left = [name for name in missing if 'running' not in name and 'num_batches' not in name]
    if left or unexpected:
        raise SystemExit(f'weights do not fit: {left} are missing, {unexpected} are unknown')
    tensors['input'] = [x.contiguous(memory_format=torch.channels_last) for x in tensors['input']]
    return net.to(memory_format=torch.channels_last).train()


if __name__ == '__main__':
    training.run(network, *sys.argv[1:])

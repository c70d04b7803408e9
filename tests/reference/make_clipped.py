#!/usr/bin/python3
"""A training run of PyTorch with gradients clipped by their global norm, in float64.

Writes ffn_clipped.safetensors as make_reference.py writes its runs; the norm of the gradients before clipping stands
beside the losses (`norm` [steps]), so that one sees which steps were clipped.
"""
import os
import numpy as np, torch
import torch.nn.functional as F
from make_reference import HERE, dense_stack, digits, mlp, save

MOST = 0.8

def main():
    torch.set_num_threads(1)
    x, y = digits(12, 16, 11, width=24)
    init = dense_stack([24, 16, 10], 12)
    p = {k: torch.tensor(v, dtype=torch.float64, requires_grad=True) for k, v in init.items()}
    opt = torch.optim.SGD(list(p.values()), lr=0.2, momentum=0.9)
    losses, norms = [], []
    for s in range(len(x)):
        opt.zero_grad()
        loss = F.cross_entropy(mlp(2)(p, torch.tensor(x[s], dtype=torch.float64)), torch.tensor(y[s]).long())
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(list(p.values()), MOST).item())
        opt.step()
        losses.append(loss.item())
    t = {'input': x, 'label': y, 'loss': np.array(losses), 'norm': np.array(norms)}
    t.update({'init.' + k: v for k, v in init.items()})
    t.update({'final.' + k: v.detach().numpy() for k, v in p.items()})
    save(os.path.join(HERE, 'ffn_clipped.safetensors'), t,
         dict(network='24-16-10, relu between, bias', loss='cross_entropy (mean)', optimizer='momentum', lr=0.2, momentum=0.9,
              clip_norm=MOST, batch=16))
    print(f'ffn_clipped: loss {losses[0]:.6f} -> {losses[-1]:.6f}, {sum(n > MOST for n in norms)} of {len(norms)} steps clipped')

if __name__ == '__main__':
    main()

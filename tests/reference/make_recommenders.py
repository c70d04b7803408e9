#!/usr/bin/python3
"""Training runs of recommenders in PyTorch, in float64, with sparse gradients of their tables.

Writes dlrm_OPTIMIZER.safetensors and wide_deep_OPTIMIZER.safetensors: `init.*`, `dense`, `ids` and `label` [steps, batch, ...],
`loss` [steps] and `final.*`. Tables are nn.functional.embedding_bag's with sparse=True; ids of -1 are a padding row that is in
no table of ours. Dense parameters have the same formula as tables: PyTorch's SGD and Adagrad take both, its SparseAdam wants
sparse gradients, so it is given dense ones as sparse, with every element.
"""
import os
import numpy as np, torch
import torch.nn.functional as F
from make_reference import HERE, save

BATCH, STEPS, DENSE, TABLES, ROWS, HOT, WIDTH = 8, 6, 3, 4, 12, 3, 4

def layers(g, name, widths):
    out = {}
    for i, (a, b) in enumerate(zip(widths, widths[1:]), 1):
        out[f'{name}.{i}.weight'] = g.uniform(-1, 1, (a, b)) / np.sqrt(a)
        out[f'{name}.{i}.bias'] = g.uniform(-1, 1, (b,)) / np.sqrt(a)
    return out

def run_layers(p, name, x, count, ends_in_numbers):
    for i in range(1, count + 1):
        x = x @ p[f'{name}.{i}.weight'] + p[f'{name}.{i}.bias']
        x = x if ends_in_numbers and i == count else torch.relu(x)
    return x

def rows(tables, ids, mode):
    """Bags [batch, tables, width]."""
    bags = [F.embedding_bag(torch.where(ids[:, t] < 0, ROWS, ids[:, t]), table, mode=mode, sparse=True, padding_idx=ROWS)
            for t, table in enumerate(tables)]
    return torch.stack(bags, 1)

def dlrm(p, tables, dense, ids):
    bottom = run_layers(p, 'bottom', dense, 2, False)
    x = torch.cat([bottom.unsqueeze(1), rows(tables['tables'], ids, 'sum')], 1)
    i, j = torch.tril_indices(TABLES + 1, TABLES + 1, -1)
    return run_layers(p, 'top', torch.cat([bottom, (x @ x.transpose(1, 2))[:, i, j]], 1), 2, True)

def wide_deep(p, tables, dense, ids):
    wide = rows(tables['wide.tables'], ids, 'mean').sum(1) + dense @ p['wide.dense.weight'] + p['wide.dense.bias']
    deep = torch.cat([dense, rows(tables['tables'], ids, 'mean').flatten(1)], 1)
    return wide + run_layers(p, 'deep', deep, 2, True)

def all_elements(gradient):
    """As SparseAdam wants it: each row is there, zeros too."""
    index = torch.arange(gradient.shape[0]).unsqueeze(0)
    return torch.sparse_coo_tensor(index, gradient, gradient.shape)

def train(network, init, tables_of, data, name, rate):
    p = {k: torch.tensor(v, requires_grad=True) for k, v in init.items() if k not in tables_of}
    tables = {k[:-len('.weight')]: [torch.tensor(np.concatenate([t, np.zeros_like(t[:1])]), requires_grad=True) for t in init[k]]
              for k in tables_of}
    of_tables = [t for each in tables.values() for t in each]
    optimizer = {'sgd': torch.optim.SGD, 'adagrad': torch.optim.Adagrad, 'lazy_adam': torch.optim.SparseAdam}[name](
        list(p.values()) + of_tables, lr=rate)
    losses = []
    for s in range(STEPS):
        optimizer.zero_grad()
        logit = network(p, tables, torch.tensor(data['dense'][s]), torch.tensor(data['ids'][s]).long())
        loss = F.binary_cross_entropy_with_logits(logit, torch.tensor(data['label'][s]))
        loss.backward()
        assert all(t.grad.is_sparse for t in of_tables)
        if name == 'lazy_adam':
            for x in p.values():
                x.grad = all_elements(x.grad)
        optimizer.step()
        losses.append(loss.item())
    final = {'final.' + k: v.detach().numpy() for k, v in p.items()}
    final.update({f'final.{k}.weight': np.stack([t.detach().numpy()[:-1] for t in each]) for k, each in tables.items()})
    return np.array(losses), final

def main():
    torch.set_num_threads(1)
    g = np.random.default_rng(21)
    ids = g.integers(0, ROWS, (STEPS, BATCH, TABLES, HOT)).astype(np.int32)
    ids[g.random(ids.shape) < 0.2] = -1
    ids[0, 0, 0] = -1  # an empty bag
    data = {'dense': g.standard_normal((STEPS, BATCH, DENSE)), 'ids': ids,
            'label': g.integers(0, 2, (STEPS, BATCH, 1)).astype(np.float64)}
    table = lambda width: g.uniform(-0.5, 0.5, (TABLES, ROWS, width))
    pairs = (TABLES + 1) * TABLES // 2
    networks = {
        'dlrm': (dlrm, {**layers(g, 'bottom', [DENSE, 6, WIDTH]), **layers(g, 'top', [WIDTH + pairs, 8, 1]),
                        'tables.weight': table(WIDTH)}, ['tables.weight']),
        'wide_deep': (wide_deep, {'wide.dense.weight': g.uniform(-0.5, 0.5, (DENSE, 1)), 'wide.dense.bias': np.zeros(1),
                                  **layers(g, 'deep', [DENSE + TABLES * WIDTH, 8, 1]), 'wide.tables.weight': table(1),
                                  'tables.weight': table(WIDTH)}, ['tables.weight', 'wide.tables.weight'])}
    for name, (network, init, tables_of) in networks.items():
        for optimizer, rate in (('sgd', 0.5), ('adagrad', 0.1), ('lazy_adam', 0.02)):
            losses, final = train(network, init, tables_of, data, optimizer, rate)
            tensors = {**data, 'loss': losses, **{'init.' + k: v for k, v in init.items()}, **final}
            save(os.path.join(HERE, f'{name}_{optimizer}.safetensors'), tensors,
                 dict(network=f'{name}:batch={BATCH},dense={DENSE},tables={TABLES},rows={ROWS},hot={HOT},width={WIDTH}',
                      loss='binary_cross_entropy (mean)', optimizer=optimizer, lr=rate, batch=BATCH))
            print(f'{name} {optimizer}: loss {losses[0]:.6f} -> {losses[-1]:.6f}')

if __name__ == '__main__':
    main()

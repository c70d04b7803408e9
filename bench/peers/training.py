"""What peers share that train: training.run(network, FILE, CORE, OPTIMIZER, RATE, TYPE).

OPTIMIZER is momentum (0.9) or adamw; TYPE is float32, the default, or bfloat16, which is autocast.

FILE is a safetensors file with the initial weights (`init.NAME`) and the batches (`input` [batches, batch, ...], `label`
[batches, batch]); `network(tensors, torch)` makes the module. Says `ready`; then for each line with a number of steps
trains so many and answers a line of seconds, CPU seconds and loss for each. A step is forward, loss, backward,
optimizer and the loss as a number; the batches are in memory before.
"""
import json
import os
import struct
import sys
import time

import pytorch


def load(path, torch):
    import numpy
    kinds = {'F32': numpy.float32, 'I32': numpy.int32}
    with open(path, 'rb') as file:
        header = json.loads(file.read(struct.unpack('<Q', file.read(8))[0]))
        data = file.read()
    tensors = {}
    for name, entry in header.items():
        if name == '__metadata__':
            continue
        begin, end = entry['data_offsets']
        array = numpy.frombuffer(data[begin:end], kinds[entry['dtype']]).reshape(entry['shape'])
        tensors[name] = torch.from_numpy(array.copy())
    return tensors


def make_optimizer(torch, name, parameters, rate, how='foreach'):
    if name == 'momentum':
        return torch.optim.SGD(parameters, lr=rate, momentum=0.9, **{how: True})
    return torch.optim.AdamW(parameters, lr=rate, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, **{how: True})


def run(network, path, core, optimizer, rate, dtype='float32'):
    os.sched_setaffinity(0, [int(core)])
    torch = pytorch.set_up()
    tensors = load(path, torch)
    net = network(tensors, torch)
    batches = [(x, y.reshape(-1)) for x, y in zip(tensors['input'], tensors['label'].long())]
    optimizer = make_optimizer(torch, optimizer, net.parameters(), float(rate))
    del tensors
    print('ready', flush=True)
    done = 0
    for line in iter(sys.stdin.readline, ''):
        lines = []
        for _ in range(int(line)):
            start, cpu_start = time.perf_counter(), time.thread_time()
            x, y = batches[done % len(batches)]
            done += 1
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast('cpu', dtype=torch.bfloat16, enabled=dtype == 'bfloat16'):
                loss = torch.nn.functional.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            loss = loss.item()
            lines.append(f'{time.perf_counter() - start} {time.thread_time() - cpu_start} {loss}')
        print('\n'.join(lines), flush=True)


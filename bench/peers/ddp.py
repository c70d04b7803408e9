"""Data-parallel training steps in PyTorch: ddp.py FILE NETWORK RANKS OPTIMIZER RATE

DistributedDataParallel with gloo: RANKS processes of one thread each, of which this one is rank 0. NETWORK is a script
beside this one; OPTIMIZER is momentum (0.9) or adamw. The protocol is that of training.py; the batches of FILE are those
of all ranks together, and the losses are means over them. Processes are not pinned: gloo's threads would share
a core with the rank's own, which makes steps 1.5 times longer.
"""
import importlib
import os
import subprocess
import sys
import tempfile
import time

import pytorch
import training


class Rank:
    def __init__(self, torch, rank, store, path, network, ranks, optimizer, rate):
        import torch.distributed as dist
        self.torch, self.dist = torch, dist
        dist.init_process_group('gloo', init_method='file://' + store, rank=rank, world_size=ranks)
        tensors = training.load(path, torch)
        own = slice(rank * tensors['input'].shape[1] // ranks, (rank + 1) * tensors['input'].shape[1] // ranks)
        tensors['input'] = tensors['input'][:, own]
        self.net = importlib.import_module(network).network(tensors, torch)
        labels = tensors['label'].long()[:, own]
        self.batches = [(x.contiguous() if x.dim() < 4 else x, y.reshape(-1)) for x, y in zip(tensors['input'], labels)]
        self.parallel = torch.nn.parallel.DistributedDataParallel(self.net, gradient_as_bucket_view=True)
        self.optimizer = training.make_optimizer(torch, optimizer, self.net.parameters(), rate)
        self.done = 0

    def step(self):
        start, cpu_start = time.perf_counter(), time.thread_time()
        x, y = self.batches[self.done % len(self.batches)]
        self.done += 1
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.torch.nn.functional.cross_entropy(self.parallel(x), y)
        loss.backward()
        self.optimizer.step()
        loss = loss.item()
        return time.perf_counter() - start, time.thread_time() - cpu_start, loss

    def steps(self, count):
        """What rank 0 says; the loss is the mean over ranks, taken when nobody measures any more."""
        number = self.torch.tensor([count])
        self.dist.broadcast(number, 0)
        taken = [self.step() for _ in range(int(number))]
        losses = self.torch.tensor([loss for _, _, loss in taken], dtype=self.torch.float64)
        if taken:
            self.dist.all_reduce(losses)
        return [(s, cpu, float(loss) / self.dist.get_world_size()) for (s, cpu, _), loss in zip(taken, losses)]


def main(path, network, ranks, optimizer, rate, rank=None, store=None):
    os.sched_setaffinity(0, range(os.cpu_count()))
    torch = pytorch.set_up()
    os.environ['GLOO_SOCKET_IFNAME'] = 'lo'
    if rank is not None:
        self = Rank(torch, int(rank), store, path, network, int(ranks), optimizer, float(rate))
        while self.steps(0):
            pass
        return
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, 'store')
        others = [subprocess.Popen([sys.executable] + sys.argv + [str(r), store], stdin=subprocess.DEVNULL)
                  for r in range(1, int(ranks))]
        self = Rank(torch, 0, store, path, network, int(ranks), optimizer, float(rate))
        print('ready', flush=True)
        for line in iter(sys.stdin.readline, ''):
            print('\n'.join(f'{s} {cpu} {loss}' for s, cpu, loss in self.steps(int(line))), flush=True)
        self.steps(0)
        for other in others:
            other.wait()


if __name__ == '__main__':
    main(*sys.argv[1:])

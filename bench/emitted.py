"""A step of an emitted package beside the same step written by hand in PyTorch: one rank, one thread or GPU, in turns.

    PYTHON bench/emitted.py [NETWORK ...] [--rounds N] [--device cuda] [--shardwright build/release/shardwright]

Needs a Python with torch 2, and torchvision for resnet50. Both sides are taken at their best, of eager and compiled; the
hand-written one also of its optimizers (multi-tensor and fused). Their first losses must agree. Seconds are of the thread's CPU
time, so that other processes disturb them little, on a GPU of the clock; a ratio is the median of the rounds' ratios, ours by
theirs.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

here = os.path.dirname(os.path.abspath(__file__))
NETWORKS = {
    "ffn": ("ffn:batch=32", "ffn", "momentum", 0.01, 200, 1.0),
    "ffn1024": ("ffn:batch=1024", "ffn", "momentum", 0.01, 10, 1.0),
    "decoder": ("llama", "decoder", "adamw", 3e-4, 2, 1.05),
    "large": ("llama:hidden=2048,heads=32,ffn=5504,layers=8,seq=1024,batch=4,vocab=32000", "decoder", "adamw", 3e-4, 2, 1.05),
    "resnet50": ("resnet50:batch=8,image=64", "resnet50", "momentum", 0.01, 2, 1.05),
}


def parsed():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("networks", nargs="*", default=["ffn", "ffn1024", "decoder", "resnet50"],
                   help=f"of {', '.join(NETWORKS)}; default: all but large, which is for GPUs")
    p.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--shardwright", default=os.path.join(here, "../build/release/shardwright"))
    p.add_argument("--package", help="of one network, where it has been emitted before")
    return p.parse_args()


def emitted(options, network, folder):
    """Plans and emits; returns the package's folder."""
    model, _, optimizer, rate, _, _ = NETWORKS[network]
    plan, package = os.path.join(folder, "plan.json"), os.path.join(folder, "package")
    keys = ["--beta2", "0.95", "--weight-decay", "0.1"] if optimizer == "adamw" else []
    planned = [options.shardwright, "plan", model, "--devices", "1", "--optimizer", optimizer, "--lr", str(rate), *keys]
    subprocess.run([*planned, "-o", plan], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([options.shardwright, "emit", plan, "--to", "torch", "-o", package], check=True, stdout=subprocess.DEVNULL)
    return package


class Ours:
    def __init__(self, torch, batches, leaves, is_compiled):
        import parallel
        self.rank = parallel.Rank(0, is_compiled)
        for stage in self.rank.stages.values():
            stage.leaves.update({name: parallel.placed(stage.spec["leaves"][name], x.clone()) for name, x in leaves.items()})
        self.torch, self.batches = torch, batches

    def step(self, number):
        batch = self.batches[number % len(self.batches)]
        with self.torch.no_grad():
            return self.rank.step(lambda name, box: batch[name])["loss"]


class Theirs:
    def __init__(self, torch, batches, weights, peer, optimizer, rate, is_compiled, how):
        tensors = {f"init.{name}": x.clone() for name, x in weights.items()}
        tensors["input"] = self.inputs = [batch["input"] for batch in batches]
        if peer.__name__ == "decoder":
            tensors["input"] = torch.stack(tensors["input"])
        self.net = peer.network(tensors, torch).to(self.inputs[0].device)
        self.inputs = tensors["input"]  # in the order of elements that the network wants
        if is_compiled:
            self.net = torch.compile(self.net, dynamic=False)
        self.labels = [batch["label"].reshape(-1).long() for batch in batches]
        self.optimizer = peer.training.make_optimizer(torch, optimizer, self.net.parameters(), rate, how)
        self.torch = torch

    def step(self, number):
        self.optimizer.zero_grad(set_to_none=True)
        n = number % len(self.inputs)
        loss = self.torch.nn.functional.cross_entropy(self.net(self.inputs[n]), self.labels[n])
        loss.backward()
        self.optimizer.step()
        return loss.item()


def measured(options, network):
    """In a process of its own, whose modules are the package's."""
    sys.path[:0] = [options.package, os.path.join(here, "peers")]
    import importlib

    import torch
    torch.set_num_threads(1)
    torch.backends.cudnn.allow_tf32 = False  # as train.py has it
    import data
    import program
    import tensors
    _, peer, optimizer, rate, steps, target = NETWORKS[network]
    now = time.thread_time if options.device == "cpu" else time.perf_counter  # steps end with a loss that is read
    spec, synthetic = program.STAGES[0], data.synthetic_batches(1)
    types = {value["name"]: getattr(torch, value["dtype"]) for value in spec["inputs"].values()}
    batches = [{name: synthetic(s, name).to(dtype).contiguous().to(options.device) for name, dtype in types.items()}
               for s in range(8)]
    whole = {key: [(0, n) for n in leaf["shape"]] for key, leaf in spec["leaves"].items()}
    leaves = {key: tensors.load(leaf, whole[key], None, 1, False, options.device) for key, leaf in spec["leaves"].items()}
    weights = {leaf["name"]: leaves[key] for key, leaf in spec["leaves"].items() if leaf["kind"] == "param"}
    peer = importlib.import_module(peer)
    sides = {"ours, eager": Ours(torch, batches, leaves, False), "ours, compiled": Ours(torch, batches, leaves, True)}
    for how in ("foreach", "fused"):
        for is_compiled in (False, True):
            name = f"by hand, {how}, {'compiled' if is_compiled else 'eager'}"
            sides[name] = Theirs(torch, batches, weights, peer, optimizer, rate, is_compiled, how)
    report(network, in_turns(sides, steps, options.rounds, now), target)


def in_turns(sides, steps, rounds, now):
    """Seconds of a step by side and round; the first round does not count."""
    seconds, losses, done = {name: [] for name in sides}, {}, 0
    for turn in range(rounds + 1):
        for name, side in sides.items():
            start = now()
            of_turn = [side.step(done + i) for i in range(steps)]
            if turn:
                seconds[name].append((now() - start) / steps)
            else:
                losses[name] = of_turn[0]
        done += steps
    first = next(iter(losses.values()))
    for name, own in losses.items():
        if abs(own - first) > 1e-4 * abs(first):  # later ones amplify what rounding does
            sys.exit(f"emitted.py: first losses differ: {name}: {own}, others {first}")
    return seconds


def report(network, seconds, target):
    best = {}
    for name, own in seconds.items():
        who = name.split(",")[0]
        print(f"| {network:8} | {name:26} | {statistics.median(own) * 1e3:9.3f} ms |", flush=True)
        if who not in best or statistics.median(own) < statistics.median(seconds[best[who]]):
            best[who] = name
    ratios = sorted(a / b for a, b in zip(seconds[best["ours"]], seconds[best["by hand"]]))
    low, high = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
    print(f"| {network:8} | {best['ours']} / {best['by hand']} | {statistics.median(ratios):.2f} ({low:.2f}-{high:.2f}) | <= {target} |")


def main():
    options = parsed()
    for network in options.networks:
        if network not in NETWORKS:
            sys.exit(f"emitted.py: no network '{network}'; there are {', '.join(NETWORKS)}")
    if options.package:
        return measured(options, options.networks[0])
    for network in options.networks:
        with tempfile.TemporaryDirectory() as folder:
            package = emitted(options, network, folder)
            arguments = [__file__, network, "--rounds", str(options.rounds), "--device", options.device, "--package", package]
            environment = dict(os.environ, OMP_NUM_THREADS="1", SHARDWRIGHT_DEVICE=options.device)
            subprocess.run([sys.executable, *arguments], check=True, env=environment)


if __name__ == "__main__":
    main()

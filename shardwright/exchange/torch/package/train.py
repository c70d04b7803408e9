"""Trains what shardwright planned: torchrun --nproc_per_node N train.py --data FILE --init FILE --steps K

One process a rank; on GPUs over NCCL where there are any, else on CPUs over gloo. A single rank needs no torchrun.
"""

import argparse
import json
import os
import sys
import time


def parsed():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--data", help="safetensors with each input by name, [steps, batch, ...]; else synthetic data")
    p.add_argument("--init", help="weights: safetensors, or the folder of a checkpoint; else as the seed says")
    p.add_argument("--checkpoint", help="folder of a checkpoint to go on from: weights, states and step")
    p.add_argument("--save", help="safetensors to write at the end: weights and states, as `shardwright checkpoint` reads")
    p.add_argument("--steps", type=int, default=10, help="steps to be done in all")
    p.add_argument("--seed", type=int, default=1, help="of initial values and synthetic data")
    p.add_argument("--compile", action="store_true", help="let torch.compile make the model's functions faster")
    p.add_argument("--trace", help="file of two steps, kernel by kernel, for `shardwright calibrate --from` and viewers")
    p.add_argument("--device", choices=["cpu", "cuda"], help="default: cuda where there is one")
    p.add_argument("--json", action="store_true", help="a JSON document for each step, and a summary")
    return p.parse_args()


options = parsed()
if options.device:
    os.environ["SHARDWRIGHT_DEVICE"] = options.device

import torch
import torch.distributed as dist

import program
import tensors
from data import synthetic_batches
from operators import device
from parallel import Rank, box_of, placed
from timeline import Trace


def file_batches(path):
    """The batch of step s of a file: row s of each tensor."""
    file = tensors.File(path)
    wanted = {value["name"]: value for stage in program.STAGES for value in stage["inputs"].values()}
    for name, value in wanted.items():
        if name not in file:
            tensors.error(f"{path}: has no tensor '{name}', an input of the model")
        shape = [n * program.MICRO_BATCHES if d == 0 else n for d, n in enumerate(value["shape"])]
        if list(file.shape(name)[1:]) != shape:
            tensors.error(f"{path}: '{name}' is {file.shape(name)} but should be [steps, {', '.join(map(str, shape))}]")
    count = min(file.shape(name)[0] for name in wanted)
    return lambda step, name: file.tensor(name)[step % count]


def load_leaves(rank):
    source = options.checkpoint or options.init
    weights = tensors.open_weights(source) if source else None
    for stage in rank.stages.values():
        for name, leaf in stage.spec["leaves"].items():
            if leaf["kind"] != "accumulator":
                box = box_of(leaf, stage.rank)
                part = tensors.load(leaf, box, weights, options.seed, bool(options.checkpoint), device)
                stage.leaves[name] = placed(leaf, part.contiguous())
    return weights.run.get("step", 0) if options.checkpoint else 0


def save(rank, path, step):
    """One file of all: the first rank makes it, and whoever is the first to hold a part writes it there."""
    kept = {}
    for stage in program.STAGES:
        for leaf in stage["leaves"].values():
            has_master = any(other["name"] == leaf["name"] + ".master" for other in stage["leaves"].values())
            if leaf["kind"] != "accumulator" and not has_master:
                name = leaf["name"].removesuffix(".master")
                kept[name] = getattr(torch, leaf["dtype"]), leaf["shape"]
    if rank.rank == 0:
        inputs = [value for stage in program.STAGES for value in stage["inputs"].values() if value["shape"]]
        samples = max((value["shape"][0] * program.MICRO_BATCHES for value in inputs), default=0)
        run = {"model": program.MODEL, "step": step, "seed": options.seed, "samples": samples, "schedule": "constant",
               "best": None, "best_of": ""}
        tensors.make_file(path, kept, run)
    if program.RANKS > 1:
        dist.barrier()
    file = tensors.File(path, writes=True)
    for stage in rank.stages.values():
        for name, leaf in stage.spec["leaves"].items():
            written = leaf["name"].removesuffix(".master")
            box = box_of(leaf, stage.rank)
            is_first = all(box_of(leaf, r) != box for r in range(stage.rank))
            if leaf["kind"] == "accumulator" or not is_first or kept[written][0] != getattr(torch, leaf["dtype"]):
                continue
            file.tensor(written)[tuple(slice(a, b) for a, b in box)] = stage.leaves[name].cpu()
    if program.RANKS > 1:
        dist.barrier()


def main():
    rank_number, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if world != program.RANKS:
        tensors.error(f"the plan is for {program.RANKS} ranks but there are {world}; run"
                      f" `torchrun --nproc_per_node {program.RANKS} {sys.argv[0]}`")
    if device.type == "cuda":
        torch.cuda.set_device(device)
        torch.backends.cudnn.allow_tf32 = False  # convolutions of f32 are, as products by default are
    if world > 1:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    if options.trace and options.compile:
        tensors.error("--trace times the lines of the model one by one: leave out --compile")
    trace = Trace(rank_number) if options.trace else None
    rank = Rank(rank_number, options.compile, trace)
    batches = file_batches(options.data) if options.data else synthetic_batches(options.seed)
    first, seconds = load_leaves(rank), []
    types = {v["name"]: getattr(torch, v["dtype"]) for s in program.STAGES for v in s["inputs"].values()}
    with torch.no_grad():
        for step in range(first, options.steps):
            def batch_part(name, box):
                whole = batches(step, name)
                return whole[tuple(slice(a, b) for a, b in box)].to(types[name]).to(device)

            if trace:  # the fourth and the fifth; of fewer than five the last two
                done = step - first
                trace.is_on = done in (3, 4) if options.steps - first >= 5 else options.steps - step <= 2
            begin = time.perf_counter()
            for name, value in rank.step(batch_part).items():  # reading them waits for the device
                print(json.dumps({"step": step, name: value}) if options.json else f"step: {step}, {name} is {value:.7f}",
                      flush=True)
            if device.type == "cuda":
                torch.cuda.synchronize()
            seconds.append(time.perf_counter() - begin)
        if trace:
            trace.write(options.trace)
        if options.save:
            save(rank, options.save, max(first, options.steps))
    usual = sorted(seconds[3:] or seconds)
    if rank_number == 0 and options.json and usual:
        peak = torch.cuda.max_memory_allocated() if device.type == "cuda" else None
        print(json.dumps({"summary": {"steps": len(seconds), "devices": world, "device": str(device.type),
                                      "median_step_seconds": usual[len(usual) // 2], "peak_memory_bytes": peak}}))
    if world > 1:
        dist.destroy_process_group()


main()

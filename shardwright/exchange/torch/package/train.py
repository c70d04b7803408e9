"""Trains what shardwright planned: torchrun --nproc_per_node N train.py --data FILE --init FILE --steps K

One process a rank; on GPUs over NCCL where there are any, else on CPUs over gloo. A single rank needs no torchrun.
"""

import os
import sys
import time

import run


def parsed():
    p = run.parser(__doc__)
    p.add_argument("--compile", action="store_true", help="let torch.compile make the model's functions faster")
    p.add_argument("--trace", help="file of two steps, kernel by kernel, for `shardwright calibrate --from` and viewers")
    p.add_argument("--device", choices=["cpu", "cuda"], help="default: cuda where there is one")
    return p.parse_args()


options = parsed()
if options.device:
    os.environ["SHARDWRIGHT_DEVICE"] = options.device

import torch
import torch.distributed as dist

import program
import tensors
from operators import device
from parallel import Rank, box_of, placed
from timeline import Trace


def load_leaves(rank):
    """Returns the step that comes next."""
    part, step = run.beginning(options)
    for stage in rank.stages.values():
        for name, leaf in stage.spec["leaves"].items():
            if leaf["kind"] != "accumulator":
                stage.leaves[name] = placed(leaf, part(leaf, box_of(leaf, stage.rank), device))
    return step


def save(rank, path, step):
    """One file of all: the first rank makes it, and whoever is the first to hold a part writes it there."""
    kept = {}
    for stage in program.STAGES:
        for leaf in stage["leaves"].values():
            has_master = any(other["name"] == leaf["name"] + ".master" for other in stage["leaves"].values())
            if leaf["kind"] != "accumulator" and not has_master and not leaf.get("frozen"):
                name = leaf["name"].removesuffix(".master")
                kept[name] = getattr(torch, leaf["dtype"]), leaf["shape"]
    if rank.rank == 0:
        tensors.make_file(path, kept, run.description(options, step))
    if program.RANKS > 1:
        dist.barrier()
    file = tensors.File(path, writes=True)
    for stage in rank.stages.values():
        for name, leaf in stage.spec["leaves"].items():
            written = leaf["name"].removesuffix(".master")
            box = box_of(leaf, stage.rank)
            is_first = all(box_of(leaf, r) != box for r in range(stage.rank))
            if written not in kept or not is_first or kept[written][0] != getattr(torch, leaf["dtype"]):
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
    batches = run.batches(options)
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
            run.tell_step(options, step, rank.step(batch_part))  # reading them waits for the device
            if device.type == "cuda":
                torch.cuda.synchronize()
            seconds.append(time.perf_counter() - begin)
        if trace:
            trace.write(options.trace)
        if options.save:
            save(rank, options.save, max(first, options.steps))
    if rank_number == 0:
        run.tell_summary(options, seconds, device.type, torch.cuda.max_memory_allocated() if device.type == "cuda" else None)
    if world > 1:
        dist.destroy_process_group()


main()

"""Trains what shardwright planned: python3 train.py --data FILE --init FILE --steps K

One process for all devices: those that JAX has, or as many CPUs as the plan has ranks.
"""

import argparse
import json
import os
import sys
import time

import program


def parsed():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--data", help="safetensors with each input by name, [steps, batch, ...]; else synthetic data")
    p.add_argument("--init", help="weights: safetensors, or the folder of a checkpoint; else as the seed says")
    p.add_argument("--checkpoint", help="folder of a checkpoint to go on from: weights, states and step")
    p.add_argument("--save", help="safetensors to write at the end: weights and states, as `shardwright checkpoint` reads")
    p.add_argument("--steps", type=int, default=10, help="steps to be done in all")
    p.add_argument("--seed", type=int, default=1, help="of initial values and synthetic data")
    p.add_argument("--device", help="cpu, cuda, tpu: default as JAX chooses")
    p.add_argument("--stablehlo", help="file to write the programs to, as JAX hands them to XLA")
    p.add_argument("--json", action="store_true", help="a JSON document for each step, and a summary")
    return p.parse_args()


options = parsed()
if options.device:
    os.environ["JAX_PLATFORMS"] = options.device
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={program.RANKS} " + os.environ.get("XLA_FLAGS", "")

import jax
import numpy as np

import parallel
import tensors
from data import synthetic_batches


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


def save(network, path, step):
    """Weights, in full precision where there are masters, and states."""
    held = {leaf["name"]: array for leaf, array in network.held()}
    kept = {name.removesuffix(".master"): np.asarray(array) for name, array in held.items() if name + ".master" not in held}
    inputs = [value for stage in program.STAGES for value in stage["inputs"].values() if value["shape"]]
    samples = max((value["shape"][0] * program.MICRO_BATCHES for value in inputs), default=0)
    run = {"model": program.MODEL, "step": step, "seed": options.seed, "samples": samples, "schedule": "constant",
           "best": None, "best_of": ""}
    tensors.write_file(path, kept, run)


def main():
    if len(jax.devices()) < program.RANKS:
        tensors.error(f"the plan is for {program.RANKS} devices but JAX has {len(jax.devices())}: {jax.devices()[0].device_kind};"
                      " `--device cpu` takes CPUs")
    if options.stablehlo:
        parallel.recorded = []
    network = parallel.network()
    batches = file_batches(options.data) if options.data else synthetic_batches(options.seed)
    source = options.checkpoint or options.init
    weights = tensors.open_weights(source) if source else None
    network.place(lambda leaf, box: tensors.load(leaf, box, weights, options.seed, bool(options.checkpoint)))
    first, seconds = weights.run.get("step", 0) if options.checkpoint else 0, []
    for step in range(first, options.steps):
        begin = time.perf_counter()
        for name, value in network.step(lambda name: batches(step, name)).items():  # reading them waits for the devices
            print(json.dumps({"step": step, name: value}) if options.json else f"step: {step}, {name} is {value:.7f}",
                  flush=True)
        seconds.append(time.perf_counter() - begin)
    if options.stablehlo:
        with open(options.stablehlo, "w") as f:
            f.write("\n".join(parallel.recorded))
    if options.save:
        save(network, options.save, max(first, options.steps))
    usual = sorted(seconds[3:] or seconds)
    if options.json and usual:
        peak = (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use")
        print(json.dumps({"summary": {"steps": len(seconds), "devices": program.RANKS, "device": jax.devices()[0].platform,
                                      "median_step_seconds": usual[len(usual) // 2], "peak_memory_bytes": peak}}))


main()

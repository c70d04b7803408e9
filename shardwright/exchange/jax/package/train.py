"""Trains what shardwright planned: python3 train.py --data FILE --init FILE --steps K

One process for all devices: those that JAX has, or as many CPUs as the plan has ranks.
"""

import os
import time

import program
import run


def parsed():
    p = run.parser(__doc__)
    p.add_argument("--device", help="cpu, cuda, tpu: default as JAX chooses")
    p.add_argument("--stablehlo", help="file to write the programs to, as JAX hands them to XLA")
    return p.parse_args()


options = parsed()
if options.device:
    os.environ["JAX_PLATFORMS"] = options.device
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={program.RANKS} " + os.environ.get("XLA_FLAGS", "")

import jax
import numpy as np

import parallel
import tensors


def save(network, path, step):
    """Weights, in full precision where there are masters, and states."""
    held = {leaf["name"]: array for leaf, array in network.held() if not leaf.get("frozen")}
    kept = {name.removesuffix(".master"): np.asarray(array) for name, array in held.items() if name + ".master" not in held}
    tensors.make_file(path, {name: (x.dtype, x.shape) for name, x in kept.items()}, run.description(options, step))
    file = tensors.File(path, writes=True)
    for name, x in kept.items():
        file.tensor(name)[...] = x


def main():
    if len(jax.devices()) < program.RANKS:
        tensors.error(f"the plan is for {program.RANKS} devices but JAX has {len(jax.devices())}: {jax.devices()[0].device_kind};"
                      " `--device cpu` takes CPUs")
    if options.stablehlo:
        parallel.recorded = []
    network = parallel.network()
    batches = run.batches(options)
    part, first = run.beginning(options)
    network.place(part)
    seconds = []
    for step in range(first, options.steps):
        begin = time.perf_counter()
        run.tell_step(options, step, network.step(lambda name: batches(step, name)))  # reading them waits for the devices
        seconds.append(time.perf_counter() - begin)
    if options.stablehlo:
        with open(options.stablehlo, "w") as f:
            f.write("\n".join(parallel.recorded))
    if options.save:
        save(network, options.save, max(first, options.steps))
    peak = (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use")
    run.tell_summary(options, seconds, jax.devices()[0].platform, peak)


main()

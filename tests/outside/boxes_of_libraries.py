"""Which rank holds which part of each parameter and input, as PyTorch or JAX themselves take what `export` has written.

Usage: PYTHON boxes_of_libraries.py dtensor|jax FILE      prints {"NAME RANK": [[begin, end], ...], ...} as JSON

For the interpreters of virtual environments with torch 2 or jax; boxes.py --libraries FOLDER calls it.
"""

import json
import math
import os
import sys


def scope_of(path):
    scope = {}
    with open(path) as file:
        exec(compile(file.read(), path, "exec"), scope)
    return scope


def tensors_of(stage):
    for kind in ("parameters", "inputs"):
        for name, (number, shape, how) in stage[kind].items():
            yield kind, name, number, shape, how


def of_jax(path):
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=16"
    os.environ["JAX_PLATFORMS"] = "cpu"
    scope, out = scope_of(path), {}
    for s, stage in enumerate(scope["STAGES"]):
        for kind, name, _, shape, _ in tensors_of(stage):
            for device, slices in scope["sharding"](s, kind, name).devices_indices_map(tuple(shape)).items():
                out[f"{name} {device.id}"] = [[i.start or 0, n if i.stop is None else i.stop] for i, n in zip(slices, shape)]
    return out


def of_dtensor(path):
    """Each rank's part of a tensor that counts its own elements, as distribute_tensor would cut it."""
    import torch
    from torch.distributed.tensor.placement_types import _StridedShard, Shard

    scope, out = scope_of(path), {}
    for stage in scope["STAGES"]:
        for _, name, number, shape, placements in tensors_of(stage):
            mesh = stage["meshes"][number]
            whole = torch.arange(math.prod(shape)).view(shape)
            for rank in range(math.prod(size for _, size in mesh)):
                part, left, at = whole, rank, {}
                for axis, size in reversed(mesh):
                    at[axis] = left % size
                    left //= size
                for (axis, size), placement in zip(mesh, placements):
                    if isinstance(placement, (Shard, _StridedShard)):
                        part = placement._split_tensor(part, size, with_padding=False)[0][at[axis]]
                box = []
                for d, n in enumerate(part.shape):
                    step = math.prod(shape[d + 1:])
                    begin = int(part.flatten()[0]) // step % shape[d]
                    box.append([begin, begin + n])
                held = whole[tuple(slice(*b) for b in box)]
                assert torch.equal(held, part), f"{name}: rank {rank} holds more pieces than one"
                out[f"{name} {stage['first_rank'] + rank}"] = box
    return out


if __name__ == "__main__":
    print(json.dumps({"jax": of_jax, "dtensor": of_dtensor}[sys.argv[1]](sys.argv[2])))

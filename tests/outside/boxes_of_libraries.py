"""Which rank holds which part of each tensor, as PyTorch, JAX and transformers themselves take what `export` has written.

Usage: PYTHON boxes_of_libraries.py dtensor|jax|huggingface FILE      prints {"NAME RANK": [[begin, end], ...], ...} as JSON

For the interpreters of virtual environments with torch 2 and transformers, or with jax; boxes.py --libraries calls it.
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
    for kind in ("parameters", "inputs", "activations"):
        for name, (number, shape, how) in stage[kind].items():
            yield kind, name, number, shape, how


def of_jax(path):
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=16"
    os.environ["JAX_PLATFORMS"] = "cpu"
    from jax.sharding import NamedSharding, PartitionSpec

    scope, out = scope_of(path), {}
    for s, stage in enumerate(scope["STAGES"]):
        for kind, name, _, shape, _ in tensors_of(stage):
            sharding = scope["sharding"](s, kind, name)
            if sharding.spec.unreduced:  # whose parts JAX does not tell; addends lie as their dims do
                sharding = NamedSharding(sharding.mesh, PartitionSpec(*sharding.spec.partitions))
            for device, slices in sharding.devices_indices_map(tuple(shape)).items():
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
                out[f"{name} {stage['first_rank'] + rank}"] = counted_box(part, whole, f"{name}: rank {rank}")
    return out


def counted_box(part, whole, who):
    """Where `part` lies in `whole`, whose elements are their own numbers."""
    import torch

    box = []
    for d, n in enumerate(part.shape):
        begin = int(part.flatten()[0]) // math.prod(whole.shape[d + 1:]) % whole.shape[d]
        box.append([begin, begin + n])
    assert torch.equal(whole[tuple(slice(*b) for b in box)], part), f"{who} holds more pieces than one"
    return box


def of_huggingface(path):
    """What transformers makes of each weight on every device of a tensor-parallel group; as it has them, (out, in)."""
    import torch
    import torch.distributed as dist
    import transformers
    from torch.testing._internal.distributed.fake_pg import FakeStore
    from transformers.distributed.tensor_parallel import ALL_PARALLEL_STYLES, apply_tensor_parallelism

    with open(path) as file:
        said = json.load(file)
    count, out = said["shardwright"]["tp_size"], {}
    key_of = {"layers": "num_hidden_layers", "hidden": "hidden_size", "heads": "num_attention_heads", "vocab": "vocab_size",
              "kv_heads": "num_key_value_heads", "ffn": "intermediate_size", "seq": "max_position_embeddings"}
    sizes = dict(word.split("=") for word in said["shardwright"]["model"].split(":")[1].split(","))
    config = transformers.LlamaConfig(**{key_of[key]: int(n) for key, n in sizes.items() if key in key_of})
    config.base_model_tp_plan, config.base_model_pp_plan = said["base_model_tp_plan"], said["base_model_pp_plan"]
    for rank in range(count):
        dist.init_process_group("fake", rank=rank, world_size=count, store=FakeStore())
        mesh = dist.init_device_mesh("cpu", (count,), mesh_dim_names=("tp",))
        model = transformers.LlamaForCausalLM(config)
        whole = {}
        for name, p in model.named_parameters():
            whole[name] = p.data = torch.arange(p.numel()).view(p.shape).float()
        rules = {**{"model." + name: style for name, style in said["base_model_tp_plan"].items()}, **said["_tp_plan"]}
        model._validate_parallel_plan(rules, ALL_PARALLEL_STYLES, "tp_plan")
        apply_tensor_parallelism(model, mesh, model._expand_parallel_plan(rules))
        for name, p in model.named_parameters():
            part = p.to_local() if hasattr(p, "to_local") else p
            out[f"{name} {rank}"] = counted_box(part.data, whole[name], f"{name}: rank {rank}")
        dist.destroy_process_group()
    return out


if __name__ == "__main__":
    print(json.dumps({"jax": of_jax, "dtensor": of_dtensor, "huggingface": of_huggingface}[sys.argv[1]](sys.argv[2])))

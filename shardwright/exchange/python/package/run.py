"""A run as any engine does it: its options, its batches, where it begins, what it tells."""

import argparse
import json
import math

import arrays
import program
import tensors
from data import synthetic_batches


def parser(doc):
    p = argparse.ArgumentParser(description=doc)
    p.add_argument("--data", help="safetensors with each input by name, [steps, batch, ...]; else synthetic data")
    p.add_argument("--init", help="weights: safetensors, or the folder of a checkpoint; else as the seed says")
    p.add_argument("--checkpoint", help="folder of a checkpoint to go on from: weights, states and step")
    p.add_argument("--save", help="safetensors to write at the end: weights and states, as `shardwright checkpoint` reads")
    p.add_argument("--steps", type=int, default=10, help="steps to be done in all")
    p.add_argument("--seed", type=int, default=1, help="of initial values and synthetic data")
    p.add_argument("--json", action="store_true", help="a JSON document for each step, and a summary")
    return p


def file_batches(path):
    """The batch of step s of a file: row s of each tensor, under the input's name or the one that the model's makers use."""
    file = tensors.File(path)
    wanted = {value["name"]: value for stage in program.STAGES for value in stage["inputs"].values()}
    wanted.pop(program.DATA["label_weights"], None)

    def named(name):
        theirs = program.DATA["names"].get(name)
        return theirs if theirs and theirs["name"] in file else {"name": name, "is_of_next": False}

    called = {name: named(name) for name in wanted}
    for name, value in wanted.items():
        own = called[name]["name"]
        if own not in file:
            tensors.error(f"{path}: has no tensor '{own}', an input of the model")
        shape = [n * program.MICRO_BATCHES if d == 0 else n for d, n in enumerate(value["shape"])]
        if list(file.shape(own)[1:]) != shape:
            tensors.error(f"{path}: '{own}' is {file.shape(own)} but should be [steps, {', '.join(map(str, shape))}]")
    count = min(file.shape(one["name"])[0] for one in called.values())

    def batch(step, name):
        x = file.tensor(called[name]["name"])[step % count]
        return moved(x) if called[name]["is_of_next"] else x

    return batch


NOT_ASKED = -100  # a label, as PyTorch has it


def moved(labels):
    """Each to the element before it, where it is predicted; nothing is asked of the last."""
    labels = arrays.as_type(labels, arrays.TYPES["I64"])
    return arrays.cat([labels[..., 1:], 0 * labels[..., :1] + NOT_ASKED], -1)


def batches(options):
    """`batches(step, name)`: the whole batch of an input."""
    given = file_batches(options.data) if options.data else synthetic_batches(options.seed)

    def batch(step, name):
        if name != program.DATA["label_weights"]:
            return given(step, name)
        # What each sample's labels count, so that the mean over parts is the mean over all labels that are asked for.
        labels = given(step, "label")
        asked, count = int((labels != NOT_ASKED).sum()), math.prod(labels.shape)
        return arrays.full([labels.shape[0]], count / asked if asked else 0.0, None)

    return batch


def kinds_lacking(weights):
    """Where some parameters are frozen (True), weights may have those alone, or the others alone: which kind they have none of."""
    kinds = {}
    for stage in program.STAGES:
        for leaf in stage["leaves"].values():
            if leaf["kind"] == "param":
                name = leaf["name"]
                has = weights is not None and (name in weights or "init." + name in weights)
                frozen = leaf.get("frozen", False)
                kinds[frozen] = kinds.get(frozen, False) or has
    return [kind for kind, has in kinds.items() if not has] if True in kinds and any(kinds.values()) else []


def beginning(options):
    """`part(leaf, box, device)` of what leaves begin with, and the step that comes next."""
    source = options.checkpoint or options.init
    weights = tensors.open_weights(source) if source else None
    # What is never trained stands in no checkpoint: --init has it, of a model that brings weights.
    begun = tensors.open_weights(options.init) if options.checkpoint and options.init else weights
    lacking = kinds_lacking(weights)
    if options.checkpoint and True in lacking and program.DATA["brings_weights"] and not options.init:
        tensors.error(f"{options.checkpoint}: holds what was trained alone; give --init, too, for the weights that stand beside it")

    def part(leaf, box, device=None):
        is_frozen = leaf.get("frozen", False)
        is_elsewhere = is_frozen and True in lacking
        return tensors.load(leaf, box, begun if is_elsewhere else weights, options.seed, bool(options.checkpoint), device,
                            is_frozen in lacking and begun is weights)

    return part, weights.run.get("step", 0) if options.checkpoint else 0


def description(options, step):
    """What a checkpoint says of its run."""
    inputs = [value for stage in program.STAGES for value in stage["inputs"].values() if value["shape"]]
    samples = max((value["shape"][0] * program.MICRO_BATCHES for value in inputs), default=0)
    return {"model": program.MODEL, "step": step, "seed": options.seed, "samples": samples, "schedule": "constant",
            "best": None, "best_of": ""}


def tell_step(options, step, scalars):
    for name, value in scalars.items():
        print(json.dumps({"step": step, name: value}) if options.json else f"step: {step}, {name} is {value:.7f}", flush=True)


def tell_summary(options, seconds, device, peak):
    usual = sorted(seconds[3:] or seconds)
    if options.json and usual:
        print(json.dumps({"summary": {"steps": len(seconds), "devices": program.RANKS, "device": device,
                                      "median_step_seconds": usual[len(usual) // 2], "peak_memory_bytes": peak}}))

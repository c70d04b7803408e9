"""Hugging Face folders under drawn plans, beside what transformers computes of them in f64 (tests/reference/hf/make_hf.py):
the losses before each of 4 AdamW updates and after them must be equal within 1e-9.

Usage: folders_drawn.py BINARY FOLDER... [--drawn COUNT --seed S]   (a FOLDER with reference.json)
"""

import argparse
import json
import math
import os
import random
import subprocess
import tempfile

import torch

from agree import drawn, losses_in
from safetensors_file import write_all


def write_batch(inputs, file):
    """The same batch at every step, labels unshifted, as the family's `forward` takes them."""
    rows = {name: torch.tensor([values]) for name, values in inputs.items()}
    write_all(file, {name: t.double() if t.is_floating_point() else t for name, t in rows.items()})


def command_of(binary, folder, reference, data):
    optimizer = reference["optimizer"]
    batch = len(next(iter(reference["inputs"].values())))
    return [binary, "train", f"{folder}:batch={batch}", "--data", data, "--steps", "5", "--json", "--precision", "f64", "--optimizer", "adamw",
            "--lr", str(optimizer["lr"]), "--weight-decay", str(optimizer["weight_decay"]), "--beta1", str(optimizer["betas"][0]),
            "--beta2", str(optimizer["betas"][1]), "--epsilon", str(optimizer["eps"])]


def agrees(command, plan, want):
    """The largest relative difference of a loss; a text where there is no such plan: why."""
    done = subprocess.run([*command, *plan], capture_output=True, text=True, env=dict(os.environ, OMP_NUM_THREADS="1"))
    if done.returncode == 2:
        return done.stderr.strip().splitlines()[-1]
    if done.returncode:
        raise SystemExit(f"{' '.join(command + plan)}: {done.stderr[-800:]}")
    losses = losses_in(done.stdout)
    worst = max(abs(a - b) / abs(b) for a, b in zip(losses, want, strict=True))
    if not worst <= 1e-9 or not math.isfinite(worst):
        raise SystemExit(f"{' '.join(command + plan)}: losses {losses} but transformers' are {want}")
    return worst


def without_step(words):
    """Without the optimizer and the clipping that are drawn: the reference's step has its own."""
    pairs = zip(words[::2], words[1::2], strict=True)
    return [w for flag, value in pairs if flag not in ("--optimizer", "--clip-norm") for w in (flag, value)]


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("binary")
    arguments.add_argument("folders", nargs="+")
    arguments.add_argument("--drawn", type=int, default=10)
    arguments.add_argument("--seed", type=int, default=random.randrange(10**6))
    asked = arguments.parse_args()
    print(f"seed {asked.seed}")
    for at, folder in enumerate(asked.folders):
        with open(folder + "/reference.json") as f, tempfile.TemporaryDirectory() as scratch:
            reference = json.load(f)
            data = scratch + "/data.safetensors"
            write_batch(reference["inputs"], data)
            command = command_of(asked.binary, folder, reference, data)
            want = [*reference["f64"]["losses"], reference["f64"]["loss_after"]]
            worst, refused = [], []
            for _, flags in drawn(6 * asked.drawn, asked.seed + at, [folder]).values():
                plan = without_step(flags.split())
                found = agrees(command, plan, want)
                (refused if isinstance(found, str) else worst).append(found)
                if len(worst) == asked.drawn:
                    break
            print(f"{os.path.basename(folder.rstrip('/'))}: {len(worst)} drawn plans, {max(worst, default=0):.1e}; {len(refused)} cannot be planned", flush=True)
            if len(worst) < asked.drawn:
                raise SystemExit(f"{folder}: too few of the drawn plans could be planned: {set(refused)}")


main()

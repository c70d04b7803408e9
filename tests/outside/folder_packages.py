"""Folders of Hugging Face as packages for PyTorch: with the folder's weights, and data under the names that its makers use, losses of
AdamW are those of transformers within 1e-9 (tests/reference/hf).

Usage: folder_packages.py BINARY
"""

import json
import sys
import tempfile

import torch

from agree import losses_in, on_ranks, run
from safetensors_file import write_all

CASES = {"mistral": (2, "--devices 2 --fix dp=2 --micro-batches 2"),  # labels that are not asked for, a window
         "vit": (1, "--devices 1")}


def main():
    worst = 0.0
    for name, (ranks, flags) in CASES.items():
        folder = "tests/reference/hf/" + name
        with open(folder + "/reference.json") as f:
            reference = json.load(f)
        inputs = {key: torch.tensor(value) for key, value in reference["inputs"].items()}
        inputs = {key: x.double() if x.is_floating_point() else x for key, x in inputs.items()}
        first = next(iter(inputs.values()))
        keys = f":batch={first.shape[0]}" + (f",seq={first.shape[1]}" if "input_ids" in inputs else "")
        o = reference["optimizer"]
        adamw = f"--precision f64 --optimizer adamw --lr {o['lr']} --beta2 {o['betas'][1]} --weight-decay {o['weight_decay']}"
        with tempfile.TemporaryDirectory() as scratch:
            write_all(scratch + "/data.safetensors", {key: x.unsqueeze(0) for key, x in inputs.items()})
            package = scratch + "/package"
            run(sys.argv[1], "emit", folder + keys, *f"{flags} {adamw}".split(), "--to", "torch", "-o", package)
            script = [package + "/train.py", "--device", "cpu", "--steps", "4", "--json", "--init", package + "/weights.safetensors"]
            losses = losses_in(on_ranks([*script, "--data", scratch + "/data.safetensors"], ranks))
        want = reference["f64"]["losses"]
        assert len(losses) == len(want) == 4, f"{name}: {len(losses)} losses of {len(want)}"
        far = max(abs(a - b) / abs(b) for a, b in zip(losses, want))
        print(f"{name} on {ranks}: losses {losses[0]:.6f} to {losses[-1]:.6f}, differ from transformers' by {far:.1e}")
        worst = max(worst, far)
    return worst > 1e-9


sys.exit(main())

"""Folders of Hugging Face as packages for PyTorch: with the folder's weights, and data under the names that its makers use, losses of
AdamW are those of transformers within 1e-9 (tests/reference/hf). With adapters they are those of `train`, and what is saved is
adapters alone, which a package goes on from beside the weights.

Usage: folder_packages.py BINARY
"""

import json
import sys
import tempfile

import torch

from agree import losses_in, on_ranks, run
from safetensors_file import read_all, write_all

CASES = {"mistral": (2, "--devices 2 --fix dp=2 --micro-batches 2"),  # labels that are not asked for, a window
         "vit": (1, "--devices 1")}


def adapters(scratch):
    """How far the losses of a package with adapters are from those of `train`."""
    folder = "tests/reference/hf/llama"
    with open(folder + "/reference.json") as f:
        inputs = {key: torch.tensor([value]) for key, value in json.load(f)["inputs"].items()}
    data, package, saved = (f"{scratch}/{name}" for name in ("adapted.safetensors", "adapted", "saved.safetensors"))
    write_all(data, inputs)
    model = f"lora({folder}:batch=8,seq=16):rank=4,alpha=8,targets=q.v.down"
    flags = "--devices 2 --fix tp=2 --precision f64 --optimizer adamw --lr 0.01".split()
    want = losses_in(run(sys.argv[1], "train", model, *flags, "--data", data, "--steps", "4", "--json"))
    run(sys.argv[1], "emit", model, *flags, "--to", "torch", "-o", package)
    script = [package + "/train.py", "--device", "cpu", "--json", "--data", data, "--init", package + "/weights.safetensors"]
    losses = losses_in(on_ranks([*script, "--steps", "2", "--save", saved], 2))
    losses += losses_in(on_ranks([*script, "--steps", "4", "--checkpoint", saved], 2))
    names = list(read_all(saved))
    assert names and all("lora_" in name or name.startswith("optimizer.") for name in names), names
    assert len(losses) == len(want) == 4, (losses, want)
    return max(abs(a - b) / abs(b) for a, b in zip(losses, want))


def made_data(scratch):
    """The same of labels that no input has the shape of, without --data: a package makes the batches that `train` makes."""
    flags = "--devices 2 --fix dp=2 --precision f64 --optimizer adamw --lr 0.01".split()
    model, package = "tests/reference/hf/whisper", scratch + "/made"
    want = losses_in(run(sys.argv[1], "train", model, *flags, "--steps", "4", "--json"))
    run(sys.argv[1], "emit", model, *flags, "--to", "torch", "-o", package)
    script = [package + "/train.py", "--device", "cpu", "--json", "--steps", "4", "--init", package + "/weights.safetensors"]
    losses = losses_in(on_ranks(script, 2))
    assert len(losses) == len(want) == 4, (losses, want)
    return max(abs(a - b) / abs(b) for a, b in zip(losses, want))


def main():
    with tempfile.TemporaryDirectory() as scratch:
        worst = made_data(scratch)
        assert worst < 1e-9, worst
    print(f"whisper on made data: losses differ from those of train by {worst:.1e}")
    with tempfile.TemporaryDirectory() as scratch:
        worst = adapters(scratch)
    print(f"llama with adapters on 2: losses differ from those of train by {worst:.1e}")
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

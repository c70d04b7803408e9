#!/usr/bin/env python3
"""What transformers says of folders that Shardwright has trained: loss_of_folder.py SHARDWRIGHT FOLDER...

Each reference (tests/reference/hf/NAME) is trained for 4 steps on 2 devices in f32; transformers then opens the folder that was saved
(tests/reference/hf/loss_of_folder.py, with the interpreter of ~/.cache/peers/pt), and its loss in f64 is the one that
Shardwright prints for it in f64. Exit 77, with one line, where transformers is missing.
"""
import json
import os
import subprocess
import sys
import tempfile

import torch
from safetensors_file import write_all

python = os.path.expanduser("~/.cache/peers/pt/bin/python")
references = "tests/reference/hf"
training = "--optimizer adamw --lr 0.001 --beta1 0.9 --beta2 0.95 --epsilon 1e-8 --weight-decay 0.1".split()


def losses(shardwright, model, data, *more):
    told = subprocess.run([shardwright, "train", model, "--data", data, *training, "--json", *more], check=True,
                          capture_output=True, text=True).stdout
    return [json.loads(line)["loss"] for line in told.splitlines() if '"loss"' in line]


def main(shardwright, names):
    if not os.path.exists(python) or subprocess.run([python, "-c", "import transformers"], check=False, capture_output=True).returncode:
        print("transformers is not installed: nothing is compared")
        return 77
    failed = 0
    for name in names:
        reference = f"{references}/{name}/reference.json"
        with tempfile.TemporaryDirectory() as scratch:
            data, saved = f"{scratch}/data.safetensors", f"{scratch}/saved"
            with open(reference, encoding="utf-8") as file:
                write_all(data, {key: torch.tensor([value]) for key, value in json.load(file)["inputs"].items()})
            losses(shardwright, f"{references}/{name}", data, "--steps", "4", "--devices", "2", "--save-folder", saved)
            ours = losses(shardwright, saved, data, "--precision", "f64", "--steps", "1")[0]
            ran = subprocess.run([python, f"{references}/loss_of_folder.py", saved, reference], capture_output=True, text=True,
                                 env={**os.environ, "HF_HUB_OFFLINE": "1"}, check=False)
        told = json.loads(ran.stdout) if ran.returncode == 0 else {}
        is_same = "loss" in told and abs(told["loss"] - ours) <= 1e-9 * abs(ours)
        print(name, "is" if is_same else "IS NOT", "the same:", ours, told or (ran.stdout + ran.stderr)[-500:])
        failed |= not is_same
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))

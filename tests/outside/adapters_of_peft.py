#!/usr/bin/env python3
"""What PEFT says of adapters that Shardwright has trained: adapters_of_peft.py SHARDWRIGHT

Folders of tests/reference/hf are trained with adapters for 4 steps on 2 devices; PEFT then reads what was saved
(tests/reference/lora/loss_of_adapters.py, with the interpreter of ~/.cache/peers/pt), and its loss in f64 is the one that Shardwright
prints for it. Exit 77, with one line, where PEFT is missing.
"""
import json
import os
import subprocess
import sys
import tempfile

import torch
from loss_of_folder import losses, python, references
from safetensors_file import write_all

cases = {
    "llama": ["q.v", "all"],
    "mistral": ["q_proj.down_proj"],
    "gpt2_hub_names": ["c_attn", "q.c_fc", "all"],  # one tensor of q, k and v: an adapter of the sum of their ranks
}


def main(shardwright):
    if not os.path.exists(python) or subprocess.run([python, "-c", "import peft"], check=False, capture_output=True).returncode:
        print("peft is not installed: nothing is compared")
        return 77
    failed = 0
    for name, all_targets in cases.items():
        reference, folder = f"{references}/{name}/reference.json", f"{references}/{name}"
        for targets in all_targets:
            with tempfile.TemporaryDirectory() as scratch:
                data, saved = f"{scratch}/data.safetensors", f"{scratch}/saved"
                with open(reference, encoding="utf-8") as file:
                    write_all(data, {key: torch.tensor([value]) for key, value in json.load(file)["inputs"].items()})
                model = f"lora({folder}):rank=4,alpha=6,targets={targets}"
                losses(shardwright, model, data, "--steps", "4", "--devices", "2", "--save-folder", saved)
                ours = losses(shardwright, model, data, "--precision", "f64", "--steps", "1", "--init", f"{saved}/adapter_model.safetensors")[0]
                ran = subprocess.run([python, "tests/reference/lora/loss_of_adapters.py", folder, saved, reference], capture_output=True,
                                     text=True, env={**os.environ, "HF_HUB_OFFLINE": "1"}, check=False)
            told = json.loads(ran.stdout) if ran.returncode == 0 else {}
            is_same = "loss" in told and abs(told["loss"] - ours) <= 1e-9 * abs(ours)
            print(name, targets, "is" if is_same else "IS NOT", "the same:", ours, told or (ran.stdout + ran.stderr)[-500:])
            failed |= not is_same
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

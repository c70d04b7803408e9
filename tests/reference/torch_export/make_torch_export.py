#!/usr/bin/env python3
"""Writes programs of torch.export, and what PyTorch computes from them: `make_torch_export.py [NAME...]`, with shardwright on PYTHONPATH
and torch, torchvision and transformers of PyPI. README.md beside it says what stands in the files."""

import gzip
import json
import pathlib
import sys

import torch
from safetensors.torch import save_file

import shardwright.torch as st
from modules import everywhere_f64, kept, made
from operators import cases

HERE = pathlib.Path(__file__).parent


def shortened(program, has_lines=True):
    """Lines of the code without where it lies."""
    said = json.loads(program.to_json())
    for node in said["nodes"]:
        line = node.pop("line", "").split("site-packages/")[-1].removeprefix(f"{HERE}/")
        if line and has_lines:
            node["line"] = line
    return said


def told(t):
    """Of a tensor two numbers: its norm, and a sum in which each element counts differently."""
    flat = t.detach().double().reshape(-1)
    return [flat.norm().item(), (flat * torch.cos(torch.arange(flat.numel(), dtype=torch.float64) + 1)).sum().item()]


def results_of(module, loss):
    """Of one step from here: the loss, gradients, and the states behind it."""
    loss.backward()
    gradients = {name: told(torch.zeros_like(p) if p.grad is None else p.grad) for name, p in module.named_parameters()}
    return {"loss": loss.item(), "gradients": gradients, "states": {name: told(b) for name, b in module.named_buffers()}}


def operators():
    rows = []
    for name, module, batch in cases():
        given = batch or (torch.ones(2, dtype=torch.float64),)
        program = shortened(st.export(module, given, None if batch else lambda m, unused: m()), has_lines=False)
        weights = {n: t.tolist() for n, t in module.state_dict().items()}
        names = [e["name"] for e in program["inputs"] if e["kind"] == "input"]
        rows.append({"name": name, "program": program, "batch": dict(zip(names, (t.tolist() for t in given))), "weights": weights}
                    | results_of(module.train(), module(*batch)))
    text = "[\n" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "\n]\n"
    (HERE / "operators.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"{len(rows)} operators")


def networks(names):
    for name in names:
        module, batch, loss = made(name, 1)
        arguments, keywords = ((), batch) if isinstance(batch, dict) else (batch, {})
        with everywhere_f64():
            program = st.export(module, batch, loss)
            tensors = {f"weight.{n}": t.detach().clone() for n, t in module.state_dict(keep_vars=True).items()}
            tensors |= {f"weight.{n}": b.clone() for n, b in module.named_buffers()}
            names = [e["name"] for e in program.inputs if e["kind"] == "input"]
            tensors |= {f"batch.{n}": t.clone() for n, t in zip(names, batch.values() if keywords else batch)}
            module.train()
            result = loss(module, *arguments, **keywords) if loss else module(*arguments, **keywords)
            found = results_of(module, result if isinstance(result, torch.Tensor) else result.loss)
        (HERE / f"{name}.json").write_text(json.dumps({"program": shortened(program)} | found, separators=(",", ":")) + "\n")
        save_file(tensors, HERE / f"{name}.safetensors")
        print(f"{name}: {found['loss']}")


if __name__ == "__main__":
    wanted = sys.argv[1:] or ["operators", *kept]
    if "operators" in wanted:
        operators()
    networks([name for name in wanted if name != "operators"])

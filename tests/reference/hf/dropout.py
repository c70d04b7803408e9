#!/usr/bin/env python3
"""Writes dropout.json: losses of transformers with dropout whose masks are ours, in the order of its calls.

  dropout.py [FOLDER...]      run in this folder; needs torch, transformers and safetensors from PyPI

transformers' own code runs, in f64 as in make_hf.py; what it drops is decided by name, step and place of an element
(shardwright/ops/dropout.cpp), written here once more. A call too many or too few, or of another shape, is an error.
"""
import json
import os
import sys

import numpy as np
import torch
import transformers
from make_hf import F32, F64, everywhere_f64, fresh, train

RATE = 0.25
KEYS = {"gpt2_hub_names": ["attn_pdrop", "embd_pdrop", "resid_pdrop"],
        "bert_mlm": ["hidden_dropout_prob", "attention_probs_dropout_prob"],
        "vit": ["hidden_dropout_prob", "attention_probs_dropout_prob"],
        "t5_gated": ["dropout_rate"],
        "whisper": ["dropout", "attention_dropout", "activation_dropout"],
        "qwen3": ["attention_dropout"]}


def of_layer(name, *parts):
    return [f"{name}.{part}.dropout" for part in parts]


def names(folder, config):
    """Of our dropouts, in the order in which transformers drops."""
    layers = range(getattr(config, "num_hidden_layers", 2))
    if folder == "qwen3":
        return [name for n in layers for name in of_layer(f"layers.{n}", "attention.weights")]
    if folder in ("gpt2_hub_names", "bert_mlm", "vit"):
        first = "elements.dropout" if folder == "vit" else "embedding.dropout"
        return [first] + [name for n in layers for name in of_layer(f"layers.{n}", "attention.weights", "add1", "add2")]
    out = []
    for stack in ("encoder", "decoder"):
        is_t5, cross = folder == "t5_gated", ["cross.weights", "add_cross"] if stack == "decoder" else []
        out.append(f"{stack}.dropout" if is_t5 else f"{stack}.placed.dropout")
        count = (config.num_decoder_layers if cross else config.num_layers) if is_t5 else getattr(config, f"{stack}_layers")
        for n in range(count):
            inner = "ffn.gated" if is_t5 else "ffn.gelu"
            out += of_layer(f"{stack}.layers.{n}", "attention.weights", "add1", *cross, inner, "add2")
        out += [f"{stack}.norm.dropout"] if is_t5 else []
    return out


def mixed(x):
    """SplitMix64."""
    with np.errstate(over="ignore"):
        x = np.asarray(x, dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def kept(shape, step, name):
    h = np.uint64(0xCBF29CE484222325)
    with np.errstate(over="ignore"):
        for byte in name.encode():
            h = (h ^ np.uint64(byte)) * np.uint64(0x100000001B3)
        key = mixed(mixed(mixed(np.uint64(step))) ^ h)
        bits = mixed(key + mixed(np.arange(int(np.prod(shape)), dtype=np.uint64)))
    return torch.from_numpy((bits >> np.uint64(11)) >= np.uint64(int(RATE * 2**53))).reshape(shape)


class Drops:
    """Stands for torch.nn.functional.dropout."""
    def __init__(self, called):
        self.called, self.calls = called, 0

    def __call__(self, x, p=0.5, training=True, inplace=False):
        if p == 0 or not training:
            return x
        assert p == RATE, p
        step, n = divmod(self.calls, len(self.called))
        self.calls += 1
        return torch.where(kept(tuple(x.shape), step, self.called[n]), x / (1 - RATE), torch.zeros_like(x))


def losses_of(folder):
    config = transformers.AutoConfig.from_pretrained(folder)
    for key in KEYS[folder]:
        assert hasattr(config, key), key
        setattr(config, key, RATE)
    config._attn_implementation = "eager"
    with open(folder + "/reference.json") as f:
        inputs = json.load(f)["inputs"]
    drops = Drops(names(folder, config))
    torch.nn.functional.dropout = drops
    torch.nn.Dropout.forward = lambda self, x: drops(x, self.p, self.training)
    of_class = getattr(transformers, config.architectures[0])
    source = of_class.from_pretrained(folder, attn_implementation="eager", dtype=F32)
    with everywhere_f64():
        model = fresh(of_class, config.to_dict(), source, F64)
        out = train(model, inputs, F64, steps=2)
    assert drops.calls == 3 * len(drops.called), f"{folder}: {drops.calls} calls for {len(drops.called)} names"
    return {"keys": {key: RATE for key in KEYS[folder]}, "losses": [*out["losses"], out["loss_after"]]}


def main():
    torch.set_num_threads(1)
    here = os.path.dirname(os.path.abspath(__file__))
    os.chdir(here)
    out = {folder: losses_of(folder) for folder in sys.argv[1:] or KEYS}
    with open("dropout.json", "w") as f:
        json.dump(out, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()

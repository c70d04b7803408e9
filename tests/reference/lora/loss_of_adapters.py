#!/usr/bin/env python3
"""The loss of a folder with adapters that somebody has saved, as PEFT reads them, all in f64: loss_of_adapters.py FOLDER ADAPTERS REFERENCE.json

REFERENCE.json is that of ../hf/NAME, whose batch is taken. Prints {"loss": ...}, and which tensors of the adapters PEFT has.
"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "hf"))
import make_hf  # noqa: E402
import peft  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import load_file  # noqa: E402


def main(folder, adapters, reference):
    inputs = json.load(open(reference))["inputs"]
    base = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=make_hf.F32)
    config, tensors = peft.LoraConfig.from_pretrained(adapters), load_file(f"{adapters}/adapter_model.safetensors")
    with make_hf.everywhere_f64():
        model = make_hf.fresh(type(base), json.load(open(f"{folder}/config.json")), base, make_hf.F64)
        model = peft.get_peft_model(model, config, autocast_adapter_dtype=False)
        read = peft.set_peft_model_state_dict(model, tensors)
        assert not read.unexpected_keys, read.unexpected_keys
        assert not [k for k in read.missing_keys if "lora_" in k], read.missing_keys
        model.to(make_hf.F64).train()
        print(json.dumps({"loss": make_hf.forward(model, inputs, make_hf.F64).loss.item(), "tensors": len(tensors)}))


if __name__ == "__main__":
    main(*sys.argv[1:])

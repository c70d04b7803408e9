#!/usr/bin/env python3
"""Writes adapters and what PEFT computes with them, beside the folders of ../hf.

  make_lora.py OUT [NAME...]

Needs torch, transformers, peft and safetensors from PyPI. A and B are drawn, so that both have gradients from the first step. All is in f64, as
../hf/make_hf.py has it: f64 throughout, 4 steps of AdamW on the folder's own batch.
"""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "hf"))
import make_hf  # noqa: E402
import peft  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402

CASES = {
    "llama_qv": {"folder": "llama", "rank": 4, "alpha": 8, "targets": ["q_proj", "v_proj"]},
    "llama_all": {"folder": "llama", "rank": 3, "alpha": 3, "targets": "all-linear"},
    "mistral_kgd": {"folder": "mistral", "rank": 2, "alpha": 5, "targets": ["k_proj", "gate_proj", "down_proj"]},
    "gpt2_cc": {"folder": "gpt2_hub_names", "rank": 4, "alpha": 6, "targets": ["c_proj", "c_fc"]},
}


def adapted(case, base, folder, dtype):
    model = make_hf.fresh(type(base), json.load(open(f"{folder}/config.json")), base, dtype)
    config = peft.LoraConfig(r=case["rank"], lora_alpha=case["alpha"], target_modules=case["targets"], lora_dropout=0.0, bias="none",
                             task_type="CAUSAL_LM", base_model_name_or_path=case["folder"])
    out = peft.get_peft_model(model, config, autocast_adapter_dtype=False)
    g = torch.Generator().manual_seed(7)
    for _, p in sorted(out.named_parameters()):
        if p.requires_grad:
            p.data.copy_((0.3 * torch.randn(p.shape, generator=g, dtype=make_hf.F32)).to(dtype))
    return out


def run(model, inputs):
    model.train()
    trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
    o = make_hf.OPTIMIZER
    optimizer = torch.optim.AdamW(trained.values(), lr=o["lr"], betas=tuple(o["betas"]), eps=o["eps"], weight_decay=o["weight_decay"],
                                  foreach=False, fused=False)
    out = {"losses": []}
    for step in range(make_hf.STEPS + 1):
        optimizer.zero_grad(set_to_none=True)
        loss = make_hf.forward(model, inputs, make_hf.F64).loss
        if step == make_hf.STEPS:
            out["loss_after"] = loss.item()
            break
        out["losses"].append(loss.item())
        loss.backward()
        if step == 0:
            out["grad_norms"] = {n.replace(".default", ""): p.grad.norm().item() for n, p in sorted(trained.items())}
        optimizer.step()
    return out


def main():
    target, names = sys.argv[1], sys.argv[2:] or list(CASES)
    for name in names:
        case, folder = CASES[name], os.path.join(HERE, "..", "hf", CASES[name]["folder"])
        out = os.path.join(target, name)
        base = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=make_hf.F32)
        short = adapted(case, base, folder, make_hf.F32)
        short.save_pretrained(out)
        os.remove(os.path.join(out, "README.md"))
        os.chmod(os.path.join(out, "adapter_model.safetensors"), 0o644)
        inputs = json.load(open(f"{folder}/reference.json"))["inputs"]
        with make_hf.everywhere_f64(), make_hf.Float32Uses() as watch:
            f64 = run(adapted(case, base, folder, make_hf.F64), inputs)
        for place in watch.places:  # A and B are drawn in f32, as the file has them
            assert "outside transformers" in place, watch.places
        parameters = sum(p.numel() for p in short.parameters() if p.requires_grad)
        reference = {**case, "made_by": {"peft": peft.__version__, "transformers": transformers.__version__,
                                         "torch": torch.__version__.split("+")[0]}, "trained_parameters": parameters, "f64": f64}
        make_hf.write_reference(out, reference)
        print(name, parameters, f64["losses"], f64["loss_after"])


if __name__ == "__main__":
    main()

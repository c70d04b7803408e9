"""Runs cases of operators that tests/exchange/python_operators_test.cpp has written, and compares with what kernels made.

Usage: operators.py FOLDER, which holds cases.json, tensors.safetensors and the operators' functions.
"""

import json
import math
import sys

sys.path.insert(0, sys.argv[1])

import operators  # the folder's
import torch
import torch.nn.functional as F

from safetensors_file import read_all


# What old versions say of short types on CPUs: f16 they have on GPUs alone, some of bf16 only on processors with AVX-512.
without_on_cpus = {torch.float16: "not implemented for 'Half'",
                   torch.bfloat16: "could not create a primitive descriptor iterator"}


def coordinates(rank, mesh):
    out = {}
    for axis, size in reversed(mesh):
        rank, out[axis] = divmod(rank, size)
    return out


def difference(got, want):
    """The largest, relative to what is wanted where that is above 1."""
    if list(got.shape) != list(want.shape) or got.dtype != want.dtype:
        return f"is {got.dtype} {list(got.shape)} but should be {want.dtype} {list(want.shape)}"
    got, want = got.double(), want.double()
    same = (got == want) | (got.isnan() & want.isnan())
    far = torch.where(same, torch.zeros_like(got), (got - want).abs() / want.abs().clamp(min=1))
    return far.max().item() if far.numel() else 0.0


def shared_unsaid(case, own, made):
    """Results that are an operand's memory although the operator does not say so; or should be, and are not."""
    if "overwrites" in case:
        return [f"result {r} is not written over x{o}" for r, o in enumerate(case["overwrites"])
                if made[r].data_ptr() != own[f"x{o}"].data_ptr()]
    places = {x.storage().data_ptr(): name for name, x in own.items() if x.numel()}
    shared = {places[x.storage().data_ptr()] for x in made if x.numel() and x.storage().data_ptr() in places}
    return [f"a result shares the memory of {name}" for name in shared - ({"x0"} if case["may_share"] else set())]


def results_of(line, names):
    made = eval(line, names)
    return list(made) if isinstance(made, (tuple, list)) else [made]


def adds_up_short(case, line, names, own, wanted):
    """Whether what kernels made of operands of a short type keeps to the tolerance beside the same line in f64: then it is torch
    that is far off, which on some processors adds up products of bf16 in bf16."""
    if "overwrites" in case or not any(x.dtype in without_on_cpus for x in own.values()):
        return False
    exact = results_of(line, {**names, **{k: x.double() if x.is_floating_point() else x for k, x in own.items()}})
    return [x.shape for x in exact] == [x.shape for x in wanted] and all(
        difference(want.double(), x) <= case["tolerance"] for want, x in zip(wanted, exact))


def main():
    tensors = read_all(sys.argv[1] + "/tensors.safetensors")
    with open(sys.argv[1] + "/cases.json") as f:
        cases = json.load(f)
    names = {"torch": torch, "F": F, "math": math, **vars(operators)}
    failed, ranks, narrow, without = 0, 0, 0, dict.fromkeys(without_on_cpus, 0)
    for case in cases:
        line = compile(case["line"], case["op"], "eval")
        for r, rank in enumerate(case["ranks"]):
            ranks += 1
            own = {f"x{i}": tensors[name].clone() for i, name in enumerate(rank["operands"])}
            here = {**names, **coordinates(r, case["mesh"])}
            wanted = [tensors[name] for name in rank["results"]]
            try:
                made = results_of(line, {**here, **own})
                far = [difference(got, want) for got, want in zip(made, wanted)]
                far += [] if len(made) == len(wanted) else [f"{len(made)} results of {len(wanted)}"]
                bad = [d for d in far if isinstance(d, str) or not d <= case["tolerance"]]
                bad += shared_unsaid(case, own, made)
            except Exception as e:
                bad = [f"{type(e).__name__}: {e}"]
                short = next((t for t in without if any(x.dtype == t for x in own.values())), None)
                if short and without_on_cpus[short] in bad[0]:
                    bad, without[short] = [], without[short] + 1
            if bad and all(isinstance(d, float) for d in bad) and adds_up_short(case, line, here, own, wanted):
                bad, narrow = [], narrow + 1
            if bad:
                failed += 1
                types = ", ".join(f"{tensors[n].dtype}{list(tensors[n].shape)}" for n in rank["operands"])
                print(f"{case['op']} rank {r} of {case['mesh']} ({types}): {case['line']}: {bad[0]}")
                break
    print(f"{len(cases)} cases on {ranks} ranks, {failed} differ; {without[torch.float16]} of f16 and"
          f" {without[torch.bfloat16]} of bf16, which this torch does not have on this processor;"
          f" {narrow} it adds up in the short type")
    return failed > 0


sys.exit(main())

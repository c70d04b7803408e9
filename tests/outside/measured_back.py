"""What a package for PyTorch has measured, taken back: its trace beside the plan's step, and as a cluster.

Usage: measured_back.py BINARY
"""

import json
import os
import subprocess
import sys
import tempfile

from agree import on_ranks, run

# Models, flags and ranks.
CASES = {
    "one": ("ffn:batch=32,widths=64-128-32", [], 1),
    "split": ("llama:layers=1,hidden=32,heads=4,kv_heads=2,ffn=64,vocab=64,seq=16,batch=4", ["--devices", "2", "--fix", "tp=2"], 2),
    "replicas": ("ffn:batch=32,widths=64-128-32", ["--devices", "2", "--fix", "dp=2"], 2),
    "stages": ("gpt:layers=2,hidden=24,heads=4,ffn=36,vocab=24,seq=12,batch=12",
               ["--devices", "2", "--stages", "2", "--micro-batches", "3", "--recompute", "full"], 2),
}


def seconds(part):
    return part["measured_seconds"]


def check(binary, folder, model, flags, ranks):
    plan, trace = folder + "/plan.json", folder + "/trace.json"
    run(binary, "plan", model, *flags, "-o", plan)
    run(binary, "emit", plan, "--to", "torch", "-o", folder + "/package")
    on_ranks([folder + "/package/train.py", "--steps", "6", "--json", "--device", "cpu", "--trace", trace], ranks)
    told = json.loads(run(binary, "explain", plan, "--measured", trace, "--json"))
    terms = {part["name"]: seconds(part) for part in told["terms"]}
    step, operators = seconds(told["step"]), {part["name"]: part for part in told["operators"]}
    assert abs(sum(terms.values()) - step) < 1e-6 * step, f"{terms} are not the step, {step}"
    assert 0 < terms["compute"] < step and 0 < seconds(told["update"]) < terms["compute"], terms
    in_kernels = sum(map(seconds, operators.values()))
    assert abs(in_kernels - terms["compute"] - terms["recompute"]) < 1e-6 * step, f"kernels take {in_kernels}: {terms}"
    # Each operator that is predicted is measured, and no other.
    unlike = [name for name, part in operators.items() if (part["predicted_seconds"] > 0) != (seconds(part) > 0)]
    assert not unlike, f"on one side only: {unlike}"
    assert ("--recompute" in flags) == (terms["recompute"] > 0), terms
    assert "the measured step takes" in run(binary, "explain", plan, "--measured", trace)
    assert (terms["communication"] > 0) == ("--devices" in flags and "--stages" not in flags), terms
    calibrate = [binary, "calibrate", "--from", trace, "--out", folder + "/mine.yaml"]
    fitted = subprocess.run(calibrate, check=True, capture_output=True, text=True).stderr
    assert "of 2 ranks" in fitted or "tp=2" not in flags, fitted  # collectives beside which nothing else goes on
    run(binary, "plan", model, "--cluster", folder + "/mine.yaml")
    return terms


def main():
    failed = 0
    for name, (model, flags, ranks) in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            try:
                print(f"{name}: {check(os.path.abspath(sys.argv[1]), folder, model, flags, ranks)}", flush=True)
            except (AssertionError, RuntimeError) as e:
                failed += 1
                print(f"{name}: FAILED: {e}", flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())

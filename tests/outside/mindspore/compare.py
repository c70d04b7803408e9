#!/usr/bin/env python3
"""The small programs of programs.txt, and the networks of trained.py, by MindSpore and by our names for it, beside each other.

  compare.py                         runs ours and compares with the committed answers of MindSpore 2.10 (tests/reference/mindspore210)
  compare.py --full                  runs MindSpore, too (SHARDWRIGHT_MINDSPORE_PYTHON or ~/.cache/peers/ms/bin/python; else
                                     says so and ends with status 77), and compares with what it says
  compare.py --full --write          and writes those anew
  compare.py --only WORD             only programs with this word in them
  compare.py --table                 prints the table by parts of docs/mindspore.md; --json FILE writes all verdicts

Ours is run with the Python and the PYTHONPATH of this process. Status 1 if a program differs that known.txt does not name.
"""

import argparse
import collections
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
ANSWERS = HERE.parents[1] / "reference" / "mindspore210" / "programs.json"
LOSSES = ANSWERS.with_name("trained.json")
sys.path.insert(0, str(HERE))
import side  # noqa: E402

VERDICTS = ("equal", "different", "refused", "lacking", "named", "not there either")


def run_side(python, only, environment=None):
    """{program: what it gives}. A program that ends the process is one more error."""
    found = {}
    everything = side.programs()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "out.jsonl"
        skip = 0
        while True:
            done = subprocess.run([python, str(HERE / "side.py"), str(path), "--only", only, "--skip", str(skip)],
                                  env={**os.environ, **(environment or {})}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            for line in path.read_text().splitlines() if path.exists() else []:
                item = json.loads(line)
                found[item.pop("program")] = item
            if done.returncode == 0:
                return found
            started = [line.split(" ", 1) for line in done.stderr.splitlines() if line.split(" ", 1)[0].isdigit()]
            if not started:
                raise SystemExit(f"{python}: {done.stderr[-2000:]}")
            number = int(started[-1][0])
            found[everything[number]] = {"error": f"Crash: status {done.returncode}"}
            skip = number + 1


def run_trained(python, environment=None):
    """Losses of the networks of trained.py."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "out.json"
        done = subprocess.run([python, str(HERE / "trained.py"), str(path)], env={**os.environ, **(environment or {})},
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise SystemExit(f"{python}: {done.stderr[-2000:]}")
        return json.loads(path.read_text())


def apart(ours, theirs):
    """How far losses are from each other, by the larger of theirs and 0.1."""
    if isinstance(ours, str) or isinstance(theirs, str) or len(ours) != len(theirs):
        return math.inf
    return max(abs(a - b) / max(abs(b), 0.1) for a, b in zip(ours, theirs))


def number(x):
    return float(x) if isinstance(x, str) and x in ("nan", "inf", "-inf") else x


def is_near(ours, theirs, allowed):
    """Two arrays as side.digest has them."""
    if isinstance(ours, str) or isinstance(theirs, str):
        return ours == theirs
    if ours[0] != theirs[0] or ours[1] != theirs[1]:
        return False
    a, b = ([number(x) for x in values[2]] for values in (ours, theirs))
    if any(isinstance(x, str) for x in a + b):
        return a == b
    if "float16" == ours[0]:
        allowed = 1e-3
    scale = max([1.0] + [abs(x) for x in b if math.isfinite(x)])
    return len(a) == len(b) and all(x == y or (math.isnan(x) and math.isnan(y)) or abs(x - y) <= allowed * scale for x, y in zip(a, b))


def verdict(ours, theirs, allowed=1e-5):
    """One of VERDICTS, and why."""
    if "error" in theirs:
        return "not there either", theirs["error"]
    if "error" in ours:
        what = ours["error"]
        is_lacking = "is not in this front end; " in what or "is not in this front end" in what and "has no attribute" in what \
            or what.startswith(("AttributeError", "ImportError"))
        return ("lacking" if is_lacking else "refused"), what
    for part in ("out", "names", "grad"):
        a, b = ours.get(part), theirs.get(part)
        if b is None:
            continue
        if a is None:
            why = ours.get("grad_error", "none")
            return ("different", f"{part}: {why}")
        if len(a) != len(b):
            return "different", f"{part}: {len(a)} arrays for {len(b)}: {a} for {b}"[:400]
        for i, (x, y) in enumerate(zip(a, b)):
            if not is_near(x, y, allowed):
                return "different", f"{part} {i}: {x} for {y}"[:400]
    return "equal", ""


def known():
    """Programs whose difference has a reason, with it."""
    lines = (HERE / "known.txt").read_text().splitlines()
    return dict(line.rsplit(" # ", 1) for line in lines if line and not line.startswith("#"))


def write(answers):
    """Those of the table's programs, a line each; errors without what its framework says of itself."""
    def short(item):
        return {**item, "error": item["error"].split(" ----")[0][:120]} if "error" in item else item

    lines = [f"{json.dumps(p)}: {json.dumps(short(answers[p]), separators=(',', ':'))}" for p in side.programs() if p in answers]
    ANSWERS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def part_of(program):
    """Of the table."""
    name = side.name_of(program)
    head, _, rest = name.partition(".")
    if re.search(r"\bP\b", program):
        return "optimizers"
    parts = {"ops": "`ops`, primitives" if rest[:1].isupper() else "`ops`, functions", "mint": "`mint`", "nn": "`nn`",
             "Tensor": "tensors: methods, indices, arithmetic", "abs": "tensors: methods, indices, arithmetic"}
    return parts.get(head, "training, metrics, transforms, scalers")


def table(verdicts):
    """Lines of Markdown."""
    rows = collections.OrderedDict()
    for program, (said, _) in verdicts.items():
        rows.setdefault(part_of(program), collections.Counter())[said] += 1
    total = sum(rows.values(), collections.Counter())
    lines = ["| part | equal | different | named differences | refused here | lacking | no answer there |", "|---|---|---|---|---|---|---|"]
    for part, counts in [*rows.items(), ("all", total)]:
        lines.append(f"| {part} | " + " | ".join(str(counts[v]) for v in (
            "equal", "different", "named", "refused", "lacking", "not there either")) + " |")
    return lines


def compared_losses(said, python):
    """Of the networks of trained.py, those that are further than 2e-5 from MindSpore's, told; how far the others are."""
    theirs = run_trained(python, {"PYTHONPATH": "", "GLOG_v": "3", "SHARDWRIGHT_DEVICES": "1"}) if python else json.loads(LOSSES.read_text())
    if python and said.write:
        LOSSES.write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in theirs.items()) + "\n}\n")
    ours = run_trained(sys.executable)
    found = {name: apart(ours.get(name, "not run"), losses) for name, losses in theirs.items()}
    far = {name: x for name, x in found.items() if not x <= 2e-5}
    for name, x in far.items():
        print(f"different: losses of '{name}' by {x:.1e}: {ours.get(name)} for {theirs[name]}")
    print(f"{len(found) - len(far)} of {len(found)} trained networks have the same losses, to {max(found.values()):.1e}")
    return far


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--json")
    said = parser.parse_args()
    if said.full:
        python = os.environ.get("SHARDWRIGHT_MINDSPORE_PYTHON") or os.path.expanduser("~/.cache/peers/ms/bin/python")
        if not os.path.exists(python) or subprocess.run([python, "-c", "import mindspore"], capture_output=True,
                                                        env={**os.environ, "PYTHONPATH": ""}).returncode:
            print(f"skipped: {python} has no mindspore")
            return 77
        theirs = run_side(python, said.only, {"PYTHONPATH": "", "GLOG_v": "3"})
        if said.write:
            kept = json.loads(ANSWERS.read_text()) if ANSWERS.exists() and said.only else {}
            kept.update(theirs)
            write(kept)
    else:
        theirs = {p: found for p, found in json.loads(ANSWERS.read_text()).items() if said.only in p}
    ours = run_side(sys.executable, said.only)
    reasons, verdicts = known(), {}
    for program in side.programs():
        if program in theirs and program in ours:
            verdicts[program] = verdict(ours[program], theirs[program])
            if program in reasons and verdicts[program][0] != "equal":
                verdicts[program] = ("named", reasons[program])
    for program, (what, why) in verdicts.items():
        if what in ("different", "refused", "lacking"):
            print(f"{what}: {program}: {why}")
    if said.json:
        pathlib.Path(said.json).write_text(json.dumps({p: {"verdict": v, "why": w} for p, (v, w) in verdicts.items()}, indent=1) + "\n")
    if said.table:
        print("\n".join(table(verdicts)))
    far = {} if said.only else compared_losses(said, python if said.full else None)
    counts = collections.Counter(v for v, _ in verdicts.values())
    print(", ".join(f"{counts[v]} {v}" for v in VERDICTS) + f", of {len(verdicts)} programs")
    return 1 if counts["different"] or far else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""What share of its time a training is worth whose ranks are killed again and again.

  useful_time.py PROGRAM [--minutes M] [--every S] [--save-every STEPS] [--seed S] [--model MODEL]

Without faults first: what a step takes, its saves with it. Then `launch --restarts` goes on for M minutes, and every S seconds a rank that
is drawn is killed. Useful is what the steps that are kept take without faults, of the whole time. A fault costs half of what
lies between two saves in the mean, whatever is done: the rest is what the interval allows, and the share of it is told last."""
import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time


def ranks_of(mark):
    """Processes of ranks whose environment holds the mark."""
    out = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                environment = f.read()
        except OSError:
            continue
        if mark in environment and b"OMPI_COMM_WORLD_RANK=" in environment:
            out.append(int(pid))
    return out


class Run:
    """A training that writes a line for each step."""

    def __init__(self, o, folder, steps, name):
        self.mark = f"USEFUL_TIME={os.path.basename(folder)}.{name}"
        self.out = open(f"{folder}/{name}.out", "w", encoding="utf-8")
        self.err = open(f"{folder}/{name}.err", "w", encoding="utf-8")
        words = [os.path.realpath(o.program), "launch", "--restarts", "100000", "--", "train", o.model, "--devices", str(o.devices),
                 "--steps", str(steps), "--json", "--save", f"{folder}/{name}", "--save-every", str(o.save_every), "--keep", "2"]
        environment = {**os.environ, "USEFUL_TIME": self.mark.split("=")[1]}
        self.process = subprocess.Popen(words, stdout=self.out, stderr=self.err, env=environment, cwd=folder)

    def last_step(self):
        with open(self.out.name, "rb") as f:
            f.seek(max(0, os.path.getsize(self.out.name) - 4096))
            found = re.findall(rb'"step": ?(\d+),', f.read())
        return int(found[-1]) if found else 0

    def wait_for_step(self, step, seconds=120):
        begin = time.monotonic()
        while self.last_step() < step:
            if self.process.poll() is not None or time.monotonic() - begin > seconds:
                sys.exit(f"useful_time: step {step} is not reached: {open(self.err.name, encoding='utf-8').read()[-800:]}")
            time.sleep(0.02)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def kill_one(self, draw):
        ranks = ranks_of(self.mark.encode())
        if ranks:
            os.kill(draw.choice(ranks), signal.SIGKILL)
        return bool(ranks)


def seconds_of_a_step(o, folder):
    """In the middle of a run that nothing disturbs, over a whole number of saves."""
    run = Run(o, folder, 10**9, "alone")
    run.wait_for_step(o.save_every)
    first, begin = run.last_step(), time.monotonic()
    run.wait_for_step(first + 4 * o.save_every)
    out = (time.monotonic() - begin) / (run.last_step() - first)
    run.stop()
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--model", default="llama:layers=2,hidden=128,heads=4,ffn=352,vocab=512,seq=64,batch=8")
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--every", type=float, default=30)
    parser.add_argument("--save-every", type=int, default=50)
    parser.add_argument("--seed", type=int, default=None)
    o = parser.parse_args()
    draw = random.Random(o.seed)
    with tempfile.TemporaryDirectory(prefix="useful_time.") as folder:
        step = seconds_of_a_step(o, folder)
        run = Run(o, folder, 10**9, "killed")
        run.wait_for_step(1)
        first, begin, faults = run.last_step(), time.monotonic(), 0
        while (left := 60 * o.minutes - (time.monotonic() - begin)) > 0:
            time.sleep(min(left, o.every))
            if left > o.every:
                faults += run.kill_one(draw)
        wall, kept = time.monotonic() - begin, run.last_step() - first
        run.stop()
        with open(run.out.name, encoding="utf-8") as f:
            restarts = sum('"restart"' in line for line in f)
    allowed = 1 - 0.5 * o.save_every * step * faults / wall
    useful = kept * step / wall
    print(json.dumps({"step_seconds": round(step, 5), "seconds": round(wall, 1), "faults": faults, "restarts": restarts,
                      "steps": kept, "useful": round(useful, 4), "allowed": round(allowed, 4), "of_allowed": round(useful / allowed, 4)}))
    if restarts < faults:
        sys.exit(f"useful_time: {faults} faults but {restarts} restarts")


if __name__ == "__main__":
    main()

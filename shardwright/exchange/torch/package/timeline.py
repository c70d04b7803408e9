"""What a rank does, and when: kernel by kernel, in the form of `shardwright train --trace`, so that `shardwright calibrate --from`
learns prices from it. While steps are recorded each kernel is waited for."""

import ast
import inspect
import itertools
import json
import time

import torch
import torch.distributed as dist

import operators
import program
from operators import device


class Trace:
    def __init__(self, rank):
        self.rank, self.is_on, self.events, self.micro_batch, self.running = rank, False, [], 0, None
        self.on_its_way = {}  # by transfer and micro-batch, when it started

    def now(self):
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter_ns()  # one clock for all processes of a host

    def add(self, category, name, begin, stage, arguments):
        if self.is_on:
            self.events.append((category, name, begin, self.now(), stage, dict(arguments, micro_batch=self.micro_batch)))

    def started(self, transfer, m, begin):
        if self.is_on:
            self.on_its_way[transfer, m] = begin

    def finished(self, transfer, m, stage, begin, is_awaited):
        """Since `begin` the rank waited for it, if it did at all."""
        since = self.on_its_way.pop((transfer, m), None)
        if since is None or not is_awaited:
            return
        spec = program.TRANSFERS[transfer]
        told = {key: spec[key] for key in ("phase", "nodes", "operators", "work") if key in spec}
        self.add("bubble" if "from_stage" in spec and spec["from_stage"] != spec["to_stage"] else "exposed",
                 f"wait for {spec['name']}", begin, stage, told)
        self.add("communication", spec["name"], since, stage, told)

    def functions_of(self, module, stage, spec):
        """The functions of a model, in which each kernel tells when it begins and ends."""
        kernels, tree = spec["kernels"], ast.parse(inspect.getsource(module))
        ends = {kernel["last"]: first for first, kernel in kernels.items()}

        def begins(first):
            self.running = self.now() if self.is_on else None

        def has_ended(first):
            if self.is_on:
                kernel = kernels[first]
                self.add("compute", kernel["nodes"][0], self.running, stage,
                         {key: kernel[key] for key in ("phase", "nodes", "operators", "work")})

        def first_result(line):
            target = line.targets[0] if isinstance(line, ast.Assign) else None
            return getattr(target.elts[0] if isinstance(target, ast.Tuple) else target, "id", None)

        def apart(line):  # what is computed at once has no times of its own
            return [ast.parse(one).body[0] for one in spec["apart"].get(first_result(line), [])] or [line]

        for function in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
            lines = []
            for line in (one for of_both in function.body for one in apart(of_both)):
                name = first_result(line)
                if name in kernels:
                    lines.append(ast.parse(f"_begins({name!r})").body[0])
                lines.append(line)
                if name in ends:
                    lines.append(ast.parse(f"_has_ended({ends[name]!r})").body[0])
            function.body = lines
        names = dict(vars(operators), **vars(module), _begins=begins, _has_ended=has_ended)
        exec(compile(ast.fix_missing_locations(tree), module.__file__, "exec"), names)
        return names

    def write(self, path):
        """Of all ranks, by the first."""
        all_events = [None] * program.RANKS
        if program.RANKS > 1:
            dist.all_gather_object(all_events, self.events)
        else:
            all_events = [self.events]
        if self.rank:
            return
        first, lines = min(begin for events in all_events for _, _, begin, *_ in events), []
        per_group = program.RANKS // len(program.TASKS)
        further = itertools.count(2 * program.RANKS)  # tracks, behind two of each rank
        for rank, events in enumerate(all_events):
            group, free = rank // per_group, {2 * rank + 1: 0}  # tracks of what is on its way, and from when on they are
            for number, what in ((2 * rank, "compute"), (2 * rank + 1, "communication")):
                lines.append(heading(group, number, rank, what))
            for category, name, begin, end, _, arguments in sorted(events, key=lambda event: event[2]):
                number = 2 * rank
                if category == "communication":
                    number = next((track for track, since in free.items() if since <= begin), None)
                    if number is None:
                        number = next(further)
                        lines.append(heading(group, number, rank, f"communication {len(free) + 1}"))
                    free[number] = end
                lines.append({"ph": "X", "cat": category, "name": name, "ts": (begin - first) * 1e-3,
                              "dur": (end - begin) * 1e-3, "args": arguments, "pid": group, "tid": number})
        with open(path, "w") as f:
            f.write(json.dumps({"displayTimeUnit": "ms", "otherData": {"program": "shardwright", "cluster": program.CLUSTER}})[:-1]
                    + ', "traceEvents": [\n' + ",\n".join(map(json.dumps, lines)) + "\n]}\n")


def heading(group, track, rank, what):
    return {"ph": "M", "name": "thread_name", "pid": group, "tid": track,
            "args": {"name": f"rank {rank} (stage {group}) {what}"}}

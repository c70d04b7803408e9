"""How many collectives a step has, and how many bytes go into them, of one rank: as `lower --json` says and as StableHLO."""

import collections
import re

from execute import Stage

KINDS = {"all_reduce.sum": "all_reduce", "all_reduce.max": "all_reduce", "permute": "collective_permute"}
BYTES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "u8": 1, "bool": 1, "ui8": 1, "i1": 1}


def planned(program):
    """{kind: [count, bytes]} of rank 0."""
    stages = [Stage(s) for s in program["stages"]]
    steps, out = program["steps"][0], collections.defaultdict(lambda: [0, 0])

    def start(transfer):
        if len(transfer["group"]) < 2 or "crossing" in transfer:
            return
        stage = stages[transfer["stage"]]
        kind = stage.producer[transfer["parts"][0]["to"]]["op"]
        one = out[KINDS.get(kind, kind)]
        one[0] += 1
        for part in transfer["parts"]:
            size = BYTES[stage.values[part["from"]]["type"]]
            for begin, end in stage.box(part["from"], 0):
                size *= end - begin
            one[1] += size

    for i in steps["instructions"]:
        inside = steps["sections"][i["section"]]["instructions"] if i["act"] == "run" else [i]
        for inner in inside:
            if inner["act"] == "start":
                start(steps["transfers"][inner["transfer"]])
    return dict(out)


def in_stablehlo(text):
    out = collections.defaultdict(lambda: [0, 0])
    for found in re.finditer(r'"stablehlo\.(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)"', text):
        signature = re.search(r": \((tensor<[^)]*)\) -> ", text[found.end():]).group(1)
        one = out[found.group(1)]
        one[0] += 1
        for shape in re.findall(r"tensor<([^>]*)>", signature):
            *dims, dtype = shape.split("x")
            size = BYTES[dtype]
            for dim in dims:
                size *= int(dim)
            one[1] += size
    return dict(out)

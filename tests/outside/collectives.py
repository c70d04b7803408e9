"""How many collectives a step has, and how many bytes go into them, of one rank: as `lower --json` says and as StableHLO."""

import collections
import math
import re

from execute import Stage

KINDS = {"all_reduce.sum": "all_reduce", "all_reduce.max": "all_reduce", "permute": "collective_permute"}
BYTES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "u8": 1, "bool": 1, "ui8": 1, "i1": 1}


def planned(program, told=lambda kind, count, size: None):
    """{kind: [count, bytes]} of rank 0; each is `told`, with how many ranks take part."""
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
            if kind == "halo":  # what neighbours have of it
                size = BYTES[stage.values[part["from"]]["type"]] * math.prod(e - b for b, e in stage.box(part["to"], 0)) - size
            told(KINDS.get(kind, kind), len(transfer["group"]), size)

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


# ---- what moves ----


def received(kind, count, size):
    """Bytes that a rank of `count` receives where `size` go into it, as rings do it."""
    return size * {"all_reduce": 2 * (count - 1) / count, "all_gather": count - 1, "reduce_scatter": (count - 1) / count,
                   "all_to_all": (count - 1) / count, "collective_permute": 1, "halo": 1}[kind]


def planned_traffic(program):
    total = 0

    def add(kind, count, size):
        nonlocal total
        total += received(kind, count, size)

    planned(program, add)
    return total


def group_size(attributes):
    """`replica_groups=[2,4]<=[8]`, `{{0,1},{2,3}}` or `mesh['a'=4,'b'=2] {'a','b':(1)2}`"""
    if found := re.search(r"replica_groups=\[\d+,(\d+)\]", attributes):
        return int(found.group(1))
    if found := re.search(r"replica_groups=\{\{([\d,]*)\}", attributes):
        return len(found.group(1).split(","))
    found = re.search(r"replica_groups=mesh\[(.*?)\][^{]*\{(.*?)\}", attributes)
    assert found, f"no groups in {attributes[:300]}"
    mesh, axes = found.groups()
    sizes, count = dict(re.findall(r"('\w+')=(\d+)", mesh)), 1
    for axis, part in re.findall(r"('\w+')(?::\(\d+\)(\d+))?", axes):
        count *= int(part or sizes[axis])
    return count


def hlo_traffic(text):
    """Of XLA's program for one device, compiled."""
    total, shapes = 0, r"(\([^)]*\)|[a-z0-9]+\[[0-9,]*\]\S*)"
    kinds = "all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute"
    for line in re.findall(rf"= {shapes} ({kinds})(?:-start)?\((.*)", text):
        kind, rest = line[1].replace("-", "_"), line[2]
        size = 0
        for dtype, dims in re.findall(r"([a-z]+[0-9]*)\[([0-9,]*)\]", line[0]):
            n = {"pred": 1, "s32": 4, "s64": 8, "u32": 4, "u8": 1}.get(dtype) or BYTES[dtype]
            for dim in dims.split(","):
                n *= int(dim or 1)
            size += n
        count = group_size(rest) if kind != "collective_permute" else 2
        size = {"all_gather": size / count, "reduce_scatter": size * count}.get(kind, size)
        total += received(kind, count, size)
    return total

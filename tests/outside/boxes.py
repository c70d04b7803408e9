"""Plans in others' words, read by what those words mean to them: which rank holds which part of each tensor.

Nothing here knows how the files are written: each reader follows the format's own documentation (named above it) and says
for every tensor and rank its box, [begin, end) per dim. `ours` does the same from `lower --json`. They must be equal, for
drawn plans in every format that can say them; and what is read back by `import` must be the plan again.

Usage: boxes.py BINARY [--drawn COUNT] [--seed S] [--formats NAME,...] [--libraries [FOLDER]]

With --libraries PyTorch, transformers and JAX themselves say it, too: FOLDER/pt and FOLDER/jx (default ~/.cache/peers) are
virtual environments that have them. Without either it is skipped (77).
"""

import argparse
import itertools
import json
import math
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
import types

FFN = "ffn:batch=16,widths=16-32-16-8"
GPT = "gpt:layers=4,hidden=32,heads=8,ffn=64,vocab=64,seq=16"
LLAMA = "llama:layers=4,hidden=32,heads=8,kv_heads=4,ffn=64,vocab=64,seq=16"


def run(*command, fails=False):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode and not fails:
        raise RuntimeError(f"{' '.join(command)}: {(done.stdout + done.stderr)[-1500:]}")
    return done


# ---- ours: floors of `lower --json`, docs/program-format.md ----

def ours(binary, plan):
    program = json.loads(run(binary, "lower", plan_model(plan), "--plan", plan, "--json").stdout)
    leaves, results = {}, {}
    for stage in program["stages"]:
        by = {name: node for node in stage["nodes"] for name in node["results"]}
        values = {value["name"]: value for value in stage["values"]}
        for name, value in values.items():
            is_leaf = name in by and by[name]["op"] in ("param", "input")
            made = value if is_leaf else values.get(as_made(name, by))
            if made is None:
                continue
            mesh = stage["meshes"][made["layout"]["mesh"]]
            for rank in range(stage["ranks"]):
                (leaves if is_leaf else results)[(name, stage["first_rank"] + rank)] = floor_box(made, mesh, rank)
    return leaves, results


def as_made(name, by):
    """What an operator has made, before a redistribution gave its name to what that makes of it."""
    while name in by and by[name]["phase"] == "forward" and "rule" not in by[name] and len(by[name]["operands"]) == 1:
        name = by[name]["operands"][0]
    return name if name in by and by[name]["phase"] == "forward" and "rule" in by[name] else None


def plan_model(plan):
    with open(plan) as file:
        return json.load(file)["model"]


def coordinates(mesh, rank):
    out = {}
    for name, size in reversed(mesh):
        out[name] = rank % size
        rank //= size
    return out


def floor_box(value, mesh, rank):
    sizes, at = dict(mesh), coordinates(mesh, rank)
    box = []
    grains = value["layout"].get("grains") or [1] * len(value["shape"])
    places = value["layout"].get("places") or [None] * len(value["shape"])
    for extent, axes, grain, told in zip(value["shape"], value["layout"]["dims"], grains, places):
        parts, index = 1, 0
        for axis in axes:
            parts, index = parts * sizes[axis], index * sizes[axis] + at[axis]
        runs = extent // grain
        if told:
            box.append((told[index], told[index + 1]))
            continue
        box.append((runs * index // parts * grain, runs * (index + 1) // parts * grain))
    return box


# ---- Python files, without what they import ----

class Anything(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *a, **k: (name, a, k)


def stages_of(path, extra):
    modules = {name: Anything(name) for name in
               ("torch", "torch.distributed", "torch.distributed.device_mesh", "torch.distributed.tensor",
                "torch.distributed.tensor.placement_types", "jax", "jax.sharding", "numpy")}
    for name, value in extra.items():
        setattr(modules["jax.sharding"], name, value)
    kept = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        scope = {}
        with open(path) as file:
            exec(compile(file.read(), path, "exec"), scope)
        return scope["STAGES"]
    finally:
        for name, module in kept.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


def box_of(indices, name):
    begin, end = indices[0], indices[-1] + 1
    assert indices == list(range(begin, end)), f"{name}: {indices} is in more pieces than one"
    return begin, end


def chunks(indices, count):
    """torch.chunk: pieces of ceil size, so that the last may be missing."""
    size = math.ceil(len(indices) / count)
    out = [indices[i:i + size] for i in range(0, len(indices), size)]
    return out + [[]] * (count - len(out))


def dtensor(path, plan):
    """torch/distributed/tensor/placement_types.py: placements of mesh dims from left to right, each of what is left;
    _StridedShard cuts into count * split_factor chunks and takes every count-th of them."""
    out = {}
    for stage in stages_of(path, {}):
        for kind in ("parameters", "inputs", "activations"):
            for name, (number, shape, placements) in stage[kind].items():
                mesh = stage["meshes"][number]
                count = math.prod(size for _, size in mesh)
                for rank in range(count):
                    at = coordinates(mesh, rank)
                    dims = [list(range(n)) for n in shape]
                    for (axis, size), (placement, arguments, more) in zip(mesh, placements):
                        if placement in ("Replicate", "Partial"):
                            continue
                        d = arguments[0]
                        factor = more.get("split_factor", 1)
                        assert placement == "Shard" or (placement == "_StridedShard" and factor > 1), placement
                        pieces = chunks(dims[d], size * factor)
                        dims[d] = list(itertools.chain(*pieces[at[axis]::size]))
                    out[(name, stage["first_rank"] + rank)] = [box_of(d, name) for d in dims]
    return out


def jax(path, plan):
    """jax.sharding: PartitionSpec names per dim the mesh axes that cut it, the first one major."""
    out = {}
    spec = lambda *dims, unreduced=frozenset(): dims  # noqa: E731
    for stage in stages_of(path, {"PartitionSpec": spec}):
        for kind in ("parameters", "inputs", "activations"):
            for name, (number, shape, dims) in stage[kind].items():
                mesh = stage["meshes"][number]
                sizes = dict(mesh)
                assert len(dims) == len(shape), name
                for rank in range(math.prod(sizes.values())):
                    at, box = coordinates(mesh, rank), []
                    for extent, axes in zip(shape, dims):
                        axes = () if axes is None else (axes,) if isinstance(axes, str) else axes
                        index, parts = 0, math.prod(sizes[a] for a in axes)
                        for a in axes:
                            index = index * sizes[a] + at[a]
                        assert extent % parts == 0, name
                        box.append((extent // parts * index, extent // parts * (index + 1)))
                    out[(name, stage["first_rank"] + rank)] = box
    return out


def mindspore(path, plan):
    """Strategy files: a tensor map counts axes of the device matrix from the right; the optimizer's shards cut dim 0 of
    the slice further, over `size` ranks that are `step` apart."""
    with open(path) as file:
        layouts = json.load(file)["parallel_layout_item"]
    out = {}
    for full, layout in layouts.items():
        stage, name = full.split("-", 1) if re.match(r"\d+-", full) else (0, full)
        matrix, shape = layout["dev_matrix"], layout["tensor_shape"]
        count = math.prod(matrix)
        for rank in range(count):
            at, left = [], rank
            for size in reversed(matrix):  # from the right, as maps count
                at.append(left % size)
                left //= size
            box = []
            for extent, axes in zip(shape, layout["tensor_map"]):
                begin, size = 0, extent
                for a in axes if isinstance(axes, list) else [axes]:
                    if a >= 0:
                        size //= matrix[len(matrix) - 1 - a]
                        begin += size * at[a]
                box.append((begin, begin + size))
            if layout["opt_weight_shard_size"] > 0:
                begin, end = box[0]
                size = (end - begin) // layout["opt_weight_shard_size"]
                begin += size * (rank // layout["opt_weight_shard_step"] % layout["opt_weight_shard_size"])
                box[0] = begin, begin + size
            out[(name, int(stage) * count + rank)] = box
    return out


# ---- formats of degrees: a decoder as Megatron's authors split it (Shoeybi et al. 2019), its layers in stages ----

COLUMNS = re.compile(r"layers\.\d+\.(attention\.[qkv]|ffn\.(gate|up))\.(weight|bias)$|head\.weight$")
ROWS = re.compile(r"layers\.\d+\.(attention\.o|ffn\.down)\.weight$")


def decoder(shapes, dp, tp, pp, chunk_of, inputs):
    """Ranks: tp next to each other, then dp, then pp. `chunk_of` a module, counted in the order of the network."""
    out = {}
    for name, shape in shapes.items():
        for stage, replica, part in itertools.product(range(pp), range(dp), range(tp)):
            box = [(0, n) for n in shape]
            if name in inputs:
                size = shape[0] // dp
                box[0] = (size * replica, size * (replica + 1))
            else:
                module = re.match(r"layers\.\d+|[a-z_]+", name)[0]
                if chunk_of(module) % pp != stage:
                    continue
                dim = (len(shape) - 1 if COLUMNS.match(name) else
                       0 if ROWS.match(name) or name == "embedding.weight" else None)
                if dim is not None:
                    size = shape[dim] // tp
                    box[dim] = (size * part, size * (part + 1))
            out[(name, (stage * dp + replica) * tp + part)] = box
    return out


def chunks_by_counts(counts):
    ends = list(itertools.accumulate(counts))

    def chunk_of(module):
        if module.startswith("layers."):
            return next(i for i, end in enumerate(ends) if int(module[7:]) < end)
        return len(counts) - 1 if module in ("norm", "head") else 0
    return chunk_of


def layers_of(plan):
    return int(re.search(r"layers=(\d+)", plan_model(plan))[1])


def megatron(path, plan):
    """megatron/training/arguments.py; PipelineParallelLayerLayout.parse_str_to_list."""
    with open(path) as file:
        words = shlex.split(file.read().replace("(", " ( ", 1), comments=True)
    value = lambda name, otherwise: int(words[words.index(name) + 1]) if name in words else otherwise  # noqa: E731
    tp, pp = value("--tensor-model-parallel-size", 1), value("--pipeline-model-parallel-size", 1)
    chunks_of_stage = value("--num-virtual-stages-per-pipeline-rank", 1)
    layers = value("--num-layers", layers_of(plan))
    counts = [layers // (pp * chunks_of_stage)] * (pp * chunks_of_stage)
    if "--pipeline-model-parallel-layout" in words:
        text = words[words.index("--pipeline-model-parallel-layout") + 1].replace(",", "")
        for pattern in (r"\(([^)]+)\)\*(\d+)", r"(.)\*(\d+)"):
            text = re.sub(pattern, lambda m: m[1] * int(m[2]), text)
        counts = [part.count("t") for part in text.split("|")]
    return dict(tp=tp, pp=pp, chunk_of=chunks_by_counts(counts))


def torchtitan(path, plan):
    """torchtitan/config/parallelism.py: module names per model part, of which stage s has those s, s + pp, ... or, of V
    schedules, s and the last but s."""
    with open(path) as file:
        text = file.read()
    value = lambda name, otherwise: int(re.search(rf"\b{name}=(-?\d+)", text)[1]) if name + "=" in text else otherwise  # noqa: E731
    tp, pp = value("tensor_parallel_degree", 1), value("pipeline_parallel_degree", 1)
    parts = re.search(r"module_fqns_per_model_part=(\[.*?\n        \])", text, re.S)
    names = {"tok_embeddings": "embedding", "output": "head"}
    chunk_of = {names.get(name, name): i for i, part in enumerate(eval(parts[1])) for name in part} if parts else {}
    is_v = re.search(r"ZBVZeroBubble|DualPipeV", text)

    def stage_of(module):
        chunk = chunk_of.get(module, 0)
        return 2 * pp - 1 - chunk if is_v and chunk >= pp else chunk
    return dict(tp=tp, pp=pp, chunk_of=stage_of)


def mindformers(path, plan):
    """configuration.md: offset says how many layers a stage has more than its share; chunks go round."""
    with open(path) as file:
        text = file.read()
    value = lambda name, otherwise: int(re.search(rf"\b{name}: (\d+)", text)[1]) if name + ":" in text else otherwise  # noqa: E731
    tp, pp, per_stage = value("model_parallel", 1), value("pipeline_stage", 1), value("pp_interleave_num", 1)
    offset = re.search(r"offset: (\[.*\])", text)
    more = [n for row in eval(offset[1]) for n in (row if isinstance(row, list) else [row])] if offset else [0] * (pp * per_stage)
    is_v = "zero_bubble_v" in text
    layers = value("num_layers", layers_of(plan)) // len(more)
    if is_v and not offset:
        more = [0] * (2 * pp)
        layers = value("num_layers", 0) // len(more)
    by_chunk = chunks_by_counts([layers + n for n in more])

    def stage_of(module):
        chunk = by_chunk(module)
        return 2 * pp - 1 - chunk if is_v and chunk >= pp else chunk
    return dict(tp=tp, pp=pp, chunk_of=stage_of)


def deepspeed(path, plan):
    """docs/_pages/config-json.md: autotp_size; layers in stages as the program has it, evenly."""
    with open(path) as file:
        config = json.load(file)
    pp = config.get("pipeline", {}).get("stages", 1)
    return dict(tp=config.get("tensor_parallel", {}).get("autotp_size", 1), pp=pp,
                chunk_of=chunks_by_counts([layers_of(plan) // pp] * pp))


def huggingface(path, plan):
    """transformers/integrations/tensor_parallel.py; stages are not said, so of plans of one."""
    with open(path) as file:
        config = json.load(file)
    plans = {**config["base_model_tp_plan"], **config["_tp_plan"]}
    tp = config["shardwright"]["tp_size"]
    want = {"colwise": ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"), "rowwise": ("o_proj", "down_proj"),
            "embedding_rowwise": ("embed_tokens",), "colwise_gather_output": ("lm_head",)}
    if tp > 1:
        for style, modules in want.items():
            for module in modules:
                said = [s for name, s in plans.items() if name.endswith(module)]
                assert not said or said == [style], f"{module}: {said}"
    return dict(tp=tp, pp=1, chunk_of=lambda module: 0)


LAYOUTS = {"dtensor": dtensor, "jax": jax, "mindspore": mindspore}
DEGREES = {"megatron": megatron, "torchtitan": torchtitan, "mindformers": mindformers, "deepspeed": deepspeed,
           "huggingface": huggingface}
ENDING = {"mindspore": ".json"}


LIBRARIES = {"jax": "jx", "dtensor": "pt", "huggingface": "pt"}


def of_library(folder, name, path):
    python = os.path.join(folder, LIBRARIES[name], "bin/python")
    if not os.path.exists(python):
        return None
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "boxes_of_libraries.py")
    said = json.loads(run(python, script, name, path).stdout)
    return {(key.rsplit(" ", 1)[0], int(key.rsplit(" ", 1)[1])): [tuple(b) for b in box] for key, box in said.items()}


MODULES = {"embedding": "model.embed_tokens", "norm": "model.norm", "head": "lm_head", "norm1": "input_layernorm",
           "norm2": "post_attention_layernorm", **{"attention." + x: f"self_attn.{x}_proj" for x in "qkvo"},
           **{"ffn." + x: f"mlp.{x}_proj" for x in ("gate", "up", "down")}}


def as_transformers_has_it(mine, tp):
    """The same boxes by transformers' names, whose weights of dense modules are (out, in), on the ranks of one group."""
    out = {}
    for (name, rank), box in mine.items():
        layer, own = re.fullmatch(r"(layers\.\d+\.)?(.*)", name).groups()
        module = MODULES.get(own.removesuffix(".weight"))
        if rank < tp and module:
            is_dense = len(box) == 2 and own != "embedding.weight"
            out[(("model." + layer if layer else "") + module + ".weight", rank)] = box[::-1] if is_dense else box
    return out


def wrong_by_library(libraries, name, path, mine, counts):
    """What the library itself says otherwise; nothing where it is not there."""
    said = of_library(libraries, name, path) if libraries and name in LIBRARIES else None
    if said is None:
        return []
    if name == "huggingface":
        mine = as_transformers_has_it(mine, 1 + max(rank for _, rank in said))
    same, _, wrong = differences(mine, said, name + " itself")
    counts.setdefault(name + " itself", []).append(same)
    return wrong if same else [f"{name} itself says nothing of what there is"]


def drawn(count, seed):
    """Models and flags: degrees, and searches that give each operator what they find best."""
    draw, out = random.Random(seed), []
    while len(out) < count:
        is_grid = draw.random() < 0.7
        devices = draw.choice([2, 4, 8, 16])
        model = draw.choice([GPT, LLAMA, LLAMA, FFN])
        if not is_grid:
            flags = ["--devices", str(min(devices, 8)), "--search", draw.choice(["propagation", "recursive", "dynamic"])]
            if draw.random() < 0.5:
                flags += ["--optimizer-parallel", draw.choice(["1:threshold=1", "3:threshold=1"])]
            out.append((model + ("" if model == FFN else ",batch=16"), flags))
            continue
        pp = draw.choice([1, 1, 2, 4]) if model != FFN else 1
        tp = draw.choice([n for n in (1, 2, 4) if pp * n <= devices])
        dp = devices // pp // tp
        words = [f"dp={dp}", f"tp={tp}", f"pp={pp}", f"micro_batch={draw.choice([1, 2])}", "global_batch=64"]
        if pp > 1:
            words.append("schedule=" + draw.choice(["1f1b", "gpipe", "1f1b"] + (["interleaved:2"] if pp == 2 else [])))
        level = draw.choice([0, 0, 1, 2, 3])
        words += [f"zero={level}", "zero_threshold=0"] if level else []
        words.append("recompute=" + draw.choice(["none", "selected", "full"]))
        if tp > 1 and model != FFN:
            words.append(f"sequence_parallel={draw.choice([0, 1])}")
        if pp > 1 and draw.random() < 0.4 and "interleaved:2" not in words[-3]:
            cuts = sorted(draw.sample(range(1, 4), pp - 1)) if pp < 5 else []
            ends = [0, *cuts, 4]
            if all(a < b for a, b in zip(ends, ends[1:])) and not any("interleaved" in w for w in words):
                words += ["embedding=stage 0", "norm=stage " + str(pp - 1), *(["head=stage " + str(pp - 1)] if model == LLAMA else [])]
                words += [f"layers.{a}-{b - 1}=stage {s}" if b - a > 1 else f"layers.{a}=stage {s}"
                          for s, (a, b) in enumerate(zip(ends, ends[1:]))]
        out.append((model, ["--devices", str(devices), "--set", ",".join(words)]))
    return out


def differences(mine, theirs, name):
    both = mine.keys() & theirs.keys()
    missing = {key[0] for key in mine.keys() - theirs.keys()}
    wrong = [f"{key}: ours {mine[key]}, {name} {theirs[key]}" for key in sorted(both) if list(mine[key]) != list(theirs[key])]
    return len(both), missing, wrong


def check(binary, folder, model, flags, formats, counts, libraries=""):
    plan = folder + "/plan.json"
    made = run(binary, "plan", model, *flags, "-o", plan, fails=True)
    if made.returncode:  # drawn, and not possible
        return f"not planned: {made.stderr.strip()[-160:]}"
    mine, results = ours(binary, plan)
    with open(plan) as file:
        document = json.load(file)
    level, failures = document["zero"], []
    for name in formats:
        path = folder + "/file" + ENDING.get(name, ".txt")
        wrote = run(binary, "export", plan, "--to", name, "-o", path, fails=True)
        if wrote.returncode:  # it is refused, by name
            counts.setdefault(name + " refused", []).append(wrote.stderr.strip())
            continue
        of_all = {**mine, **results} if name in ("dtensor", "jax") else mine
        if name in LAYOUTS:
            theirs = LAYOUTS[name](path, plan)
        elif level >= 2 or model.startswith("ffn") or re.search("split otherwise|layers cut|layers by stage", wrote.stderr):
            continue  # weights lie in shards that the framework makes itself, or it has been told that they lie otherwise
        else:
            theirs = degrees_of(name, path, plan, mine)
            if theirs is None:
                continue
        same, missing, wrong = differences(of_all, theirs, name)
        wrong += wrong_by_library(libraries, name, path, of_all, counts)
        missing &= {key[0] for key in mine}  # an activation that is not cut evenly is left out, by name
        inputs_only = name == "mindspore"
        parameters = {key[0] for key in mine if not is_input(key[0])}
        lost = missing & parameters if inputs_only else missing
        lost = {n for n in lost if n not in wrote.stderr}
        failures += [f"{name}: {line}" for line in wrong] + [f"{name}: nothing is said of {n}" for n in sorted(lost)]
        counts.setdefault(name, []).append(same)
    for name in READ:
        found = read_back(binary, folder, plan, document, name)
        failures += found or []
        if found is not None:
            counts.setdefault(name + " read back", []).append(1)
    return "; ".join(failures[:3]) if failures else None


READ = ("megatron", "torchtitan", "mindformers", "deepspeed", "yaml")
FOLLOWS = re.compile(r"operators split otherwise|sequence_parallel=|zero_threshold=|layers by stage|layers cut|schedule=|tp=|pp=")


def read_back(binary, folder, plan, document, name):
    """What `import` makes of the file otherwise, and the export has not named."""
    path, back = folder + "/read.txt", folder + "/back.json"
    wrote = run(binary, "export", plan, "--to", name, "-o", path, fails=True)
    if wrote.returncode:
        return None
    cluster, model = document["cluster"], [] if name == "yaml" else ["--model", document["model"]]
    read = run(binary, "import", path, "--from", name, *model, "--cluster", cluster, "-o", back, fails=True)
    if read.returncode:
        return [f"{name} is not read back: {read.stderr.strip()[-200:]}"]
    different = json.loads(run(binary, "diff", plan, back, "--json").stdout)["differences"]
    named = {"rate": "optimizer"}
    return [f"{name}: {d['what']} was {d['a']} and is read back as {d['b']}" for d in different
            if named.get(d["what"], d["what"]) not in wrote.stderr and not FOLLOWS.search(wrote.stderr)]


def is_input(name):
    return name in ("input", "label")


def degrees_of(name, path, plan, mine):
    said = DEGREES[name](path, plan)
    ranks = 1 + max(rank for _, rank in mine)
    shapes, inputs = {}, {"input", "label"}
    for (tensor, _), box in mine.items():
        whole = shapes.setdefault(tensor, [0] * len(box))
        shapes[tensor] = [max(a, end) for a, (_, end) in zip(whole, box)]
    pp, tp = said["pp"], said["tp"]
    if name == "huggingface" and ranks % tp == 0 and any("layers.1" in t for t, _ in mine):
        with open(plan) as file:
            if json.load(file).get("stage_plans"):
                return None
    out = decoder(shapes, ranks // (pp * tp), tp, pp, said["chunk_of"], inputs)
    # Inputs are read by the stages that want them; others of ours have none.
    return {key: box for key, box in out.items() if not is_input(key[0]) or key in mine}


GOLDEN = {0: [(0, 2), (0, 8)], 1: [(4, 6), (0, 8)], 2: [(2, 4), (0, 8)], 3: [(6, 8), (0, 8)]}


def check_golden(binary, folder, libraries):
    """FSDP over TP of an 8x8 weight on 2x2: rows 0-1, 4-5, 2-3, 6-7."""
    plan, path = folder + "/golden.json", folder + "/golden.py"
    run(binary, "plan", "matmul_chain:widths=8-8-8,batch=8", "--devices", "4", "--set", "dp=2,tp=2,zero=3,zero_threshold=0",
        "-o", plan)
    run(binary, "export", plan, "--to", "dtensor", "-o", path)
    said = {"by its documentation": dtensor(path, plan)}
    if libraries and (itself := of_library(libraries, "dtensor", path)) is not None:
        said["by itself"] = itself
    for by, boxes in said.items():
        got = {rank: box for (name, rank), box in boxes.items() if name == "w2"}
        if got != GOLDEN:
            return f"FSDP over TP, {by}: {got}, not {GOLDEN}"
    return None


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("binary")
    arguments.add_argument("--drawn", type=int, default=30)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--formats", default=",".join([*LAYOUTS, *DEGREES]))
    arguments.add_argument("--libraries", nargs="?", const=os.path.expanduser("~/.cache/peers"), default="")
    asked = arguments.parse_args()
    absent = {environment for environment in LIBRARIES.values()
              if asked.libraries and not os.path.exists(os.path.join(asked.libraries, environment, "bin/python"))}
    if absent == set(LIBRARIES.values()):
        print(f"skipped: {asked.libraries} has neither pt nor jx, environments with PyTorch 2 and transformers, and with JAX")
        return 77
    for name, environment in LIBRARIES.items():
        if environment in absent:
            print(f"{name} itself is not asked: {asked.libraries}/{environment} is not there")
    binary, counts, failed, planned = os.path.abspath(asked.binary), {}, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        if why := check_golden(binary, folder, asked.libraries):
            print(why)
            failed += 1
        for model, flags in drawn(asked.drawn, asked.seed):
            why = check(binary, folder, model, flags, asked.formats.split(","), counts, asked.libraries)
            planned += why is None or not why.startswith("not planned")
            if why:
                print(f"{model} {' '.join(flags)}: {why}")
                failed += not why.startswith("not planned")
    for name, found in sorted(counts.items()):
        print(f"{name}: {len(found)} plans" + ("" if name.endswith("back") else f", {sum(found)} boxes" if isinstance(found[0], int) else f", such as: {found[0]}"))
    print(f"{planned} of {asked.drawn} plans, {failed} failures")
    return failed > 0 or planned < asked.drawn * 0.8


if __name__ == "__main__":
    sys.exit(main())

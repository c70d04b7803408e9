"""Measured training runs of 2024 to 2026 as calls of `estimate`: how a row is said, and what keeps others from being said.

A row is a dict of a published_runs_2026 file (its legend says what the fields mean). `said(row)` gives a Call, or raises
Unsaid with the reason: what the program has no words for. What stands in for something that has none is named in
`Call.instead`, so that whoever compares can leave such rows out.

    python3 tests/outside/published_2026.py FILE.json            how many rows are said, and why the others are not
    python3 tests/outside/published_2026.py FILE.json --run      and what `estimate` makes of them: one JSON line a row
"""
import collections
import dataclasses
import json
import os
import subprocess
import sys
import tempfile

PROGRAM = os.environ.get("SHARDWRIGHT", "build/release/shardwright")


class Unsaid(Exception):
    """Why a row cannot be said."""


@dataclasses.dataclass
class Call:
    arguments: list
    instead: list = dataclasses.field(default_factory=list)


# ---- the machine ----

# Memory, bytes a second, FLOP a second of f64, f32 and 16 bit, devices of a node, and links: kind, devices of a block (None:
# all there are), latency, bytes a second.
MACHINES = {
    "GB200": ("184GB", "8000GB/s", ("40T", "80T", "2450T"), 4, (("nvlink", 72, "5us", "900GB/s"), ("ib", None, "10us", "50GB/s"))),
    "GB300": ("279GB", "8000GB/s", ("1.3T", "80T", "2450T"), 4, (("nvlink", 72, "5us", "900GB/s"), ("ib", None, "10us", "100GB/s"))),
    "B200": ("180GB", "7700GB/s", ("37T", "75T", "2250T"), 8, (("nvlink", 8, "5us", "900GB/s"), ("ib", None, "10us", "50GB/s"))),
    "H800": ("80GB", "3350GB/s", ("1T", "67T", "989.4T"), 8, (("nvlink", 8, "5us", "200GB/s"), ("ib", None, "10us", "50GB/s"))),
    "GH200": ("96GB", "4000GB/s", ("34T", "67T", "989.4T"), 4, (("nvlink", 4, "5us", "450GB/s"), ("slingshot", None, "10us", "25GB/s"))),
    "L4": ("24.1GB", "300GB/s", ("0.5T", "30T", "121T"), 8, (("pcie", 8, "10us", "4.5GB/s"),)),
}
PRESETS = (("H100-96", "h100-96g"), ("H100", "h100"), ("A100-80", "a100-80g"))
FILES = tempfile.mkdtemp()


def blocks_of(links, devices):
    """Of each kind of link the devices that it joins: blocks grow, each a divisor of all, and the last joins all."""
    out = []
    for kind, most, latency, bandwidth in links:
        block = min(most or devices, devices)
        while devices % block:
            block -= 1
        if out and block <= out[-1][1]:
            continue
        out.append((kind, block, latency, bandwidth))
        if block == devices:
            break
    return out


def cluster(row):
    hardware, devices = row["hardware"], row["gpus"]
    for word, preset in PRESETS:
        if hardware.startswith(word):
            if devices > 8 and devices % 8:
                raise Unsaid("devices are no whole nodes")
            return f"{preset}:{devices}"
    name = next((name for name in MACHINES if hardware.startswith(name)), None)
    if name is None:
        raise Unsaid("machine not described")
    memory, bandwidth, (f64, f32, short), of_node, links = MACHINES[name]
    if devices > of_node and devices % of_node:
        raise Unsaid("devices are no whole nodes")
    nodes, each = (1, devices) if devices <= of_node else (devices // of_node, of_node)
    lines = [f"nodes: {nodes}", f"devices_per_node: {each}", f"memory: {memory}", "reserved: 2GB",
             f"memory_bandwidth: {bandwidth}", f"flops: {{f64: {f64}, f32: {f32}, bf16: {short}, fp16: {short}}}",
             "kernel_overhead: 5us", "links:"]
    blocks = blocks_of(links, devices)
    for n, (kind, block, latency, speed) in enumerate(blocks):
        joins = "" if n == len(blocks) - 1 and n > 0 else f"devices: {block}, "
        lines.append(f"  - {{kind: {kind}, {joins}latency: {latency}, bandwidth: {speed}, start: 40us}}")
    path = f"{FILES}/{name}_{nodes}x{each}.yaml"
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    return path


# ---- what has no words yet ----

def check_network(row):
    arch, tags, precision = row.get("arch") or "", row.get("tags") or [row["class"]], row.get("precision", "bf16")
    reasons = (
        (row["class"] == "heterogeneous" or "|" in row.get("hardware", ""), "devices of several kinds"),
        ("vision" in tags or arch == "vlm", "vision and language model"),
        (arch == "mamba-hybrid", "state-space layers"),
        (row.get("attention_variant") or "glm5" in row["model"] or "deepseek-v4" in row["model"], "sparse or linear attention"),
        (row.get("lora"), "LoRA of a model that was trained otherwise"),
        ("distill" in row.get("notes", ""), "distillation: two models"),
        ("fp8" in precision or "fp4" in precision, "fp8 or fp4"),
        (row.get("optimizer", "adamw") != "adamw", "muon"),
        (row.get("activation_offload") or row.get("optimizer_offload") or any(
            share for of_stage in row.get("stage_offload") or [] for share in of_stage.values()), "offload to the host"),
        (row.get("experts") or (row.get("ep") or 1) > 1 or row["class"] == "moe" or arch == "moe", "experts"),
        ((row.get("cp") or 1) > 1, "context parallel"),
        (row.get("mla_kv_rank"), "multi-latent attention"),
        (row.get("mtp_layers"), "multi-token prediction"))
    for is_so, reason in reasons:
        if is_so:
            raise Unsaid(reason)
    for key in ("layers", "hidden", "heads", "seq", "vocab", "tp", "pp", "dp", "gpus", "micro_batch", "global_batch", "hardware"):
        if not row.get(key):
            raise Unsaid("row lacks " + key)


# ---- the network ----

POSITIONS = {"learned_absolute": "learned", "rope": "rope", "none": "none"}


def is_flash(row):
    seen = row.get("attention_seen", "")
    return row.get("attention_backend") not in ("unfused", "local") and "unfused" not in seen


def t5(row, instead):
    keys = {key: row[key] for key in ("layers", "decoder_layers", "hidden", "heads", "seq", "vocab")}
    keys.update(ffn=row.get("ffn") or 4 * row["hidden"], target=row["decoder_seq"], activation="gelu_new",
                head_dim=row.get("head_dim") or row["hidden"] // row["heads"])
    if row.get("hidden_dropout"):
        keys["dropout"] = row["hidden_dropout"]
    instead.append("T5's own norms and places, without biases, its scores in memory")
    return "t5:" + ",".join(f"{key}={value}" for key, value in keys.items())


def model(row, instead):
    if row.get("arch") == "t5":
        return t5(row, instead)
    is_llama = row.get("arch") == "llama"
    keys = {key: row[key] for key in ("layers", "hidden", "heads", "seq", "vocab")}
    keys["ffn"] = row.get("ffn") or 4 * row["hidden"]
    keys["kv_heads"] = row.get("kv_heads") or row["heads"]
    if row["heads"] % keys["kv_heads"]:
        raise Unsaid("heads that share no keys evenly")
    if row.get("head_dim") and row["head_dim"] * row["heads"] != row["hidden"]:
        keys["head_dim"] = row["head_dim"]
    keys["activation"] = row.get("activation") or ("swiglu" if is_llama else "gelu")
    keys["norm"] = "rms" if row.get("norm", "RMSNorm" if is_llama else "") == "RMSNorm" else "layer"
    keys["positions"] = POSITIONS[row.get("positions") or ("rope" if is_llama else "learned_absolute")]
    keys["bias"] = int(row["linear_bias"]) if row.get("linear_bias") is not None else int(not is_llama)
    keys["tied"] = int(row["tied"]) if row.get("tied") is not None else int(not is_llama)
    if row.get("qk_norm"):
        keys["qk_norm"] = 1
        if keys["norm"] == "layer":
            instead.append("norms of queries and keys as RMS norms")
    if row.get("hidden_dropout"):
        keys["dropout"] = row["hidden_dropout"]
    if row.get("attention_dropout"):
        if is_flash(row):
            instead.append("dropout inside of flash attention, which keeps no mask, is left out")
        else:
            keys["attention_dropout"] = row["attention_dropout"]
    if row.get("arch") == "bert":
        keys["causal"] = 0
        instead.append("without the pooled head, the embedding of segments and the head's own layer")
    if row.get("fused_loss"):
        instead.append("loss not fused")
    if row["heads"] % row["tp"]:
        raise Unsaid("heads that tensor parallel does not divide")
    return "gpt:" + ",".join(f"{key}={value}" for key, value in keys.items())


# ---- the plan ----

def parts_of_layout(text):
    """Layers of each chunk of Megatron's layout string, `Et*3|(tt|)*6L`."""
    out = ""
    at = 0
    while at < len(text):
        end = at + 1
        if text[at] == "(":
            end = text.index(")", at) + 1
        piece, times = text[at:end].strip("()"), 1
        if end < len(text) and text[end] == "*":
            digits = end + 1
            while digits < len(text) and text[digits].isdigit():
                digits += 1
            times, end = int(text[end + 1:digits]), digits
        out += piece * times
        at = end
    return [part.count("t") for part in out.split("|")]


def stages(row, keys, instead):
    chunks = row.get("interleave") or 1
    keys["pp"] = row["pp"]
    keys["schedule"] = f"interleaved:{chunks}" if chunks > 1 else "1f1b"
    parts = row["pp"] * chunks
    layers = row.get("stage_layers") or []
    if row.get("pipeline_layout"):
        layers = parts_of_layout(row["pipeline_layout"])
    elif chunks > 1:
        layers = []
    if row["pp"] > 1 and layers and (len(set(layers)) > 1 or len(layers) != parts):
        if len(layers) != parts:
            raise Unsaid("layers by stage that say nothing of chunks")
        keys["stage_layers"] = "-".join(map(str, layers))
    elif row["layers"] % parts:
        instead.append("layers that stages do not divide are spread as ours are")
    group = row.get("microbatch_group") or row["pp"]
    batches = row["global_batch"] // (row["dp"] * row["micro_batch"])
    if chunks > 1 and group != row["pp"] and group != row["pp"] + batches % row["pp"]:
        instead.append(f"{group} micro-batches in a row on a chunk as {row['pp']}")


MODULES = {"mlp": ("layers.*.ffn",), "layernorm": ("layers.*.norm1", "layers.*.norm2")}


def recompute(row, keys):
    mode, modules = row.get("activation_recompute") or "none", row.get("recompute_modules")
    keys["recompute"] = "none"
    if row.get("stage_recompute_layers") and any(row["stage_recompute_layers"]):
        keys["recompute"] = "full"
        keys["recompute_layers"] = "-".join(map(str, row["stage_recompute_layers"]))
    elif mode == "full":
        keys["recompute"] = "full"
        count = row.get("recompute_num_layers") or 1
        if row.get("recompute_method") == "block":
            keys["recompute_layers"] = count
        elif count > 1:
            keys["recompute_together"] = count
    elif mode == "selective":
        modules = ["core_attn"] if modules is None else modules
        if set(modules) - {"core_attn", *MODULES}:
            raise Unsaid("selective recompute of " + "+".join(modules))
        if "core_attn" in modules:
            keys["recompute"] = "selected"
        for name in modules:
            for pattern in MODULES.get(name, ()):
                keys[pattern] = "recompute"
    elif mode != "none":
        raise Unsaid("recompute of " + mode)


def plan(row, instead):
    batches = row["global_batch"] / (row["dp"] * row["micro_batch"])
    if batches != int(batches):
        raise Unsaid("batch does not divide")
    keys = {"dp": row["dp"], "tp": row["tp"]}
    stages(row, keys, instead)
    keys.update(micro_batch=row["micro_batch"], global_batch=row["global_batch"])
    keys["zero"] = (row.get("zero_stage") or 0) if row["dp"] > 1 else 0
    if keys["zero"] and (row.get("optimizer_instances") or 1) > 1:
        keys["optimizer_instances"] = row["optimizer_instances"]
    recompute(row, keys)
    keys["sequence_parallel"] = int(bool(row.get("sequence_parallel")) and row["tp"] > 1)
    return ",".join(f"{key}={value}" for key, value in keys.items())


def said(row):
    check_network(row)
    instead = []
    network, words = model(row, instead), plan(row, instead)
    precision = row.get("precision", "bf16")
    arguments = [network, "--cluster", cluster(row), "--set", words,
                 "--precision", "f32" if precision.startswith("fp32") else "fp16" if precision.startswith("fp16") else "bf16",
                 "--optimizer", "adamw", "--attention", "flash" if is_flash(row) else "explicit",
                 "--framework", "fsdp" if row.get("fsdp") == "FSDP2" else "megatron"]
    return Call(arguments, instead)


# ---- all rows ----

def estimated(call):
    done = subprocess.run([PROGRAM, "estimate", *call.arguments, "--json"], capture_output=True, text=True, check=False)
    if done.returncode:
        return {"error": done.stderr.strip()}
    document = json.loads(done.stdout)
    return {key: document[key] for key in ("step_seconds", "memory_bytes", "fits")}


def main(arguments):
    with open(arguments[0], encoding="utf-8") as file:
        rows = json.load(file)["rows"]
    calls, reasons, instead = {}, collections.Counter(), collections.Counter()
    for row in rows:
        try:
            calls[row["id"]] = said(row)
            instead.update(set(calls[row["id"]].instead))
        except Unsaid as why:
            reasons[str(why)] += 1
    if "--run" in arguments[1:]:
        for name, call in calls.items():
            print(json.dumps({"id": name, "said": call.arguments, "instead": call.instead, **estimated(call)}))
        return
    exact = sum(not call.instead for call in calls.values())
    print(f"{len(calls)} of {len(rows)} rows are said, {exact} of them with nothing in the stead of something else")
    for title, counts in (("not said", reasons), ("instead", instead)):
        for reason, count in counts.most_common():
            print(f"  {title}: {count:4} {reason}")


if __name__ == "__main__":
    main(sys.argv[1:])

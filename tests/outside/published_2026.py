"""Measured training runs of 2024 to 2026 as calls of `estimate`: how a row is said, and what keeps others from being said.

A row is a dict of a published_runs_2026 file (its legend says what the fields mean). `said(row)` gives a Call, or raises
Unsaid with the reason: what the program has no words for. What stands in for something that has none is named in
`Call.instead`, so that whoever compares can leave such rows out.

    python3 tests/outside/published_2026.py FILE.json            how many rows are said, and why the others are not
    python3 tests/outside/published_2026.py FILE.json --run      and what `estimate` makes of them: one JSON line a row
    python3 tests/outside/published_2026.py FILE.json --rows     those that are said, as tests/reference/published_2026.json has them
"""
import collections
import dataclasses
import json
import os
import subprocess
import sys

PROGRAM = os.environ.get("SHARDWRIGHT", "build/release/shardwright")


class Unsaid(Exception):
    """Why a row cannot be said."""


@dataclasses.dataclass
class Call:
    arguments: list
    instead: list = dataclasses.field(default_factory=list)


# ---- the machine ----

PRESETS = (("H100-96", "h100-96g", 8), ("H100", "h100", 8), ("A100-80", "a100-80g", 8), ("GB200", "gb200", 4), ("GB300", "gb300", 4),
           ("B200", "b200", 8), ("H800", "h800", 8), ("GH200", "gh200", 4), ("L4", "l4", 8))


def cluster(row):
    hardware, devices = row["hardware"], row["gpus"]
    for word, preset, of_node in PRESETS:
        if hardware.startswith(word):
            if devices > of_node and devices % of_node:
                raise Unsaid("devices are no whole nodes")
            return f"{preset}:{devices}"
    raise Unsaid("machine not described")


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
        ((row["class"] == "moe" or arch == "moe") and not row.get("experts"), "experts whose number is not told"),
        ("+" in (row.get("cp_comm") or ""), "context parallel in two ways at once"),
        ("chunked loss" in row.get("notes", ""), "loss in chunks"),
        (row.get("mla_kv_rank") and not row.get("experts"), "multi-latent attention without experts"),
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


def experts(row, keys, instead):
    """Of a network whose other keys are there: those of its experts, and of latent attention; the model that has them."""
    layers = row.get("moe_layers") or "1" * row["layers"]
    if "0" in layers.lstrip("0"):
        raise Unsaid("experts in every other layer")
    own, shared = row.get("moe_ffn") or keys["ffn"], row.get("shared_ffn") or 0
    if shared % own:
        raise Unsaid("shared experts of another size")
    if keys["activation"] not in ("swiglu", "geglu", "gelu", "relu", "squared_relu") or (shared and keys["activation"] != "swiglu"):
        raise Unsaid("experts with " + keys["activation"])
    if row["experts"] % (row.get("ep") or 1):
        raise Unsaid("experts that expert parallel does not divide")
    keys.update(experts=row["experts"], top_k=row["top_k"], dense_ffn=keys["ffn"], ffn=own, shared=shared // own,
                dense_layers=len(layers) - len(layers.lstrip("0")))
    if row.get("dropless") is False:
        keys["capacity"] = row.get("capacity_factor") or 1
    if "aux" in (row.get("balancing") or ""):
        keys["balance_loss"] = 0.01
    if not row.get("mla_kv_rank"):
        return "moe"
    for key in ("kv_heads", "head_dim", "qk_norm", "positions"):
        keys.pop(key, None)
    keys.update(q_rank=row.get("mla_q_rank") or 0, kv_rank=row["mla_kv_rank"], plain_dim=row["mla_qk_dim"],
                rope_dim=row["mla_rope_dim"], v_dim=row["mla_v_dim"], groups=1, top_groups=1)
    return "deepseek-v3"


def model(row, instead):
    if row.get("arch") == "t5":
        return t5(row, instead)
    is_llama = row.get("arch") in ("llama", "mla", "moe")
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
    if row.get("fused_loss") and framework(row) != "megatron-lm-fused-loss":
        instead.append("loss not fused")
    if row["heads"] % row["tp"]:
        raise Unsaid("heads that tensor parallel does not divide")
    called = experts(row, keys, instead) if row.get("experts") else "gpt"
    return f"{called}:" + ",".join(f"{key}={value}" for key, value in keys.items())


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


# How context parallelism moves keys, in Transformer Engine's words.
CONTEXTS = {"p2p": "ring", "a2a": "exchange", "all_gather": "gather"}
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
    keys, cp = {"dp": row["dp"], "tp": row["tp"]}, row.get("cp") or 1
    if cp > 1:
        keys.update(cp=cp, context=CONTEXTS[row.get("cp_comm") or "p2p"])
    ep, etp = row.get("ep") or 1, row.get("etp")
    if not etp:  # Megatron's is tp's, and recipes of what does not go round set 1
        etp = row["tp"] if row["dp"] * cp * row["tp"] % (ep * row["tp"]) == 0 else 1
    if ep > 1 or etp != row["tp"]:
        keys.update(ep=ep, etp=etp)
    stages(row, keys, instead)
    keys.update(micro_batch=row["micro_batch"], global_batch=row["global_batch"])
    keys["zero"] = (row.get("zero_stage") or 0) if row["dp"] * cp > 1 else 0
    if keys["zero"] and (row.get("optimizer_instances") or 1) > 1:
        keys["optimizer_instances"] = row["optimizer_instances"]
    recompute(row, keys)
    keys["sequence_parallel"] = int(bool(row.get("sequence_parallel")) and row["tp"] > 1)
    return ",".join(f"{key}={value}" for key, value in keys.items())


def framework(row):
    if row.get("fsdp") == "FSDP2":
        return "fsdp2"
    # Its recipes of Moonlight have Megatron's precision-aware optimizer, "with bf16 gradients/moments".
    is_short = row["group"].startswith("megatron_bridge") and row["model"].startswith("moonlight")
    if is_short:
        return "megatron-bridge"
    return "megatron-lm-fused-loss" if row.get("fused_loss") else "megatron-lm"


def said(row):
    check_network(row)
    instead = []
    network, words = model(row, instead), plan(row, instead)
    precision = row.get("precision", "bf16")
    arguments = [network, "--cluster", cluster(row), "--set", words,
                 "--precision", "f32" if precision.startswith("fp32") else "fp16" if precision.startswith("fp16") else "bf16",
                 "--optimizer", "adamw", "--attention", "flash" if is_flash(row) else "explicit",
                 "--framework", framework(row),
                 "--memory-margin", "0"]  # who measures a run leaves none
    return Call(arguments, instead)


# ---- all rows ----

def seconds_of(row):
    if row.get("iter_time_s"):
        return row["iter_time_s"]
    if row.get("tokens_per_s_per_gpu"):
        return row["global_batch"] * row["seq"] / (row["gpus"] * row["tokens_per_s_per_gpu"])
    return None


def memory_of(row):
    """Bytes, and how they are meant."""
    if row.get("memory_max"):
        return row["memory_max"], {"is_last_stage": row.get("memory_scope", "").startswith("last")}
    if row.get("stage_memory_max"):
        return max(row["stage_memory_max"]), {}
    if row.get("memory_reserved"):
        return row["memory_reserved"], {"is_reserved": True}
    return None, {}


def test_row(row, call):
    """What tests/support/published_runs.cpp reads."""
    memory, meant = memory_of(row)
    out = {"id": row["id"], "source": f"{row['group']}, {cluster(row).split(':')[0]}", "year": 2026,
           "command": " ".join(["estimate", *call.arguments, "--json"]), "devices": row["gpus"],
           "tokens": row["global_batch"] * row["seq"], "seconds": seconds_of(row), "memory_bytes": memory, **meant,
           "state_bytes": row.get("derived_state_bytes"), "is_host_bound": bool(row.get("host_bound")),
           "ran_out_of_memory": bool(row.get("oom"))}
    return {key: value for key, value in out.items() if value not in (None, False)}


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
    if "--rows" in arguments[1:]:
        rows = [test_row(row, calls[row["id"]]) for row in rows if row["id"] in calls]
        what = "Measured runs of published_runs_2026_open.json (facts and figures only) that can be said, as calls of estimate"
        print(json.dumps({"what": what, "rows": rows}, indent=0))
        return
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

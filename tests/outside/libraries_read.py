"""What `export` writes for PyTorch's pipelining, DeepSpeed and Megatron, read by these libraries' own code.

    torch-schedule   _PipelineScheduleRuntime._load_csv takes the table and adds sends and receives to it, the order in which
                     PyTorch's simulation runs them has no deadlock, and every task is there once
    deepspeed        DeepSpeedConfig takes the JSON, and understands of it what the plan says
    megatron         what of the flags is Megatron Core's makes its configurations, which check one another, and its layout of
                     stages has the plan's layers. (Its parser of flags is in no package; of others the names are looked at)

Usage: libraries_read.py BINARY [FOLDER]

FOLDER (default ~/.cache/peers) holds pt, a virtual environment with PyTorch 2, and ds, DeepSpeed's source and Megatron Core
with what they import. Nothing is compiled then:
    pip download --no-deps --no-binary :all: deepspeed; tar xzf deepspeed-*.tar.gz --strip-components 1 -C ds
    pip install --no-deps --target ds megatron-core hjson psutil py-cpuinfo msgpack einops
"""

import dataclasses
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import types

LLAMA = "llama:layers=16,hidden=32,heads=8,ffn=64,vocab=64,seq=16"
SCHEDULES = ["gpipe", "1f1b", "interleaved:2", "interleaved:4", "zero-bubble", "zero-bubble:2", "zb-v", "v-half", "v-min",
             "dualpipe-v"]


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {(done.stdout + done.stderr)[-1500:]}")


def exported(binary, folder, settings, to, more=()):
    run(binary, "plan", LLAMA, "--cluster", "h100:8", "--set", settings, *more, "-o", folder + "/plan.json")
    run(binary, "export", folder + "/plan.json", "--to", to, "-o", folder + "/file")
    return folder + "/file"


# ---- PyTorch's pipelining ----

def check_schedule(path, stages, micro_batches):
    import torch
    from torch.distributed.pipelining import schedules
    from torch.distributed.pipelining.stage import _PipelineStageBase

    class Stage(_PipelineStageBase):
        """As much of a stage as a schedule asks about."""
        _create_grad_recv_info = _prepare_backward_infra = _prepare_forward_infra = None

        def __init__(self, index, chunks):
            self.stage_index, self.num_stages, self.group_size, self.group_rank = index, chunks, stages, 0
            self.group, self.has_backward, self.device, self.submod = None, False, torch.device("cpu"), torch.nn.Identity()

    with open(path) as file:
        cells = [schedules._Action.from_str(cell) for line in file for cell in line.split(",")]
    tasks = [task for cell in cells if cell for task in cell.sub_actions or [cell]]
    chunks = 1 + max(task.stage_index for task in tasks)
    schedule = schedules._PipelineScheduleRuntime([Stage(i, chunks) for i in range(chunks)], micro_batches, loss_fn=max)
    schedule._load_csv(path)
    assert len(set(tasks)) == len(tasks), "a task is there twice"
    for chunk in range(chunks):
        for m in range(micro_batches):
            kinds = {str(t)[len(str(chunk))] for t in tasks if (t.stage_index, t.microbatch_index) == (chunk, m)}
            assert kinds in ({"F", "B"}, {"F", "I", "W"}), f"chunk {chunk}, micro-batch {m}: {kinds}"
    rank_of = schedule.stage_index_to_group_rank
    with_sends = schedules._add_send_recv(schedule.pipeline_order, lambda s: rank_of[s], chunks)
    made = schedules._simulate_comms_compute(with_sends, lambda s: rank_of[s], chunks)
    ran = [action for actions in made.values() for action in actions if action is not None and action.is_compute_op]
    assert len(ran) == len(tasks), f"{len(ran)} of {len(tasks)} tasks run"
    return f"{chunks} chunks, {len(tasks)} tasks in {max(map(len, made.values()))} rounds with sends"


def of_schedules(binary, folder):
    for name in SCHEDULES:
        for stages, micro_batches in ((2, 4), (4, 8), (4, 12)):
            path = exported(binary, folder, f"dp={8 // stages},pp={stages},micro_batches={micro_batches},global_batch=96,"
                            f"schedule={name}", "torch-schedule")
            print(f"{name}, {stages} stages, {micro_batches} micro-batches: {check_schedule(path, stages, micro_batches)}")


# ---- DeepSpeed ----

def known_words(folder):
    """Names of settings as DeepSpeed's source has them between quotes or as fields."""
    words = set()
    for where, _, files in os.walk(folder + "/deepspeed"):
        for name in files:
            if name.endswith(".py"):
                with open(where + "/" + name) as file:
                    words |= set(re.findall(r"[\"'](\w+)[\"']|^    (\w+)\s*:", file.read(), re.M))
    return {word for pair in words for word in pair if word}


def keys_of(document):
    for key, value in document.items():
        yield key
        if isinstance(value, dict) and key != "shardwright":
            yield from keys_of(value)


def check_deepspeed(path, known, want):
    from deepspeed.runtime.config import DeepSpeedConfig

    with open(path) as file:
        document = json.load(file)
    strange = set(keys_of(document)) - known - {"shardwright"}
    assert not strange, f"no words of DeepSpeed: {strange}"
    replicas = types.SimpleNamespace(get_data_parallel_world_size=lambda: want["dp"])
    config = DeepSpeedConfig(document, mpu=replicas)
    got = {"batch": config.train_batch_size, "micro_batch": config.train_micro_batch_size_per_gpu,
           "micro_batches": config.gradient_accumulation_steps, "zero": config.zero_config.stage,
           "tp": config.tensor_parallel_config.autotp_size, "bf16": config.bfloat16_config.enabled,
           "optimizer": config.optimizer_name, "rate": config.optimizer_params["lr"], "clip": config.gradient_clipping,
           "on_host": str(getattr(config.zero_config.offload_optimizer, "device", None))}
    wrong = {key: (value, got[key]) for key, value in want.items() if key in got and got[key] != value}
    assert not wrong, f"wanted and understood: {wrong}"
    return ", ".join(f"{key} {value}" for key, value in got.items())


def of_deepspeed(binary, folder, source):
    from deepspeed import comm
    comm.get_rank = lambda group=None: 0  # it asks which one it is on; real groups would have it compile
    known = known_words(source)
    cases = [("dp=8,micro_batch=2,global_batch=64", dict(dp=8, micro_batch=2, micro_batches=4, zero=0, tp=0)),
             ("dp=4,tp=2,micro_batch=1,global_batch=16,zero=1", dict(dp=4, micro_batch=1, micro_batches=4, zero=1, tp=2)),
             ("dp=8,micro_batch=1,global_batch=16,zero=2,recompute=full",
              dict(dp=8, micro_batch=1, micro_batches=2, zero=2, tp=0)),
             ("dp=8,micro_batch=2,global_batch=16,zero=3,zero_group=4", dict(dp=8, micro_batches=1, zero=3, tp=0)),
             ("dp=2,tp=2,pp=2,micro_batch=1,global_batch=16,zero=1", dict(dp=2, micro_batches=8, zero=1, tp=2)),
             ("dp=8,micro_batch=1,global_batch=8,zero=3,offload={optimizer,parameters}",
              dict(dp=8, micro_batches=1, zero=3, on_host="cpu"))]
    more = ["--optimizer", "adamw", "--lr", "0.001", "--clip-norm", "1.5", "--precision", "bf16"]
    for settings, want in cases:
        path = exported(binary, folder, settings, "deepspeed", more)
        want |= dict(bf16=True, optimizer="adamw", rate=0.001, clip=1.5)
        print(f"deepspeed, {settings}: {check_deepspeed(path, known, want)}")


# ---- Megatron ----

# Of megatron/training/arguments.py alone; the others are fields of Megatron Core.
OF_TRAINING = {"micro-batch-size", "global-batch-size", "seq-length", "max-position-embeddings", "vocab-size", "swiglu",
               "position-embedding-type", "group-query-attention", "untie-embeddings-and-output-weights",
               "disable-bias-linear", "num-virtual-stages-per-pipeline-rank", "recompute-activations"}


def flags_in(path):
    with open(path) as file:
        words = shlex.split(re.search(r"\((.*)\)", re.sub("^#.*$", "", file.read(), flags=re.M), re.S)[1])
    flags = {}
    for word in words:
        if word.startswith("--"):
            name = word[2:]
            flags[name] = True
        else:
            flags[name] = int(word) if re.fullmatch(r"\d+", word) else float(word) if re.match(r"[\d.]", word) else word
    return flags


def layers_of_stages(binary, plan):
    with open(plan) as file:
        model = json.load(file)["model"]
    done = subprocess.run([binary, "lower", model, "--plan", plan, "--json"], capture_output=True, text=True, check=True)
    out = {}
    for stage in json.loads(done.stdout)["stages"]:
        named = {m[1] for node in stage["nodes"] if node["op"] == "param" for m in [re.match(r"layers\.(\d+)\.", node["results"][0])] if m}
        out[stage["stage"]] = len(named)
    return [out[s] for s in sorted(out)]


def check_megatron(path, layers, pp):
    from megatron.core.distributed.distributed_data_parallel_config import DistributedDataParallelConfig
    from megatron.core.optimizer.optimizer_config import OptimizerConfig
    from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout
    from megatron.core.transformer.transformer_config import TransformerConfig

    flags = flags_in(path)
    kinds = (TransformerConfig, OptimizerConfig, DistributedDataParallelConfig)
    names = {kind: {f.name for f in dataclasses.fields(kind)} for kind in kinds}
    strange = {n for n in flags if not any(n.replace("-", "_") in of for of in names.values())} - OF_TRAINING
    assert not strange, f"no flags of Megatron: {strange}"
    for kind in kinds:
        if kind is OptimizerConfig and flags.get("use-precision-aware-optimizer"):
            continue  # it wants NVIDIA's Transformer Engine to be there
        own = {n.replace("-", "_"): value for n, value in flags.items() if n.replace("-", "_") in names[kind]}
        if kind is TransformerConfig:
            own["pipeline_dtype"] = "bf16"  # which the trainer sets itself
            if layout := own.get("pipeline_model_parallel_layout"):
                own["pipeline_model_parallel_layout"] = PipelineParallelLayerLayout.from_str(layout, pp)
            if chunks := flags.get("num-virtual-stages-per-pipeline-rank"):
                own["virtual_pipeline_model_parallel_size"] = chunks
        made = kind(**own)
        if kind is TransformerConfig and own.get("pipeline_model_parallel_layout"):
            by_stage = made.pipeline_model_parallel_layout.layout
            got = [sum(layer.name == "decoder" for layer in by_stage[s][c])
                   for c in range(len(by_stage[0])) for s in range(pp)]
            assert got == layers, f"layers of chunks: {got}, planned {layers}"
    return f"{len(flags)} flags" + (f", layers {layers} by its layout" if "pipeline-model-parallel-layout" in flags else "")


def of_megatron(binary, folder):
    cases = [("dp=2,tp=4,micro_batch=2,global_batch=64,sequence_parallel=1,zero=1", 1),
             ("tp=2,pp=4,micro_batch=1,global_batch=16,recompute=selected,schedule=interleaved:2", 4),
             ("dp=2,pp=4,micro_batch=1,global_batch=16,recompute=full", 4),
             ("dp=2,tp=2,pp=2,micro_batch=1,global_batch=16,layers.0-4=stage 0,layers.5-15=stage 1,embedding=stage 0,"
              "norm=stage 1,head=stage 1", 2),
             ("dp=8,micro_batch=1,global_batch=16,zero=3,recompute=full", 1),
             ("dp=8,micro_batch=1,global_batch=16,zero=1,offload={optimizer:0.5}", 1)]
    for settings, pp in cases:
        path = exported(binary, folder, settings, "megatron", ["--optimizer", "adamw", "--lr", "0.001", "--clip-norm", "1"])
        print(f"megatron, {settings}: {check_megatron(path, layers_of_stages(binary, folder + '/plan.json'), pp)}")


def main():
    binary, *rest = sys.argv[1:]
    folder = rest[0] if rest else os.path.expanduser("~/.cache/peers")
    python = os.path.join(folder, "pt/bin/python")
    if not os.path.exists(python):
        print(f"skipped: {folder} has no pt, an environment with PyTorch 2")
        return 77
    if not os.path.samefile(sys.prefix, os.path.join(folder, "pt")):
        os.execv(python, [python, __file__, os.path.abspath(binary), folder])
    with tempfile.TemporaryDirectory() as scratch:
        of_schedules(binary, scratch)
        source = os.path.join(folder, "ds")
        if not os.path.exists(source):
            print(f"DeepSpeed and Megatron Core are not asked: {source} is not there")
            return 0
        sys.path.append(source)
        of_deepspeed(binary, scratch, source)
        of_megatron(binary, scratch)
    return 0


if __name__ == "__main__":
    sys.exit(main())

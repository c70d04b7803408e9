"""Plans run by others, beside `shardwright train`: losses of f64 must be equal within 1e-9.

    program   execute.py runs what `lower --json` says
    torch     the package that `emit --to torch` writes runs under torchrun, over gloo
  jax       that of `emit --to jax` runs on virtual CPU devices: losses within 1e-12, and of a network in one piece
            collectives and their bytes are those of the program. Skipped (77) where no JAX is
  jax:constraints   that of `emit --to jax:constraints`, likewise; tells how much more XLA's collectives move than the plan's

Usage: agree.py program|torch|jax|jax:constraints BINARY [--names NAME,...] [--drawn COUNT --seed S] [--steps K]
"""

import argparse
import json
import os
import random
import socket
import subprocess
import sys
import tempfile

import torch

import collectives
from execute import Program
from safetensors_file import read_all, write_all

FFN = "ffn:batch=24,widths=12-18-12-6"
GPT = "gpt:layers=2,hidden=24,heads=4,ffn=36,vocab=24,seq=12,batch=12"
GPT4 = GPT.replace("layers=2", "layers=4")
LLAMA = "llama:layers=2,hidden=24,heads=6,kv_heads=2,ffn=36,vocab=24,seq=12,batch=12"
RESNET = "resnet18:image=32,classes=10,batch=8"
PIPELINE = "--micro-batches 4 --stages 2 --schedule "
CASES = {
    "one": (FFN, "--devices 1"),
    "one_in_parts": (LLAMA, "--devices 1 --micro-batches 3 --optimizer adamw --clip-norm 0.5"),
    "data": (FFN, "--devices 4 --parallel data_parallel --optimizer momentum"),
    "tensor": (FFN, "--devices 4 --fix tp=4 --optimizer adam --weight-decay 0.1"),
    "gpt": (GPT, "--devices 4 --fix dp=2,tp=2 --optimizer adamw"),
    "llama": (LLAMA, "--devices 2 --fix tp=2 --optimizer adamw --clip-norm 1"),
    "level_1": (LLAMA, "--devices 4 --fix dp=4 --optimizer-parallel 1:threshold=1 --optimizer adamw"),
    "level_2": (LLAMA, "--devices 4 --fix dp=4 --optimizer-parallel 2:threshold=1 --micro-batches 3 --optimizer adamw"),
    "level_3": (LLAMA, "--devices 4 --fix dp=2,tp=2 --optimizer-parallel 3:threshold=1 --optimizer adamw --recompute full"),
    "gpipe": (LLAMA, "--devices 4 --optimizer adamw --recompute selected " + PIPELINE + "gpipe"),
    "1f1b": (GPT, "--devices 4 --optimizer adamw --clip-norm 0.1 " + PIPELINE + "1f1b"),
    "interleaved": (LLAMA, "--devices 2 " + PIPELINE + "interleaved:2"),
    "zero_bubble": (LLAMA, "--devices 2 --optimizer adam " + PIPELINE + "zero-bubble"),
    "dualpipe_v": (FFN, "--devices 2 " + PIPELINE + "dualpipe-v"),
    "v_half": (GPT4, "--devices 2 --optimizer adam --clip-norm 0.3 " + PIPELINE + "v-half"),
    "v_min": (GPT4, "--devices 4 --optimizer-parallel 1:threshold=1 " + PIPELINE + "v-min"),
    "table": (GPT, "--devices 4 --micro-batches 4 --schedule tests/outside/schedules/zero_bubble.csv"),
    "offload": (LLAMA, "--devices 2 --parallel data_parallel --micro-batches 2 --optimizer adamw "
                "--offload optimizer,activations:0.5"),
    "on_host": (GPT, "--devices 2 --optimizer adamw --clip-norm 0.3 --offload parameters,host(embedding)"),
    "eight": (GPT, "--devices 8 --stages 2 --micro-batches 2 --fix dp=2,tp=2 --optimizer-parallel 1:threshold=1 --optimizer adamw"),
    "uneven": ("ffn:batch=24,widths=10-7-10", "--devices 4 --parallel data_parallel --optimizer-parallel 3:threshold=1"),
    "uneven_heads": ("llama:layers=2,hidden=32,heads=8,kv_heads=4,ffn=50,vocab=47,seq=9,batch=7",
                     "--set dp=2,tp=3,zero=2,sequence_parallel=1,micro_batches=1 --optimizer adamw"),
    "shares": ("llama:layers=2,hidden=32,heads=4,ffn=50,vocab=47,seq=8,batch=12",
               "--set dp=3,tp=2,zero=2,micro_batches=2,batch_shares=3:1:2 --optimizer adamw"),
    "sequence": ("llama:layers=2,hidden=64,heads=8,ffn=96,vocab=64,seq=32,batch=8", "--devices 8 --search propagation "
                 "--annotate examples/annotations/llama_sequence_parallel.json --optimizer adamw --clip-norm 1"),
    "context": (LLAMA, "--devices 4 --set cp=4,context=exchange:2+gather,micro_batches=1 --optimizer adamw"),
    "rows": (RESNET, "--devices 2 --annotate tests/outside/annotations/resnet_rows.json --lr 0.002"),
    "resnet": (RESNET, "--devices 4 --parallel data_parallel --optimizer momentum --lr 0.002"),
    "resnet_split": (RESNET, "--devices 2 --optimizer momentum --lr 0.002"),
}


def drawn(count, seed, models=(FFN, GPT, LLAMA)):
    draw, out = random.Random(seed), {}
    while len(out) < count:
        model, devices = draw.choice(models), draw.choice([1, 2, 4, 8])
        stages = draw.choice([1, 1, 2]) if devices > 1 else 1
        flags = [f"--devices {devices}", "--optimizer " + draw.choice(["sgd", "momentum", "adam", "adamw"])]
        micro_batches = draw.choice([2, 3, 4]) if stages > 1 else draw.choice([1, 1, 2, 3])
        if micro_batches > 1:
            flags.append(f"--micro-batches {micro_batches}")
        if stages > 1:
            schedule = draw.choice(["gpipe", "1f1b", "interleaved:2", "zero-bubble", "zb-v", "dualpipe-v"])
            flags.append(f"--stages {stages} --schedule {schedule}")
        dp = draw.choice([n for n in (1, 2, 4, 8) if n <= devices // stages])
        flags.append(draw.choice(["--search propagation", "--search recursive", "--search dynamic",
                                  *2 * [f"--fix dp={dp},tp={devices // stages // dp}"]]))
        if draw.random() < 0.5:
            flags.append(f"--optimizer-parallel {draw.choice([1, 2, 3])}:threshold=1")
        if draw.random() < 0.4:
            flags.append("--recompute " + draw.choice(["selected", "full"]))
        if draw.random() < 0.3:
            flags.append("--clip-norm 0.3")
        out[f"drawn_{seed}_{len(out)}"] = model, " ".join(flags)
    return out


def run(*command, **how):
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    done = subprocess.run(command, capture_output=True, text=True, env=environment, **how)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {(done.stdout + done.stderr)[-1500:]}")
    return done.stdout


def losses_in(text):
    return [json.loads(line)["loss"] for line in text.splitlines() if line.startswith('{"step"')]


def inputs_of(program):
    """By name: type and shape of the whole batch."""
    out = {}
    for stage in program["stages"]:
        values = {v["name"]: v for v in stage["values"]}
        for node in stage["nodes"]:
            if node["op"] == "input":
                v = values[node["results"][0]]
                out[v["name"]] = v["type"], [v["shape"][0] * program["micro_batches"], *v["shape"][1:]]
    return out


def parameters_of(program):
    return {v["name"]: v["shape"] for stage in program["stages"] for v in stage["values"]
            for node in stage["nodes"] if node["op"] == "param" and node["results"] == [v["name"]]}


def write_run(folder, program, steps, seed, classes):
    """Data and weights that nobody else has made."""
    torch.manual_seed(seed)
    data = {}
    for name, (kind, shape) in inputs_of(program).items():
        is_class = kind.startswith("i")
        data[name] = (torch.randint(0, classes, [steps, *shape], dtype=torch.int32) if is_class
                      else torch.randn([steps, *shape], dtype=torch.float64))
    write_all(folder + "/data.safetensors", data)
    weights = {}
    for name, shape in parameters_of(program).items():
        is_scale = len(shape) == 1 and name.endswith("weight")
        weights[name] = torch.randn(shape, dtype=torch.float64) * (0.1 if is_scale else 0.3) + float(is_scale)
    write_all(folder + "/init.safetensors", weights)
    return data, weights


def ours(binary, model, flags, folder, steps):
    return losses_in(run(binary, "train", model, *flags, "--steps", str(steps), "--json", "--data",
                         folder + "/data.safetensors", "--init", folder + "/init.safetensors"))


def of_program(program, data, weights, steps):
    executed = Program(program, weights)
    return [executed.step({name: rows[step] for name, rows in data.items()})["loss"] for step in range(steps)]


def of_package(binary, model, flags, folder, steps, ranks):
    run(binary, "emit", model, *flags, "--to", "torch", "-o", folder + "/package")
    script = [folder + "/package/train.py", "--steps", str(steps), "--json", "--device", "cpu", "--data",
              folder + "/data.safetensors", "--init", folder + "/init.safetensors"]
    text = on_ranks(script + (["--trace", folder + "/trace.json"] if ranks == 1 else []), ranks)
    if ranks == 1:
        run(binary, "calibrate", "--from", folder + "/trace.json", "--out", folder + "/measured.yaml")
    return losses_in(text)


JAX_PYTHON = os.environ.get("SHARDWRIGHT_JAX_PYTHON") or os.path.expanduser("~/.cache/peers/jx/bin/python")


def refusal_of(failure):
    """What `emit` says where JAX cannot have a plan: one line that names the value."""
    lines = str(failure).splitlines()
    told = "jax.shard_map has" in lines[-1] or "packages for JAX do not do" in lines[-1] or "no collective of JAX" in lines[-1] \
        or "jax:constraints does not do" in lines[-1] or "constraints are of one program" in lines[-1]
    return lines[-1] if " emit " in lines[0] and told else None


def has_jax():
    try:
        return subprocess.run([JAX_PYTHON, "-c", "import jax"], capture_output=True).returncode == 0
    except OSError:
        return False


def of_jax(what, binary, model, flags, folder, steps, program):
    run(binary, "emit", model, *flags, "--to", what, "-o", folder + "/package")
    text = run(JAX_PYTHON, folder + "/package/train.py", "--steps", str(steps), "--json", "--device", "cpu", "--data",
               folder + "/data.safetensors", "--init", folder + "/init.safetensors", "--stablehlo", folder + "/step.mlir")
    if what == "jax:constraints":
        with open(folder + "/step.mlir") as f:
            made, planned = collectives.hlo_traffic(f.read()), collectives.planned_traffic(program)
        print(f"collectives of XLA move {made:.0f} bytes to a device, the plan's {planned:.0f}"
              + (f": {made / planned:.2f} times" if planned else ""))
    elif len(program["stages"]) == 1:
        with open(folder + "/step.mlir") as f:
            made = collectives.in_stablehlo(f.read())
        assert made == collectives.planned(program), f"collectives are {made} but planned {collectives.planned(program)}"
    return losses_in(text)


def on_ranks(script, ranks):
    """As torchrun starts them; Debian's does not work with its Python."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    started = []
    for rank in range(ranks):
        own = dict(RANK=rank, LOCAL_RANK=rank, WORLD_SIZE=ranks, MASTER_ADDR="127.0.0.1", MASTER_PORT=port, OMP_NUM_THREADS=1)
        environment = dict(os.environ, **{name: str(value) for name, value in own.items()})
        started.append(subprocess.Popen([sys.executable, *script], env=environment, text=True, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT))
    texts = []
    try:
        for process in started:
            texts.append(process.communicate(timeout=300)[0])
    finally:
        for process in started:
            process.kill()
    for rank, process in enumerate(started):
        if process.returncode:
            raise RuntimeError(f"rank {rank}: {texts[rank][-1500:]}")
    return "".join(texts)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("what", choices=["program", "torch", "jax", "jax:constraints"])
    p.add_argument("binary")
    p.add_argument("--names")
    p.add_argument("--drawn", type=int, default=0)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--steps", type=int, default=10)
    options = p.parse_args()
    torch.set_num_threads(1)
    is_jax = options.what.startswith("jax")
    tolerance = 1e-12 if is_jax else 1e-9
    if is_jax and not has_jax():
        print(f"skipped: no JAX in {JAX_PYTHON}; SHARDWRIGHT_JAX_PYTHON says which Python has it")
        return 77
    cases = {} if options.drawn and not options.names else dict(CASES)
    if options.names:
        cases = {name: CASES[name] for name in options.names.split(",")}
    cases.update(drawn(options.drawn, options.seed))
    failed = refusals = 0
    for name, (model, text) in cases.items():
        flags = [*text.split(), "--precision", "f64", *([] if "--lr" in text else ["--lr", "0.05"])]
        classes = {"ffn": 6, "resnet18": 10, "llama": 24, "gpt": 24}[model.split(":")[0]]
        with tempfile.TemporaryDirectory() as folder:
            try:
                program = json.loads(run(options.binary, "lower", model, *flags, "--json"))
            except RuntimeError as e:
                if not name.startswith("drawn"):
                    raise
                print(f"{name}: {text}: cannot be planned: {str(e).splitlines()[-1][-150:]}", flush=True)
                continue
            data, weights = write_run(folder, program, options.steps, options.seed, classes)
            try:
                want = ours(options.binary, model, flags, folder, options.steps)
                if options.what == "program":
                    got = of_program(program, data, weights, options.steps)
                elif options.what == "torch":
                    got = of_package(options.binary, model, flags, folder, options.steps, program["ranks"])
                else:
                    got = of_jax(options.what, options.binary, model, flags, folder, options.steps, program)
                far = max(abs(a - b) / max(1, abs(b)) for a, b in zip(got, want))
                is_good = len(got) == len(want) == options.steps and far <= tolerance
                print(f"{name}: {model.split(':')[0]} {text}: losses {want[0]:.6f} to {want[-1]:.6f}, differ by {far:.1e}"
                      + ("" if is_good else f" FAILED: {got}, {want}"), flush=True)
            except Exception as e:
                if is_jax and (refused := refusal_of(e)):
                    print(f"{name}: {text}: refused: {refused}", flush=True)
                    refusals += 1
                    continue
                is_good = False
                print(f"{name}: {model} {text}: FAILED: {type(e).__name__}: {e}", flush=True)
            failed += not is_good
    print(f"{len(cases)} plans, {failed} failed" + (f", {refusals} refused by name" if refusals else ""))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())

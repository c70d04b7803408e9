#!/usr/bin/env python3
"""Modules of PyTorch, eager and by shardwright.torch: losses, gradients, states; plans, and what is refused.

  torch_modules.py [NAME...]      with the packages of a build on PYTHONPATH

Runs itself with a Python that has torch, torchvision and transformers of PyPI: SHARDWRIGHT_TORCH_PYTHON or
~/.cache/peers/pt/bin/python; without one it says so and ends with status 77.
"""

import copy
import importlib.util
import pathlib
import re
import subprocess
import sys
import tempfile

from with_pytorch import with_pytorch

ROOT = pathlib.Path(__file__).parents[2]
ALLOWED = 1e-9

with_pytorch("torch.export, transformers, safetensors", "torch 2.4 with transformers")
sys.path.insert(0, str(ROOT / "tests" / "reference" / "torch_export"))

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
import torch.utils.checkpoint  # noqa: E402
from torch import nn  # noqa: E402

import modules  # noqa: E402
import shardwright as sw  # noqa: E402
import shardwright.torch as st  # noqa: E402


def eager_losses(module, batch, loss, optimizer, steps):
    """Those of PyTorch, which trains the module."""
    arguments, keywords = ((), batch) if isinstance(batch, dict) else (batch, {})
    module.train()
    out = []
    for _ in range(steps):
        optimizer.zero_grad()
        result = loss(module, *arguments, **keywords) if loss else module(*arguments, **keywords)
        result = result if isinstance(result, torch.Tensor) else result.loss
        result.backward()
        optimizer.step()
        out.append(result.item())
    return out


def difference(module, reference):
    """The largest one of weights and states, against the largest element of its tensor."""
    theirs = reference.state_dict()
    def of(name, t):
        t, u = t.double(), theirs[name].double()
        return ((t - u).abs().max() / u.abs().max().clamp_min(1e-3)).item() if t.numel() else 0.0

    return max((of(name, t), name) for name, t in module.state_dict().items())


def trained(name, rate, steps, **options):
    """Differences of losses and of weights behind as many steps."""
    with modules.everywhere_f64():
        module, batch, loss = modules.made(name, 4)
        arguments, keywords = ((), batch) if isinstance(batch, dict) else (batch, {})
        reference = copy.deepcopy(module)
        wanted = eager_losses(reference, batch, loss, torch.optim.SGD(reference.parameters(), lr=rate), steps)
        step = st.train_step(module, torch.optim.SGD(module.parameters(), lr=rate), loss=loss, **options)
        losses = [step(*arguments, **keywords).item() for _ in range(steps)]
        step.write_back()
    return max(abs(a - b) / abs(b) for a, b in zip(losses, wanted)), difference(module, reference), losses


def check_module(name):
    """One step on one device tells the gradients; five on four devices, by the plan that is found."""
    if modules.vision is None and (name in modules.published or name == "swin"):
        print(f"{name}: skipped, there is no torchvision", flush=True)
        return
    of_loss, (of_weights, where), _ = trained(name, 0.1, 1)
    assert of_loss <= ALLOWED and of_weights <= ALLOWED, (name, of_loss, of_weights, where)
    # A small rate: what is chaotic makes much of the last digit.
    of_losses, (of_states, there), losses = trained(name, 0.001, 5, devices=4)
    assert of_losses <= ALLOWED and of_states <= 1e-7, (name, of_losses, of_states, there)
    print(f"{name}: loss within {of_loss:.0e}, weights {of_weights:.0e}; 5 steps on 4 devices: losses {of_losses:.0e}, "
          f"weights and states {of_states:.0e}; {losses[0]:.6f} -> {losses[-1]:.6f}", flush=True)


def check_llama_plan():
    """The plan of one that others have written, and that of the built-in one."""
    from transformers import LlamaConfig, LlamaForCausalLM
    sizes = dict(hidden=1024, layers=4, heads=16, kv_heads=4, ffn=2816, vocab=32000, seq=1024)
    built_name = "llama:" + ",".join(f"{k}={v}" for k, v in sizes.items()) + ",batch=16"
    config = LlamaConfig(vocab_size=32000, hidden_size=1024, intermediate_size=2816, num_hidden_layers=4, num_attention_heads=16,
                         num_key_value_heads=4, max_position_embeddings=1024, use_cache=False)
    module = LlamaForCausalLM(config)
    ids = torch.zeros(16, 1024, dtype=torch.long)
    for options in ({}, {"set": "tp=8"}):
        options = {"cluster": "h100:8", "precision": "bf16", **options}
        built = sw.plan(built_name, sw.optim.adamw(1e-3), **options).step_seconds
        plain = st.plan(module, (ids, ids), sw.optim.adamw(1e-3), loss=lambda m, input, label: F.cross_entropy(
            m(input_ids=input).logits.flatten(0, 1), label.flatten()), **options).step_seconds
        own = st.plan(module, {"input_ids": ids, "labels": ids}, sw.optim.adamw(1e-3), **options).step_seconds
        print(f"llama {options}: traced / built-in {plain / built:.4f}, with labels that it shifts {own / built:.4f}", flush=True)
        assert abs(plain / built - 1) < 0.01 and abs(own / built - 1) < 0.02


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


class Spectral(Small):
    def forward(self, x):
        return super().forward(torch.fft.rfft(x).abs()[:, :1].expand(-1, 4))


class Counted(Small):
    def forward(self, x):
        return super().forward(x[x.sum(1) > 0])


class Scaled(Small):
    """By what has no gradient."""

    def forward(self, x):
        h = self.first(x)
        with torch.no_grad():
            scale = self.first.weight.norm() + h.mean()
        return self.second(h / scale)


class Averaging(Small):
    """Assigns its buffer; PyTorch's export notices that of the outermost module alone."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x):
        y = super().forward(x)
        self.mean = self.mean * 0.9 + 0.1 * y.detach().mean(0)
        return y + self.mean


class Again(Small):
    def forward(self, x):
        return self.second(torch.utils.checkpoint.checkpoint(lambda t: torch.tanh(self.first(t)), x, use_reentrant=False))


def check_modes():
    """What is not an operator: no gradient, assigned buffers, recomputed parts."""
    batch = torch.randn(8, 4).double(), torch.randint(0, 3, (8,))
    for kind in (Scaled, Averaging, Again):
        module = kind().double()
        reference = copy.deepcopy(module)
        wanted = eager_losses(reference, batch, loss_of_small, torch.optim.SGD(reference.parameters(), lr=0.1), 3)
        step = st.train_step(module, sw.optim.sgd(0.1), loss=loss_of_small, devices=2)
        fitted = sw.fit(step, [batch], steps=3)
        step.write_back()
        assert all(abs(a - b) < ALLOWED for a, b in zip(fitted.losses, wanted)), (kind, fitted.losses, wanted)
        assert difference(module, reference)[0] < ALLOWED, kind
    print("modes: no gradient, assigned buffers, recomputed parts; by fit", flush=True)


def check_ranks():
    """Processes of mpirun, each of which has the whole batch and gets all weights back."""
    program = """
import torch, torch.nn.functional as F, shardwright as sw, shardwright.torch as st
torch.manual_seed(1)
module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)).double()
x, y = torch.randn(8, 4).double(), torch.randint(0, 3, (8,))
step = st.train_step(module, sw.optim.sgd(0.1), loss=lambda m, x, y: F.cross_entropy(m(x), y))
losses = [step(x, y).item() for _ in range(3)]
step.write_back()
print(*losses, F.cross_entropy(module(x), y).item())
"""
    words = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2"]
    alone, both = (subprocess.run([*more, sys.executable, "-c", program], capture_output=True, text=True) for more in ([], words))
    assert both.returncode == 0 and alone.returncode == 0, both.stderr[-2000:] + alone.stderr[-2000:]
    wanted = [float(v) for v in alone.stdout.split()]
    found = [float(v) for v in both.stdout.split()]
    assert len(found) == 2 * len(wanted) and all(abs(a - b) < ALLOWED for a, b in zip(found, wanted * 2)), (found, wanted)
    print("ranks: two processes compute what one does", flush=True)


def loss_of_small(module, x, y):
    return F.cross_entropy(module(x), y)


def refused(message, function):
    try:
        function()
    except (ValueError, TypeError) as e:
        assert re.search(message, str(e)) and "\n" not in str(e), e
        return
    raise AssertionError(f"nothing was refused: {message}")


def check_refusals():
    batch = torch.randn(4, 4), torch.tensor([0, 1, 2, 0])
    module = Small()
    adam = torch.optim.Adam
    groups = [{"params": module.first.parameters()}, {"params": module.second.parameters(), "weight_decay": 0.1}]
    refused(r"aten\._?fft.* has no counterpart here \(.*torch_modules.py:\d+: return super", lambda: st.plan(Spectral(), batch, loss=loss_of_small))
    refused(r"index.Tensor by a mask that is data .*torch_modules.py:\d+: return super", lambda: st.plan(Counted(), batch, loss=loss_of_small))
    refused("Small returns .* and no loss", lambda: st.plan(module, batch[:1]))
    refused("amsgrad=True", lambda: st.train_step(module, adam(module.parameters(), amsgrad=True)))
    grouped = st.train_step(module, adam(groups), loss=loss_of_small)
    refused("fit sets one learning rate, but the optimizer has 2 groups", lambda: sw.fit(grouped, [batch]))
    refused("reads its learning rate from the optimizer's param_groups", lambda: grouped.set_rate(0.1))
    refused("groups of parameters with and without decoupled_weight_decay", lambda: st.train_step(
        module, adam([groups[0], {**groups[1], "decoupled_weight_decay": True}])))
    grouped(*batch)
    module.first.bias.requires_grad_(False)
    refused("requires_grad of 'first.bias' is another than when the step was made", lambda: grouped(*batch))
    module.first.bias.requires_grad_(True)
    refused("'second.weight' is not among", lambda: st.train_step(module, adam(module.first.parameters())))
    refused("RMSprop has no counterpart", lambda: st.train_step(module, torch.optim.RMSprop(module.parameters())))
    refused("should be a torch.nn.Module", lambda: st.train_step(loss_of_small, sw.optim.sgd(0.1)))
    refused("no option 'device'", lambda: st.train_step(module, sw.optim.sgd(0.1), device=4))
    uneven = st.train_step(module, sw.optim.sgd(0.1), loss=loss_of_small, micro_batches=2)
    refused("different numbers of labels -100", lambda: uneven(batch[0], torch.tensor([0, -100, 2, 0])))
    print("refusals: told in one line", flush=True)


def check_steps():
    """Batches of other sizes, labels that are left out, schedules, frozen weights, checkpoints, precision."""
    torch.manual_seed(2)
    module = Small().double()
    module.first.bias.requires_grad_(False)
    reference = copy.deepcopy(module)
    theirs = torch.optim.AdamW(reference.parameters(), lr=0.01)
    ours = torch.optim.AdamW(module.parameters(), lr=0.01)
    schedules = [torch.optim.lr_scheduler.StepLR(o, 1, 0.5) for o in (theirs, ours)]
    step = st.train_step(module, ours, loss=loss_of_small, devices=2)
    for rows in (4, 8, 2, 4, 8):
        x, y = torch.randn(rows, 4).double(), torch.randint(0, 3, (rows,))
        y[0] = -100 if rows == 8 and step.steps_done < 4 else 1
        wanted = eager_losses(reference, (x, y), loss_of_small, theirs, 1)[0]
        assert abs(step(x, y).item() - wanted) < 1e-9 * abs(wanted)
        ours.step()
        for s in schedules:
            s.step()
    step.write_back()
    assert difference(module, reference)[0] < 1e-9, difference(module, reference)
    with tempfile.TemporaryDirectory() as folder:
        step.save(folder)
        step.wait()
        fresh = Small().double()
        fresh.first.bias.requires_grad_(False)
        again = st.train_step(fresh, sw.optim.adamw(0.01), loss=loss_of_small)
        assert again.load(folder) == 5
        x, y = torch.randn(4, 4).double(), torch.tensor([0, 1, 2, 0])
        refused("was trained beside other parameters than those that are frozen here", lambda: again(x, y))
        with torch.no_grad():
            fresh.first.bias.copy_(reference.first.bias)  # which no checkpoint has
        again = st.train_step(fresh, sw.optim.adamw(0.01), loss=loss_of_small)
        assert again.load(folder) == 5
        assert abs(again(x, y).item() - loss_of_small(reference, x, y).item()) < 1e-9
    check_groups()
    check_frozen()
    half = st.train_step(Small(), sw.optim.sgd(0.1), loss=loss_of_small, precision="bf16")
    assert 0.5 < half(x.float(), y).item() < 2
    print("steps: sizes, labels, schedules, groups of parameters, frozen weights, checkpoints, bf16", flush=True)


def check_groups():
    """Settings and rates of groups of parameters, each rate with a schedule of its own."""
    def optimizer_of(module, kind, own):
        norms_and_biases = [p for p in module.parameters() if p.ndim < 2]
        others = [p for p in module.parameters() if p.ndim >= 2]
        return kind([{"params": others, "weight_decay": 0.1}, {"params": norms_and_biases, **own}], lr=0.02)

    x, y = torch.randn(8, 4).double(), torch.randint(0, 3, (8,))
    for kind, own in ((torch.optim.AdamW, {"weight_decay": 0.0}), (torch.optim.AdamW, {"weight_decay": 0.0, "lr": 0.005, "betas": (0.8, 0.9)}),
                      (torch.optim.Adam, {"eps": 1e-3}), (torch.optim.SGD, {"momentum": 0.9, "nesterov": True, "lr": 0.1})):
        for options in ({}, {"devices": 4}, {"devices": 2, "micro_batches": 2, "set": "dp=2,zero=3"}):
            module = Small().double()
            reference = copy.deepcopy(module)
            theirs, ours = (optimizer_of(m, kind, own) for m in (reference, module))
            schedules = [torch.optim.lr_scheduler.LambdaLR(o, [lambda i: 1 / (1 + i), lambda i: 0.5 ** i]) for o in (theirs, ours)]
            step = st.train_step(module, ours, loss=loss_of_small, **options)
            for _ in range(4):
                wanted = eager_losses(reference, (x, y), loss_of_small, theirs, 1)[0]
                assert abs(step(x, y).item() - wanted) < ALLOWED * abs(wanted), (kind, own, options)
                ours.step()
                for s in schedules:
                    s.step()
            step.write_back()
            assert difference(module, reference)[0] < ALLOWED, (kind, own, options, difference(module, reference))


def check_frozen():
    """Frozen weights lie in parts where weights do, have no states, and are not written."""
    module = Small().double()
    module.first, module.second = nn.Linear(4, 4096).double(), nn.Linear(4096, 3).double()  # small ones stay whole
    for p in module.first.parameters():
        p.requires_grad_(False)
    reference, before = copy.deepcopy(module), module.first.weight.clone()
    batch = torch.randn(8, 4).double(), torch.randint(0, 3, (8,))
    wanted = eager_losses(reference, batch, loss_of_small, torch.optim.AdamW(reference.second.parameters(), lr=1e-3), 3)
    step = st.train_step(module, torch.optim.AdamW(module.second.parameters(), lr=1e-3), loss=loss_of_small, devices=4, set="dp=4,zero=3")
    assert all(abs(step(*batch).item() - w) < ALLOWED for w in wanted)
    assert re.search(r"%first.weight = param f64\[1024, 4\] .*frozen=true", step.lower()) and "first.weight.moment1" not in step.lower()
    step.write_back()
    assert difference(module, reference)[0] < ALLOWED and torch.equal(module.first.weight, before)


class Recommender(nn.Module):
    """Two kinds of embeddings, of which updates touch rows, and dense layers."""

    def __init__(self):
        super().__init__()
        self.items = nn.Embedding(50, 4, padding_idx=0, sparse=True)
        self.tags = nn.EmbeddingBag(30, 4, mode="mean", sparse=True)
        self.head = nn.Linear(8, 1)

    def forward(self, item, tags):
        return self.head(torch.cat([self.items(item).sum(1), self.tags(tags)], 1)).squeeze(1)


class Factors(nn.Module):
    def __init__(self, sparse=True):
        super().__init__()
        self.users, self.items = nn.Embedding(20, 4, sparse=sparse), nn.Embedding(30, 4, sparse=sparse)

    def forward(self, user, item):
        return (self.users(user) * self.items(item)).sum(1)


def check_sparse():
    """`sparse=True`: updates of rows, with the numbers of PyTorch's; told or refused where there are none."""
    torch.manual_seed(4)
    ratings = lambda m, a, b, y: F.mse_loss(m(a, b), y)
    batches = [(torch.randint(0, 20, (8, 3)), torch.randint(0, 30, (8, 5)), torch.randn(8).double()) for _ in range(4)]
    pairs = [(a[:, 0], b[:, 0], y) for a, b, y in batches]
    for made, rows, kind, settings in ((Recommender, batches, torch.optim.SGD, {}), (Recommender, batches, torch.optim.Adagrad, {}),
                                       (Factors, pairs, torch.optim.SparseAdam, {"betas": (0.8, 0.9)})):
        module = made().double()
        reference = copy.deepcopy(module)
        theirs = kind(reference.parameters(), lr=0.1, **settings)
        wanted = [eager_losses(reference, batch, ratings, theirs, 1)[0] for batch in rows]
        for options in ({}, {"devices": 2, "set": "dp=2"}, {"devices": 4}):
            trains = copy.deepcopy(module)
            step = st.train_step(trains, kind(trains.parameters(), lr=0.1, **settings), loss=ratings, **options)
            losses = [step(*batch).item() for batch in rows]
            step.write_back()
            assert max(abs(a - b) / abs(b) for a, b in zip(losses, wanted)) < ALLOWED, (kind, losses, wanted)
            assert difference(trains, reference)[0] < ALLOWED, (kind, options, difference(trains, reference))
            assert len(re.findall(r"_rows %", step.lower())) == 2, step.lower()
    mixed, factors = Recommender().double(), Factors()
    refused("SparseAdam: 'head.weight' is no weight of an embedding with sparse=True",
            lambda: st.train_step(mixed, torch.optim.SparseAdam(mixed.parameters()), loss=ratings)(*batches[0]))
    refused(r"Adagrad\(lr_decay=0.5\)", lambda: st.train_step(factors, torch.optim.Adagrad(factors.parameters(), lr_decay=0.5)))
    code = ("import torch, shardwright.torch as st; m = torch.nn.Embedding(9, 2, sparse=True); "
            "st.train_step(m, torch.optim.Adam(m.parameters()), loss=lambda m, x: m(x).sum())(torch.tensor([1, 2]))")
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr
    assert "weight: each step updates the whole table by adam, which moves every row" in told, told
    print("sparse: rows of tables by SGD, Adagrad and SparseAdam, as PyTorch's", flush=True)


def check_emitted():
    """A package for PyTorch with the module's weights prints the losses of eager."""
    torch.manual_seed(3)
    module, x, y = Small().double(), torch.randn(8, 4).double(), torch.randint(0, 3, (8,))
    from safetensors.torch import save_file
    with tempfile.TemporaryDirectory() as folder:
        st.emit(module, (x, y), "torch", f"{folder}/package", sw.optim.sgd(0.1), loss=loss_of_small, devices=2)
        save_file({"x": x[None].repeat(3, 1, 1), "y": y[None].repeat(3, 1)}, f"{folder}/data.safetensors")
        run = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", f"{folder}/package/train.py", "--init",
                              f"{folder}/package/weights.safetensors", "--data", f"{folder}/data.safetensors", "--steps", "3", "--device", "cpu"],
                             capture_output=True, text=True)
    found = [float(v) for v in re.findall(r"loss is ([0-9.e+-]+)", run.stdout)]
    wanted = eager_losses(module, (x, y), loss_of_small, torch.optim.SGD(module.parameters(), lr=0.1), 3)
    assert len(found) >= 3 and all(abs(a - b) < 1e-4 for a, b in zip(found, wanted)), (run.stdout, run.stderr[:1500], wanted)
    print("emitted: a package that prints the losses of eager", flush=True)


def check_examples():
    """Scripts of Trainers print what they print without the lines of Shardwright."""
    for name, package, says in (("lightning_module", "lightning", r"loss 0\.\d+, right: (1\.00|0\.9\d)"),
                                ("hf_trainer", "accelerate", r"5 7 9 11 -> 13 15 17 19")):
        if not importlib.util.find_spec(package):
            print(f"example {name}: skipped, there is no {package}", flush=True)
            continue
        script = (ROOT / "examples" / "python" / "torch" / f"{name}.py").read_text()
        assert script.count("  # shardwright\n") == 2
        plain = re.sub(r"from shardwright.torch.huggingface import", "from transformers import", script)
        plain = re.sub(r"(?m)^import shardwright.*$", "", plain).replace(', plan={"devices": 4}', "")
        plain = plain.replace("sl.planned(module, devices=4)", "module")
        assert "shardwright." not in plain.split('"""')[2]
        ours, theirs = (output_of(text) for text in (script, plain))
        assert re.search(says, ours), ours
        found, wanted = (re.findall(r"(?:loss'?:?|right:) '?([\d.]+)", text) for text in (ours, theirs))
        assert len(found) == len(wanted) >= 2 and all(abs(float(a) - float(b)) < 2e-3 * float(b) for a, b in zip(found, wanted)), \
            (found, wanted)
        print(f"example {name}: {', '.join(found)}; without Shardwright {', '.join(wanted)}", flush=True)


def output_of(script):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "script.py"
        path.write_text(script)
        run = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, cwd=folder)
        assert run.returncode == 0, run.stdout + run.stderr[-2000:]
        return run.stdout


def check_trainers():
    """What trainers of others do around steps: groups, clipping, evaluation, going on from checkpoints, and what is refused."""
    if not importlib.util.find_spec("accelerate"):
        print("trainers: skipped, there is no accelerate", flush=True)
        return
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments, set_seed

    from shardwright.torch import huggingface
    config = LlamaConfig(vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
                         num_key_value_heads=1, max_position_embeddings=16, use_cache=False)
    torch.manual_seed(4)
    data = [{"input_ids": row, "labels": row} for row in torch.randint(0, 32, (64, 12))]

    def losses(kind, folder, go_on=None, steps=6, **more):
        set_seed(5)
        model = LlamaForCausalLM(config)
        arguments = TrainingArguments(folder, per_device_train_batch_size=8, max_steps=steps, learning_rate=0.01, weight_decay=0.1,
                                      lr_scheduler_type="linear", logging_steps=1, save_strategy="steps", save_steps=3,
                                      max_grad_norm=0.5, use_cpu=True, disable_tqdm=True, report_to=[], eval_strategy="steps",
                                      eval_steps=3)
        trainer = kind(model=model, args=arguments, train_dataset=data, eval_dataset=data[:16], **more)
        trainer.train(resume_from_checkpoint=go_on)
        return [e.get("loss", e.get("eval_loss")) for e in trainer.state.log_history if "loss" in e or "eval_loss" in e], model

    with tempfile.TemporaryDirectory() as folder:
        wanted, theirs = losses(Trainer, f"{folder}/theirs")
        found, ours = losses(huggingface.Trainer, f"{folder}/ours", plan={"devices": 2})
        assert len(found) == len(wanted) == 8 and all(abs(a - b) < 1e-5 for a, b in zip(found, wanted)), (found, wanted)
        assert difference(ours, theirs)[0] < 1e-3, difference(ours, theirs)
        again, resumed = losses(huggingface.Trainer, f"{folder}/ours", f"{folder}/ours/checkpoint-3", plan={"devices": 4})
        assert difference(resumed, theirs)[0] < 1e-3 and all(abs(a - b) < 1e-5 for a, b in zip(again, wanted)), (again, wanted)
        refused("has no folder shardwright", lambda: losses(huggingface.Trainer, f"{folder}/ours", f"{folder}/theirs/checkpoint-3"))
        for said, more in (("gradient_accumulation_steps=2: say plan={'micro_batches': 2}", {"gradient_accumulation_steps": 2}),
                           ("bf16=True: say plan={'precision': 'bf16'}", {"bf16": True})):
            arguments = TrainingArguments(folder, use_cpu=True, report_to=[], **more)
            refused(said, lambda: huggingface.Trainer(model=ours, args=arguments, train_dataset=data))
    print("trainers: losses, evaluation, checkpoints and refusals of Hugging Face's", flush=True)


CHECKS = {"refusals": check_refusals, "steps": check_steps, "modes": check_modes, "ranks": check_ranks, "sparse": check_sparse, "emitted": check_emitted,
          "llama_plan": check_llama_plan, "examples": check_examples, "trainers": check_trainers}

if __name__ == "__main__":
    known = [*CHECKS, *modules.modules, *modules.published]
    if unknown := set(sys.argv[1:]) - set(known):
        sys.exit(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    for wanted in sys.argv[1:] or known:
        CHECKS.get(wanted, lambda: check_module(wanted))()

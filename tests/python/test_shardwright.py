"""Our own API: tensors, traced functions, steps that train, against numpy and PyTorch."""

import re

import numpy as np
import pytest
import torch

import shardwright as sw
from shardwright import _core


def data(rows=16, features=8, classes=4, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(rows, features)).astype(np.float32), rng.integers(0, classes, rows).astype(np.int32))


class Net:
    def __init__(self):
        self.hidden, self.out = sw.nn.Dense(8, 12), sw.nn.Dense(12, 4)

    def __call__(self, x):
        return self.out(sw.ops.relu(self.hidden(x)))


def loss_of(net, x, label):
    return sw.ops.cross_entropy(net(x), label)


def losses(step, count=5):
    x, y = data()
    return [step(x, y).item() for _ in range(count)]


# Tensors

def test_numpy_and_torch_share_memory():
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    t = sw.Tensor(a)
    assert np.shares_memory(t.numpy(), a)
    assert torch.from_dlpack(t).data_ptr() == a.ctypes.data
    b = torch.arange(4, dtype=torch.int64)
    assert sw.from_dlpack(b).numpy().ctypes.data == b.data_ptr()
    with pytest.raises(ValueError):
        t.numpy()[0, 0] = 1  # nobody writes to a tensor


def test_bfloat16_comes_from_torch_and_is_read_as_float32():
    t = sw.from_dlpack(torch.full((2, 2), 1.5, dtype=torch.bfloat16))
    assert t.dtype == "bfloat16" and t.numpy().dtype == np.float32 and t.numpy()[0, 0] == 1.5
    assert torch.from_dlpack(t).dtype == torch.bfloat16


def test_memory_that_is_not_row_major_is_copied_or_refused():
    a = np.arange(6, dtype=np.float32).reshape(2, 3).T
    assert (sw.Tensor(a).numpy() == a).all()
    with pytest.raises(BufferError, match="row-major"):
        sw.from_dlpack(torch.arange(6).reshape(2, 3).T)


@pytest.mark.parametrize("value, dtype", [(1.0, "float32"), ([1, 2], "int64"), ([1.0], "float32"), (True, "bool"),
                                          (np.float64(1), "float64"), (np.zeros(2, np.uint8), "uint8")])
def test_types_of_values(value, dtype):
    assert sw.Tensor(value).dtype == dtype


@pytest.mark.parametrize("index", [0, -1, slice(1, None), (slice(None), 2), (0, slice(None, None, 2)), Ellipsis,
                                   (Ellipsis, 1), None, (slice(None), None, 3)])
def test_indices_are_numpys(index):
    a = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
    assert (sw.Tensor(a)[index].numpy() == a[index]).all()


def test_a_wrong_index_is_an_index_error():
    with pytest.raises(IndexError, match="index 5 of a dim of size 2"):
        sw.Tensor(np.zeros((2, 2), np.float32))[5]
    with pytest.raises(IndexError, match="would be empty"):
        sw.Tensor(np.zeros((2, 2), np.float32))[2:1]


def test_arithmetic_broadcasts_and_promotes():
    a, i = np.arange(6, dtype=np.float32).reshape(2, 3) + 1, np.arange(3, dtype=np.int32)
    t, k = sw.Tensor(a), sw.Tensor(i)
    for have, want in [(t + k, a + i), (2 - t, 2 - a), (t / 2, a / 2), (t * t, a * a), (-t, -a), (t ** 2, a ** 2),
                       (k + 1, i + 1), (t > 3, a > 3), (1 / t, 1 / a)]:
        assert np.allclose(have.numpy(), want), (have, want)
    assert (k + 1).dtype == "int32" and (k + 1.5).dtype == "float32" and (t + k).dtype == "float32"


def test_operators_are_torchs():
    x = np.random.default_rng(1).normal(size=(3, 5)).astype(np.float32)
    t, p = sw.Tensor(x), torch.tensor(x)
    for name, want in [("relu", torch.relu(p)), ("tanh", torch.tanh(p)), ("sigmoid", torch.sigmoid(p)),
                       ("silu", torch.nn.functional.silu(p)), ("exp", torch.exp(p)), ("softmax", torch.softmax(p, -1)),
                       ("log_softmax", torch.log_softmax(p, -1)), ("abs", p.abs()), ("square", p * p)]:
        assert np.allclose(getattr(sw.ops, name)(t).numpy(), want.numpy(), atol=1e-6), name
    assert np.allclose(sw.ops.gelu(t).numpy(), torch.nn.functional.gelu(p, approximate="tanh").numpy(), atol=1e-6)
    assert np.allclose(sw.ops.mean(t, 0).numpy(), x.mean(0), atol=1e-6)
    assert np.allclose(sw.ops.sum(t, keepdims=True).numpy(), x.sum(keepdims=True), atol=1e-5)
    image, kernel = np.random.default_rng(2).normal(size=(2, 3, 8, 8)), np.random.default_rng(3).normal(size=(4, 3, 3, 3))
    image, kernel = image.astype(np.float32), kernel.astype(np.float32)
    want = torch.nn.functional.conv2d(torch.tensor(image), torch.tensor(kernel), stride=2, padding=1)
    assert np.allclose(sw.ops.conv2d(image, kernel, 2, 1).numpy(), want.numpy(), atol=1e-4)
    want = torch.nn.functional.max_pool2d(torch.tensor(image), 2)
    assert np.allclose(sw.ops.max_pool2d(image, 2).numpy(), want.numpy())
    labels = np.array([0, 4, 2], np.int32)
    want = torch.nn.functional.cross_entropy(p, torch.tensor(labels, dtype=torch.int64))
    assert np.isclose(sw.ops.cross_entropy(t, labels).item(), want.item())


# Steps

@pytest.mark.parametrize("options", [{"devices": 2}, {"devices": 8}, {"devices": 4, "search": "recursive"},
                                     {"devices": 4, "parallel": "data_parallel", "optimizer_parallel": "3:threshold=0"},
                                     {"devices": 2, "stages": 2, "micro_batches": 4, "search": "recursive"},
                                     {"devices": 2, "micro_batches": 2},
                                     {"devices": 2, "micro_batch_interleave": 2},
                                     {"devices": 2, "stages": 2, "micro_batches": 2, "micro_batch_interleave": 2,
                                      "search": "recursive"}])
def test_losses_are_those_of_one_device(options):
    for optimizer in (sw.optim.momentum(0.1), sw.optim.adamw(0.05, clip_norm=1.0)):
        want = losses(sw.train_step(loss_of, Net(), optimizer))
        assert losses(sw.train_step(loss_of, Net(), optimizer, **options)) == pytest.approx(want, rel=1e-5)


@pytest.mark.parametrize("ours, theirs", [
    (sw.optim.sgd(0.1), lambda p: torch.optim.SGD(p, 0.1)),
    (sw.optim.sgd(0.1, weight_decay=0.1), lambda p: torch.optim.SGD(p, 0.1, weight_decay=0.1)),
    (sw.optim.momentum(0.1, nesterov=True), lambda p: torch.optim.SGD(p, 0.1, 0.9, nesterov=True)),
    (sw.optim.adam(0.01), lambda p: torch.optim.Adam(p, 0.01)),
    (sw.optim.adamw(0.01, weight_decay=0.1), lambda p: torch.optim.AdamW(p, 0.01, weight_decay=0.1))])
def test_training_is_torchs(ours, theirs):
    x, y = data()
    net = Net()
    step = sw.train_step(loss_of, net, ours, devices=2)
    own = [torch.tensor(p.numpy().copy(), requires_grad=True) for p in step.parameters]
    optimizer = theirs(own)
    for _ in range(5):
        hidden = torch.relu(torch.tensor(x) @ own[0] + own[1])
        loss = torch.nn.functional.cross_entropy(hidden @ own[2] + own[3], torch.tensor(y, dtype=torch.int64))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert step(x, y).item() == pytest.approx(loss.item(), rel=1e-5)
    for p, w in zip(step.parameters, own):
        assert np.allclose(p.numpy(), w.detach().numpy(), atol=1e-5), p.name


def test_params_may_be_a_tree_and_results_too():
    rng = np.random.default_rng(0)
    params = {"w": rng.normal(size=(8, 4)).astype(np.float32), "b": [np.zeros(4, np.float32)]}

    def fn(params, batch):
        logits = batch["x"] @ params["w"] + params["b"][0]
        return sw.ops.cross_entropy(logits, batch["y"]), {"logits": logits, "rows": 16, "pair": (logits, None)}

    step = sw.train_step(fn, params, sw.optim.sgd(0.1), devices=2)
    x, y = data()
    loss, aux = step({"x": x, "y": y})
    assert aux["logits"].shape == (16, 4) and aux["rows"] == 16 and aux["pair"][1] is None
    assert [p.name for p in step.parameters] == ["w", "b.0"]
    before = params["w"].copy()
    assert not np.allclose(step.params["w"].numpy(), before)


def test_a_smaller_batch_is_another_program_of_the_same_parameters_and_states():
    x, y = data()
    one, two = (sw.train_step(loss_of, Net(), sw.optim.adam(0.05), devices=n) for n in (1, 4))
    for step in (one, two):
        step.results = [step(x, y).item(), step(x[:8], y[:8]).item(), step(x, y).item(), step(x[:8], y[:8]).item()]
    assert two.results == pytest.approx(one.results, rel=1e-5)
    net = Net()
    whole = sw.train_step(loss_of, net, sw.optim.adam(0.05))
    assert whole(x, y).item() == one.results[0]


def test_rates_change_from_step_to_step():
    rates = sw.RateSchedule("linear", rate=0.2, steps=4)
    step, parameter = sw.train_step(loss_of, net := Net(), sw.optim.sgd(0.2)), net.out.bias
    moves = []
    for i in range(4):
        step.set_rate(rates(i))
        before = parameter.numpy().copy()
        step(*data())
        moves.append(np.abs(parameter.numpy() - before).sum())
    assert [rates(i) for i in range(4)] == pytest.approx([0.2, 0.15, 0.1, 0.05])
    assert moves[3] < moves[0] / 2


def test_a_jitted_function_sees_what_training_has_made(tmp_path):
    net = Net()
    step = sw.train_step(loss_of, net, sw.optim.momentum(0.1), devices=4)
    predict = sw.jit(lambda x: sw.ops.softmax(net(x)), devices=2)
    x, y = data()
    before = predict(x).numpy().copy()
    for _ in range(30):
        step(x, y)
    assert not np.allclose(predict(x).numpy(), before)
    assert (predict(x).numpy().argmax(1) == y).mean() > 0.8
    assert np.allclose(predict(x).numpy(), sw.ops.softmax(net(sw.Tensor(x))).numpy(), atol=1e-5)  # not traced


def test_a_parameter_of_two_nets_is_one(tmp_path):
    shared, first, second = sw.nn.Dense(8, 12), sw.nn.Dense(12, 4), sw.nn.Dense(12, 4)
    shared.weight.name, shared.bias.name = "shared.weight", "shared.bias"
    one = sw.train_step(lambda net, x, y: sw.ops.cross_entropy(net[1](net[0](x)), y), [shared, first], sw.optim.sgd(0.1))
    two = sw.train_step(lambda net, x, y: sw.ops.cross_entropy(net[1](net[0](x)), y), [shared, second],
                        sw.optim.sgd(0.1), devices=2)
    x, y = data()
    seen = [shared.weight.numpy().copy()]
    for step in (one, two, one):
        step(x, y)
        seen.append(shared.weight.numpy().copy())
    assert all(not np.array_equal(a, b) for a, b in zip(seen, seen[1:]))


class Convolutions:
    def __init__(self):
        self.conv, self.norm = sw.nn.Conv2d(3, 6, 3, padding=1), sw.nn.BatchNorm2d(6)
        self.drop, self.out = sw.nn.Dropout(0.5), sw.nn.Dense(6, 4)

    def __call__(self, x):
        return self.out(self.drop(sw.ops.mean(sw.ops.relu(self.norm(self.conv(x))), (2, 3))))


def test_batch_norm_and_dropout_are_others_in_training():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(8, 3, 6, 6)).astype(np.float32), rng.integers(0, 4, 8).astype(np.int32)
    results = []
    for devices in (1, 4):
        net = Convolutions()
        step = sw.train_step(loss_of, net, sw.optim.sgd(0.1), devices=devices)
        trained = [step(x, y).item() for _ in range(4)]
        assert len(set(trained)) == 4  # another mask each time
        ask = sw.jit(lambda x: net(x), devices=devices)
        assert np.array_equal(ask(x).numpy(), ask(x).numpy())
        results.append(trained + ask(x).numpy().ravel().tolist())
    assert results[1] == pytest.approx(results[0], rel=1e-4, abs=1e-5)
    own = torch.nn.BatchNorm2d(6).eval()
    own.running_mean[:], own.running_var[:] = torch.tensor(net.norm.mean.numpy()), torch.tensor(net.norm.variance.numpy())
    h = rng.normal(size=(2, 6, 3, 3)).astype(np.float32)
    own.weight.data, own.bias.data = torch.tensor(net.norm.gamma.numpy()), torch.tensor(net.norm.beta.numpy())
    assert np.allclose(net.norm(h).numpy(), own(torch.tensor(h)).detach().numpy(), atol=1e-5)


def test_checkpoints_go_on_under_another_plan(tmp_path):
    one = sw.train_step(loss_of, Net(), sw.optim.adamw(0.05), devices=4, parallel="data_parallel")
    x, y = data()
    for _ in range(3):
        one(x, y)
    one.save(str(tmp_path / "run"), keep=2)
    assert one.wait()[0]["step"] == 3
    want = [one(x, y).item() for _ in range(2)]
    two = sw.train_step(loss_of, Net(), sw.optim.adamw(0.05), devices=2)
    assert two.load(str(tmp_path / "run")) == 3 and two.steps_done == 3
    assert [two(x, y).item() for _ in range(2)] == pytest.approx(want, rel=1e-5)
    three = sw.train_step(loss_of, Net(), sw.optim.sgd(0.05))
    assert three.load(str(tmp_path / "run"), weights_only=True) == 0
    three(x, y)
    with pytest.raises(OSError, match="no checkpoint"):
        two.load(str(tmp_path))


def test_named_models_train_and_write(tmp_path):
    model = "llama:layers=1,hidden=16,heads=2,kv_heads=1,ffn=24,vocab=32,seq=8,batch=4"
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, 32, (4, 9)).astype(np.int32)
    steps = [sw.model_step(model, sw.optim.adamw(0.01), devices=n) for n in (1, 2)]
    for step in steps:
        step.results = [step(input=tokens[:, :-1], label=tokens[:, 1:]).item() for _ in range(4)]
    assert steps[1].results == pytest.approx(steps[0].results, rel=1e-5)
    assert steps[0].results[-1] < steps[0].results[0]
    steps[0].save(str(tmp_path / "run"))
    steps[0].wait()
    written = [sw.generate(model, str(tmp_path / "run"), [[1, 2, 3], [4]], tokens=3, devices=n) for n in (1, 2)]
    assert written[0] == written[1] and [len(w) for w in written[0]] == [3, 3]
    with pytest.raises(TypeError, match="takes input, label"):
        steps[0](tokens=tokens)


def test_splits_that_are_said_are_taken():
    mesh = sw.Mesh((2, 4), ("dp", "tp"))

    def fn(net, x, y):
        h = sw.ops.call("matmul", x, net[0], name="up", in_split=(mesh("dp", None), mesh(None, "tp")))
        block = sw.shard(lambda t: sw.ops.relu(t), in_split=((2, 4),), name="block")
        return sw.ops.cross_entropy(sw.recompute(lambda t: sw.ops.tanh(block(t)))(h) @ net[1], y)

    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(8, 12)).astype(np.float32), rng.normal(size=(12, 4)).astype(np.float32)]
    want = losses(sw.train_step(fn, weights, sw.optim.sgd(0.1)))
    step = sw.train_step(fn, weights, sw.optim.sgd(0.1), devices=8, parallel="semi_auto_parallel")
    assert losses(step) == pytest.approx(want, rel=1e-5)
    assert re.search(r"up +\{m: dp, n: tp\}", step.explain().table)


def test_plans_are_told_saved_and_taken_again(tmp_path):
    step = sw.train_step(loss_of, Net(), sw.optim.sgd(0.1), devices=4)
    with pytest.raises(ValueError, match="has not run yet"):
        step.explain()
    want = losses(step)
    plan = step.explain()
    assert "&lt;table&gt;" in plan._repr_html_() and plan.step_seconds > 0 and plan.memory_bytes > 0
    plan.save(str(tmp_path / "p.json"))
    again = sw.train_step(loss_of, Net(), sw.optim.sgd(0.1), devices=4, plan=str(tmp_path / "p.json"))
    assert losses(again) == want
    assert step.lower().startswith("program")


@pytest.mark.parametrize("options, message", [
    ({"serch": "x"}, r"there is no option 'serch' \(did you mean search\?\)"),
    ({"devices": 3, "parallel": "data_parallel"}, "the batch of 16"),
    ({"devices": 0}, "devices 0"),
    ({"precision": "f8"}, "precision 'f8' is unknown"),
    ({"micro_batches": 3}, "cannot be cut into 3 micro-batches"),
    ({"devices": 2, "memory_cap": "1KB"}, "memory_cap|memory cap")])
def test_what_is_wrong_is_said_in_one_line(options, message):
    with pytest.raises(ValueError, match=message) as caught:
        losses(sw.train_step(loss_of, Net(), sw.optim.sgd(0.1), **options))
    assert "\n" not in str(caught.value)


def test_mistakes_of_traced_functions():
    x, y = data()
    with pytest.raises(ValueError, match="has no elements yet"):
        sw.train_step(lambda net, x, y: net(x).item(), Net(), sw.optim.sgd())(x, y)
    with pytest.raises(ValueError, match="scalar loss first"):
        sw.train_step(lambda net, x, y: net(x), Net(), sw.optim.sgd())(x, y)
    with pytest.raises(ValueError, match="matmul: operands are"):
        sw.ops.matmul(sw.Tensor(x), sw.Tensor(y))
    with pytest.raises(TypeError, match="no counterpart"):
        sw.Tensor("text")
    assert _core.tracing() is None  # whatever failed, nothing is being traced
    leaked = []
    sw.jit(lambda x: leaked.append(x) or x)(x)
    with pytest.raises(ValueError, match="a trace that has ended"):
        leaked[0].numpy()


def test_event_files_and_tensors(tmp_path):
    events = sw.EventFile(str(tmp_path))
    events.write(1, {"loss": 0.5})
    assert (tmp_path / events.path.rsplit("/", 1)[1]).stat().st_size > 40
    sw.save_safetensors(str(tmp_path / "t.safetensors"), {"a": np.arange(3), "b": sw.Tensor([1.5])})
    loaded = sw.load_safetensors(str(tmp_path / "t.safetensors"))
    assert loaded["a"].numpy().tolist() == [0, 1, 2] and loaded["b"].item() == 1.5
    with pytest.raises(OSError):
        sw.load_safetensors(str(tmp_path / "absent.safetensors"))


# Processes

TRAIN = """
import numpy as np, shardwright as sw
from shardwright import _core
rng = np.random.default_rng(0)
x, y = rng.normal(size=(16, 8)).astype(np.float32), rng.integers(0, 4, 16).astype(np.int32)
net = [sw.nn.Dense(8, 12), sw.nn.Dense(12, 4)]
step = sw.train_step(lambda net, x, y: sw.ops.cross_entropy(net[1](sw.ops.relu(net[0](x))), y), net,
                     sw.optim.momentum(0.1), devices=max(_core.rank_count(), 1))
for _ in range(3):
    loss = step(x, y).item()
    if _core.own_rank() == 0:
        print(f"{loss:.6f}", flush=True)
"""


def test_processes_train_as_one(run_program):
    want = run_program(TRAIN)
    assert run_program(TRAIN, ranks=2) == want


def test_a_rank_that_throws_ends_all(run_program):
    program = TRAIN + "\nif _core.own_rank() == 1: raise KeyError('mine')\nstep(x, y); step(x, y)\n"
    done = run_program(program, ranks=2, status=1)
    assert "rank 1:" in done.stderr and "KeyError: 'mine'" in done.stderr

"""`fit`: the loop of the command for steps of one's own."""

import json
import os
import signal
import subprocess
import sys

import numpy
import pytest

import shardwright as sw

generator = numpy.random.default_rng(3)
images = generator.normal(size=(40, 6)).astype(numpy.float32)
labels = generator.integers(0, 3, 40).astype(numpy.int32)
net = "ffn:batch=8,widths=6-5-3"


class Net:
    def __init__(self):
        self.dense1, self.dense2 = sw.nn.Dense(6, 5), sw.nn.Dense(5, 3)

    def __call__(self, x):
        return self.dense2(sw.ops.relu(self.dense1(x)))


def loss(net, x, label):
    return sw.ops.cross_entropy(net(x), label)


def step_of(devices=2):
    sw.set_seed(1)
    return sw.train_step(loss, Net(), sw.optim.momentum(0.1, 0.9), devices=devices)


def batch(number):
    rows = slice(number % 5 * 8, number % 5 * 8 + 8)
    return images[rows], labels[rows]


def by_hand(count):
    step = step_of()
    return [float(step(*batch(i))) for i in range(count)]


def test_the_losses_are_those_of_a_loop_by_hand_whatever_gives_the_batches():
    whole = by_hand(7)
    assert sw.fit(step_of(), batch, steps=7).losses == whole
    assert sw.fit(step_of(), [batch(i) for i in range(5)], steps=7).losses == whole
    data = sw.data.arrays(x=images, label=labels).batch(8)
    fitted = sw.fit(step_of(), data, steps=7)
    assert fitted.losses == whole and fitted.by == "steps" and fitted.steps == 7
    other_names = sw.data.arrays(image=images, target=labels).batch(8)
    assert sw.fit(step_of(), other_names, steps=7).losses == whole


def test_a_named_model_has_the_losses_of_the_command(tmp_path):
    path = str(tmp_path / "data.safetensors")
    batches = [batch(i) for i in range(5)]
    sw.save_safetensors(path, {"input": numpy.stack([b[0] for b in batches]),
                               "label": numpy.stack([b[1] for b in batches])})
    program = subprocess.run([sys.executable, "-m", "shardwright", "train", net, "--devices", "2", "--data", path, "--optimizer",
                              "momentum", "--lr", "0.1", "--momentum", "0.9", "--lr-schedule", "cosine", "--warmup", "2",
                              "--steps", "7", "--json"], capture_output=True, text=True, check=True)
    told = [line for line in map(json.loads, program.stdout.splitlines()) if "step" in line]
    rates = []
    fitted = sw.fit(sw.model_step(net, sw.optim.momentum(0.1, 0.9), devices=2),
                    lambda i: dict(zip(("input", "label"), batch(i))), steps=7, lr_schedule="cosine", warmup="2",
                    on_event=lambda e: rates.append(e["lr"]) if e["kind"] == "step" else None)
    assert len(told) == 7
    assert fitted.losses == pytest.approx([line["loss"] for line in told], rel=1e-6)
    assert rates == pytest.approx([line["lr"] for line in told])


def test_it_ends_where_it_is_asked_to_and_goes_on_in_another_process_or_here(tmp_path):
    whole, run = by_hand(7), str(tmp_path / "run")
    step = step_of()
    first = sw.fit(step, batch, steps=7, save=run, on_event=lambda e: e["kind"] == "step" and e["step"] == 2)
    assert (first.by, first.steps, step.steps_done) == ("request", 3, 3)
    other = step_of(devices=4)
    rest = sw.fit(other, batch, steps=7, save=run, resume="auto")
    assert (rest.first, rest.steps, other.steps_done) == (3, 7, 7)
    assert first.losses + rest.losses == pytest.approx(whole, rel=1e-5)
    assert sw.fit(step_of(), batch, steps=7, save=run, resume="auto").by == "none_left"
    here = sw.fit(step, batch, steps=7)
    assert here.first == 3 and first.losses + here.losses == whole


def test_parameters_are_the_steps_own_afterwards():
    step = step_of()
    before = step.params.dense1.weight.numpy().copy()
    sw.fit(step, batch, steps=3)
    after = step.params.dense1.weight.numpy()
    assert not numpy.array_equal(before, after)
    assert float(step(*batch(3))) == by_hand(4)[3]


def test_it_starts_with_the_weights_of_a_file(tmp_path):
    trained = step_of()
    sw.fit(trained, batch, steps=3)
    path = str(tmp_path / "weights.safetensors")
    sw.save_safetensors(path, {p.name: p.numpy() for p in trained.parameters})
    sw.set_seed(2)
    step = sw.train_step(loss, Net(), sw.optim.sgd(0.0), devices=2)
    fitted = sw.fit(step, batch, steps=1, init=path)
    assert fitted.losses[0] == pytest.approx(float(trained(*batch(0))), rel=1e-6)
    assert step.params.dense1.weight.numpy() == pytest.approx(sw.load_safetensors(path)["dense1.weight"].numpy())


def test_held_out_data_say_what_is_saved_as_the_best(tmp_path):
    run, said = tmp_path / "run", [3.0, 1.0, 2.0]
    fitted = sw.fit(step_of(), batch, steps=3, save=str(run), eval_every=1, keep_best="loss",
                    evaluate=lambda steps: {"loss": said[steps - 1], "accuracy": 0.5})
    assert [e["loss"] for e in fitted.evaluated] == said and fitted.evaluated[0]["accuracy"] == 0.5
    assert json.loads((run / "best" / "manifest.json").read_text())["run"]["step"] == 2


def test_what_contradicts_itself_is_told_in_the_words_of_code():
    def said(**options):
        with pytest.raises(ValueError) as wrong:
            sw.fit(step_of(), batch, **options)
        return str(wrong.value)

    assert said(save_every=3) == "save_every says how to save; give save, too"
    assert said(keep_best="loss") == "keep_best loss: give evaluate, too"
    assert said(resume="auto") == "resume auto goes on from the folder of save; give that"
    assert "lr_schedule" in said(lr_schedule="sine") or "sine" in said(lr_schedule="sine")
    with pytest.raises(ValueError, match="batch of step 1 is of another kind"):
        sw.fit(step_of(), lambda i: (images[:8 - i], labels[:8 - i]))
    with pytest.raises(TypeError, match="label"):
        sw.fit(step_of(), sw.data.arrays(label=labels, x=images).rename(x="y").batch(8))
    with pytest.raises(TypeError, match="evaluate returned None; it should be a loss"):
        sw.fit(step_of(), batch, steps=1, evaluate=lambda steps: None)
    with pytest.raises(ValueError, match="evaluate returned 'acc'; there are loss, accuracy"):
        sw.fit(step_of(), batch, steps=1, evaluate=lambda steps: {"acc": 1})
    with pytest.raises(TypeError, match="steps='3' should be a whole number"):
        sw.fit(step_of(), batch, steps="3")
    with pytest.raises(TypeError, match="on_event should be a function, not 3"):
        sw.fit(step_of(), batch, on_event=3)
    with pytest.raises(TypeError, match="train_step or model_step"):
        sw.fit(loss, batch)


def test_what_a_function_raises_is_raised_and_the_step_lives_on():
    step = step_of()

    def breaks(event):
        if event["kind"] == "step" and event["step"] == 1:
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        sw.fit(step, batch, steps=5, on_event=breaks)
    assert step.steps_done == 2
    with pytest.raises(ValueError, match="the label of row 0 is"):  # ranks fail, and start again with what they had
        sw.fit(step, lambda i: (images[:8], labels[:8] + 9), steps=5)
    assert sw.fit(step, batch, steps=5).losses == by_hand(5)[2:]


def test_ctrl_c_lets_the_step_end_and_saves(tmp_path):
    run = str(tmp_path / "run")
    step = step_of()

    def interrupts(event):
        if event["kind"] == "step" and event["step"] == 1:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        sw.fit(step, batch, steps=5, save=run, on_event=interrupts)
    assert json.loads((tmp_path / "run" / "latest" / "manifest.json").read_text())["run"]["step"] == 2
    assert sw.fit(step_of(), batch, steps=5, save=run, resume="auto").losses == by_hand(5)[2:]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_processes_train_alike_and_end_behind_the_same_step(run_program, tmp_path):
    out = run_program(f"""
import numpy as np
import shardwright as sw
from shardwright import _core
rank = _core.own_rank()
x = np.linspace(-1, 1, 48, dtype=np.float32).reshape(8, 6)
y = np.arange(8, dtype=np.int32) % 3
step = sw.model_step("{net}", sw.optim.momentum(0.1, 0.9), devices=2)
ends = lambda e: rank == 1 and e["kind"] == "step" and e["step"] == 2  # one of them asks
first = sw.fit(step, lambda i: (x, y), steps=5, save="{tmp_path}/run", lr_schedule="cosine", on_event=ends)
rest = sw.fit(step, lambda i: (x, y), steps=5, save="{tmp_path}/run", resume="auto", lr_schedule="cosine")
print(rank, first.by, first.steps, rest.first, rest.steps, *("%.5f" % l for l in first.losses + rest.losses))
""", ranks=2)
    x = numpy.linspace(-1, 1, 48, dtype=numpy.float32).reshape(8, 6)
    y = numpy.arange(8, dtype=numpy.int32) % 3
    whole = sw.fit(sw.model_step(net, sw.optim.momentum(0.1, 0.9), devices=2), lambda i: (x, y), steps=5, lr_schedule="cosine")
    said = " ".join(["request 3 3 5", *("%.5f" % value for value in whole.losses)])
    assert sorted(out.splitlines()) == [f"0 {said}", f"1 {said}"]

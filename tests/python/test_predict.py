"""Named models that are only asked: by a checkpoint, or by what a step has trained."""

import json
import subprocess

import numpy
import pytest
from mindspore_fixtures import build

import shardwright as sw

model = "resnet18:image=16"


def batch(seed=0):
    rng = numpy.random.default_rng(seed)
    return {"input": rng.random((8, 3, 16, 16), numpy.float32), "label": rng.integers(0, 10, 8).astype(numpy.int32)}


def test_predictions_follow_training_and_checkpoints(tmp_path):
    step = sw.model_step(model, sw.optim.momentum(0.05), devices=2, global_batch=8)
    ask = sw.predict_step(model, devices=4, with_loss=True, global_batch=8)
    fresh = ask(**batch())[0].item()
    for seed in range(3):
        step(**batch(seed))
    ask.take_weights(step)
    loss, scores = ask(**batch())
    assert scores.shape[0] == 8 and loss.item() != fresh
    step.save(str(tmp_path / "run"))
    step.wait()
    again = sw.predict_step(model, global_batch=8)
    assert list(again.inputs) == ["input"]
    again.load(str(tmp_path / "run"))
    numpy.testing.assert_allclose(again(input=batch()["input"]).numpy(), scores.numpy(), rtol=1e-4, atol=1e-5)
    # What the command says of the same weights and data.
    file = str(tmp_path / "data.safetensors")
    sw.save_safetensors(file, batch())
    told = subprocess.run([build / "shardwright", "infer", model, "--checkpoint", tmp_path / "run", "--data", file, "--global-batch",
                           "8", "--json"],
                          capture_output=True, text=True, check=True).stdout
    assert json.loads(told.splitlines()[-1])["loss"] == pytest.approx(loss.item(), rel=1e-4)


def test_what_is_wrong_is_told():
    ask = sw.predict_step("ffn", global_batch=4)
    with pytest.raises(TypeError, match="the model takes input, not label"):
        ask(label=numpy.zeros(4, numpy.int32))
    with pytest.raises(OSError, match="nowhere"):
        ask.load("/nowhere")
    with pytest.raises(ValueError, match="there is no option 'device'"):
        sw.predict_step("ffn", device=4)

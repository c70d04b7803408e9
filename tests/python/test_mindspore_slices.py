"""Ranks that save their slices, and go on from them: under the same strategy, or another, or with a network of its own."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from mindspore_fixtures import environment

import mindspore as ms
from mindspore.train import files

programs = Path(__file__).parent / "rank_programs"
full = pytest.mark.skipif(os.environ.get("SHARDWRIGHT_FULL") != "1", reason="a part of the grid that --full runs")
pytestmark = pytest.mark.skipif(not shutil.which("mpirun"), reason="mpirun is not here")


@pytest.fixture
def mpirun(tmp_path):
    """Runs words of Python as so many ranks in a folder of the test; the losses that each prints."""
    def run(ranks, *words):
        log = tmp_path / "log"
        done = subprocess.run(["mpirun", "-n", str(ranks), "--output-filename", log, sys.executable, *map(str, words)], cwd=tmp_path,
                              env={**os.environ, **environment}, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr[-3000:]
        printed = [(log / "1" / f"rank.{r}" / "stdout").read_text() for r in range(ranks)]
        shutil.rmtree(log)
        return [[float(loss) for loss in re.findall(r"loss is (\S+)", text)] for text in printed]

    return run


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_restart_goes_on_from_the_slices_of_each_rank(optimizer, mpirun, tmp_path):
    program = programs / "s19_fault_recovery.py", "--optimizer", optimizer
    whole = mpirun(4, *program, "--epochs", 4)
    shutil.rmtree(tmp_path / "checkpoints")
    first = mpirun(4, *program, "--epochs", 2)
    rest = mpirun(4, *program, "--epochs", 2, "--is_recover", 1)
    for expected, one, other in zip(whole, first, rest):
        assert len(expected) == 12 and one + other == expected
    saved = tmp_path / "checkpoints" / "rank_3"
    assert sorted(p.name for p in saved.iterdir()) == ["checkpoint-2_3.ckpt", "checkpoint-graph.meta", "checkpoint_1-2_3.ckpt",
                                                       "checkpoint_1-graph.meta"]
    assert all(p.stat().st_mode & 0o777 == 0o400 for p in saved.iterdir())
    assert files.read(saved / "checkpoint-2_3.ckpt")["fc1_weight"].bits.size < 16 * 32


@pytest.mark.parametrize("source, from_ranks, target, to_ranks", [
    ("rows", 4, "optimizer", 2), ("stages", 4, "columns", 2), ("optimizer", 2, "stages", 4),
    *(pytest.param(*p, marks=full) for p in [("rows", 8, "columns", 8), ("optimizer", 8, "rows", 4), ("stages", 8, "optimizer", 8),
                                             ("columns", 4, "stages", 8)])])
def test_training_goes_on_under_another_strategy(source, from_ranks, target, to_ranks, mpirun, tmp_path):
    program = programs / "s20_transform.py"
    expected = mpirun(1, program, "--how", "rows", "--epochs", 4)[0]
    first = mpirun(from_ranks, program, "--how", source, "--out", "a")
    mpirun(to_ranks, program, "--how", target, "--epochs", 0, "--out", "b")
    strategies = [str(tmp_path / f"{side}.ckpt") for side in "ab"]
    for side, joined in zip("ab", strategies):
        ms.merge_pipeline_strategys(str(tmp_path / side / "strategies"), joined)
    ms.transform_checkpoints(str(tmp_path / "a" / "slices"), str(tmp_path / "c"), "new", *strategies)
    rest = mpirun(to_ranks, program, "--how", target, "--load", "c")
    np.testing.assert_allclose(first[-1] + rest[-1], expected, rtol=2e-6)


def test_inference_from_the_slices_of_training(mpirun, tmp_path):
    program = programs / "s24_train_then_infer.py"
    for step in ("test_train", "test_inference"):
        mpirun(4, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"{program}::{step}")
    strategy = ms.build_searched_strategy(str(tmp_path / "train_strategy.ckpt"))
    slices = [ms.load_checkpoint(str(tmp_path / f"rank_{r}_ckpt" / "parallel-2_2.ckpt"))["matmul_weight"] for r in range(4)]
    weight = ms.merge_sliced_parameter(slices, strategy).asnumpy()
    assert slices[0].shape == (96, 8) and weight.shape == (96, 16)
    assert not np.allclose(weight, np.linspace(-1, 1, 96 * 16, dtype=np.float32).reshape(96, 16))  # it has been trained
    expected = -np.random.RandomState(5).randn(128, 96).astype(np.float32) @ weight
    for rank in range(4):
        np.testing.assert_allclose(np.load(tmp_path / f"result_{rank}.npy"), expected, rtol=1e-4, atol=1e-4)

"""The programs of the documents in which users asked for this, as they stand there; 001_layouts has the two imports that
its blocks lack. What splits them changes no loss."""

import re
from pathlib import Path

import numpy
import pytest
from mindspore_fixtures import digits, run_as_ranks, run_on, settings, virtual_devices  # noqa: F401

seeds = Path(__file__).parent / "seeds"


def losses(lines):
    found = [re.fullmatch(r"epoch: (\d+), step: \d+, loss is (\S+)", line) for line in lines]
    assert all(found) and [int(m[1]) for m in found if "step: 0," in m[0]] == list(range(10)), lines
    return [float(m[2]) for m in found]


@pytest.mark.parametrize("name", ["000_propagation", "000_recursive", "001_layouts"])
def test_eight_devices_have_the_losses_of_one_without_splits(name, run_on, tmp_path):
    text = (seeds / f"{name}.py").read_text()
    whole = tmp_path / "whole.py"
    whole.write_text("".join(line for line in text.splitlines(True) if ".shard(" not in line))
    assert losses(run_on(8, seeds / f"{name}.py")) == pytest.approx(losses(run_on(1, whole)), rel=1e-5)


def test_losses_fall(run_on, monkeypatch):
    all_losses = losses(run_on(8, seeds / "000_recursive.py"))
    assert sum(all_losses[5:]) < sum(all_losses[:5]) / 1.1  # each is of one batch, and labels differ between batches
    monkeypatch.setenv("SHARDWRIGHT_GRADIENTS", "described")  # as the lines in the document were printed
    first, *_, last = losses(run_on(8, seeds / "001_layouts.py"))
    assert last < first / 2


def test_ranks_print_what_one_process_does(run_on, run_as_ranks):
    path = seeds / "000_recursive.py"
    want = losses(run_on(2, path))
    for lines in run_as_ranks(2, path):
        assert losses(lines) == pytest.approx(want, rel=1e-5)


def test_annotations_for_eight_devices_say_so_on_fewer(run_on):
    with pytest.raises(AssertionError, match="8"):
        run_on(2, seeds / "000_propagation.py")


def test_a_product_that_is_laid_out_has_the_same_values(virtual_devices):
    import mindspore as ms

    virtual_devices(8)
    scope = {}
    exec((seeds / "001_matmul.py").read_text(), scope)
    x, w = numpy.arange(64.0, dtype=numpy.float32).reshape(8, 8), numpy.eye(8, dtype=numpy.float32)
    assert numpy.array_equal(scope["DenseMatMulNet"]()(ms.Tensor(x), ms.Tensor(w)).asnumpy(), x)

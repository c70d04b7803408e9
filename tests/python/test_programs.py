"""Programs as they are written for MindSpore: on several virtual devices they print what they print on one."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
from mindspore_fixtures import digits, environment, run_as_ranks, run_on  # noqa: F401

programs = sorted(Path(__file__).parent.glob("programs/s*.py"))
number = re.compile(r"-?\d+(?:\.\d*)?(?:e[+-]?\d+)?")


def numbers_and_text(lines):
    text = "\n".join(lines)
    return [float(n) for n in number.findall(text)], "".join(number.sub("#", text).split())


@pytest.mark.parametrize("devices", [2, 8])
@pytest.mark.parametrize("program", programs, ids=lambda p: p.stem)
def test_prints_what_one_device_does(program, devices, run_on):
    expected, expected_text = numbers_and_text(run_on(1, program))
    found, found_text = numbers_and_text(run_on(devices, program))
    assert found_text == expected_text
    assert len(expected) > 0
    numpy.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


# A sample of programs as ranks, which start slowly; with SHARDWRIGHT_FULL each on 2, 4 and 8 of them.
as_ranks = [(2, "s01_operator_parallel"), (2, "s04_recursive"), (2, "s08_gradient_accumulation"), (4, "s10_pipeline"),
            (4, "s10_interleaved"), (4, "s11_pipeline_inference"), (4, "s12_mix"), (2, "s16_functional_sharding"), (2, "s21_auto_parallel")]
if os.environ.get("SHARDWRIGHT_FULL"):
    as_ranks = [(ranks, program.stem) for program in programs for ranks in (2, 4, 8)]
in_two_stages = ["s10_interleaved", "s10_pipeline", "s12_mix", "s25_pipeline"]


@pytest.mark.parametrize("ranks, program", as_ranks)
def test_ranks_print_what_one_device_does(ranks, program, run_on, run_as_ranks):
    path = Path(__file__).parent / "programs" / f"{program}.py"
    expected, expected_text = numbers_and_text(run_on(1, path))
    before_last_stage = ranks // 2 if program in in_two_stages else 0
    for rank, lines in enumerate(run_as_ranks(ranks, path)):
        found, found_text = numbers_and_text(lines)
        assert found_text == expected_text
        if rank < before_last_stage:  # it has no loss
            losses = [line.split()[-1] for line in lines if "loss is" in line]
            assert losses and set(losses) == {"0.0"}
            continue
        numpy.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def test_names_and_numbers_of_nested_cells(run_on):
    lines = run_on(2, Path(__file__).parent / "programs" / "s07_fusion_numbers.py")
    numbers = {"head_layer.dense1": 0, "head_layer.dense2": 3, "tail_layer.dense1": 1, "tail_layer.dense2": 1}
    assert lines[:8] == [f"The parameter {cell}.{name}'s fusion id is {number}"
                         for cell, number in numbers.items() for name in ("weight", "bias")]


of_processes = ["s05_data_parallel", "s05_model", "s14_dataset_slice", "s15_host_device", "s18_by_hand",
                "s25_data_parallel", "s25_dataset_slice", "s26_placement"]


@pytest.mark.parametrize("program", of_processes)
@pytest.mark.parametrize("ranks", [2, 4, 8] if os.environ.get("SHARDWRIGHT_FULL") else [2])
def test_ranks_that_read_their_own_train_the_same_network(ranks, program, run_on, run_as_ranks):
    path = Path(__file__).parent / "rank_programs" / f"{program}.py"
    expected, _ = numbers_and_text(run_on(1, path)[-1:])
    for lines in run_as_ranks(ranks, path):
        numpy.testing.assert_allclose(numbers_and_text(lines[-1:])[0], expected, rtol=1e-4)


def test_an_installed_mindspore_is_not_shadowed(tmp_path):
    (tmp_path / "site" / "mindspore").mkdir(parents=True)
    (tmp_path / "site" / "mindspore" / "__init__.py").write_text("__version__ = '9.9'")
    program = tmp_path / "program.py"
    program.write_text("import sys, mindspore\nprint(mindspore.__version__, sys.argv[1:], __name__)")
    for more, version, told in (("", "2.4.1+shardwright", ""), (tmp_path / "site", "9.9", "that is installed runs it")):
        path = os.pathsep.join([environment["PYTHONPATH"], str(more)]) if more else environment["PYTHONPATH"]
        done = subprocess.run([sys.executable, "-m", "shardwright.run", program, "--devices", "2", "--epochs", "3"],
                              env={**os.environ, **environment, "PYTHONPATH": path}, capture_output=True, text=True, timeout=60)
        assert done.stdout.strip() == f"{version} ['--epochs', '3'] __main__"
        assert told in done.stderr

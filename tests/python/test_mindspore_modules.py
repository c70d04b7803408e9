"""Modules and names that are found in more than one place."""

import importlib
import subprocess
import sys

import pytest
from mindspore_fixtures import environment

import mindspore as ms
from mindspore import nn, ops


@pytest.mark.parametrize("module, name, same", [
    ("mindspore.common", "set_seed", ms.set_seed), ("mindspore.common.seed", "set_seed", ms.set_seed),
    ("mindspore.common", "lazy_inline", ms.lazy_inline), ("mindspore.common.lazy_inline", "lazy_inline", ms.lazy_inline),
    ("mindspore.common.api", "jit", ms.jit), ("mindspore.common.parameter", "Parameter", ms.Parameter),
    ("mindspore.nn.layer", "Dense", nn.Dense), ("mindspore.nn.layer.conv", "Conv2d", nn.Conv2d),
    ("mindspore.nn.wrap.grad_reducer", "DistributedGradReducer", nn.DistributedGradReducer),
    ("mindspore.ops.operations.comm_ops", "AllReduce", ops.AllReduce),
    ("mindspore.ops.function.math_func", "matmul", ops.matmul),
    ("mindspore.dataset.vision.c_transforms", "Resize", ms.dataset.vision.Resize),
    ("mindspore.dataset.transforms.c_transforms", "TypeCast", ms.dataset.transforms.TypeCast),
    ("mindspore.parallel.algo_parameter_config", "set_algo_parameters", ms.set_algo_parameters),
    ("mindspore.train.amp", "auto_mixed_precision", ms.amp.auto_mixed_precision)])
def test_a_name_in_another_place_is_the_same(module, name, same):
    assert getattr(importlib.import_module(module), name) is same
    assert sys.modules[module].__name__ == module


def test_a_module_does_not_hide_a_function_of_its_name():
    import mindspore.common.lazy_inline  # noqa: F401
    import mindspore.nn.layer.basic as basic
    from mindspore.common import lazy_inline

    assert lazy_inline is ms.lazy_inline
    assert basic.Dense is ms.nn.layer.basic.Dense is nn.Dense


@pytest.mark.parametrize("module, message", [
    ("mindspore.scipy", "'mindspore.scipy' is not in this front end; mindspore has amp, common, communication, context, "),
    ("mindspore.nn.layer.basics", "did you mean 'basic'.; mindspore.nn.layer has activation, basic, co"),
    ("mindspore.nn.utils.init", "'mindspore.nn.utils.init' is not in this front end; mindspore.nn.utils has no modules in it"),
    ("mindspore.ops.nothing.such", "'mindspore.ops.nothing' is not in this front end; mindspore.ops has .*auto_generate, ")])
def test_a_module_that_is_not_there_is_told(module, message):
    with pytest.raises(ModuleNotFoundError, match=message) as told:
        importlib.import_module(module)
    assert "\n" not in str(told.value)


def test_a_name_that_another_place_has_not_is_told_of_that_place():
    with pytest.raises(ImportError, match="'mindspore.nn.layer.basic.Dens' is not in this front end; did you mean 'Dense'"):
        from mindspore.nn.layer.basic import Dens  # noqa: F401
    with pytest.raises(ImportError, match="'mindspore.common.api._executor' is not in this front end; there are jit, ms_f"):
        from mindspore.common.api import _executor  # noqa: F401


@pytest.mark.parametrize("level, shown", [(None, "WARNING ERROR"), ("0", "DEBUG INFO WARNING ERROR"), ("3", "ERROR")])
def test_lines_of_a_program_are_shown_from_a_level_on(level, shown, tmp_path):
    program = tmp_path / "program.py"
    program.write_text("from mindspore import log as logger\n" + "".join(
        f"logger.{kind}('%s of %d', '{kind}', 3)\n" for kind in ("debug", "info", "warning", "error")))
    done = subprocess.run([sys.executable, program], env={**environment, **({"GLOG_v": level} if level else {})},
                          capture_output=True, text=True, check=True, timeout=60)
    lines = done.stderr.splitlines()
    assert [line[1:line.index("]")] for line in lines] == shown.split()
    assert all(line.endswith(f"] {kind.lower()} of 3") for line, kind in zip(lines, shown.split()))


def test_a_level_that_is_none_is_told(tmp_path):
    done = subprocess.run([sys.executable, "-c", "import mindspore"], env={**environment, "GLOG_v": "warn"},
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "ValueError: GLOG_v is 'warn': it is a level from 0 (debug) to 4 (critical)"


def test_newer_names():
    x, y = (ms.Tensor(values, ms.int32) for values in ([1, 2, 3], [1, 2, 4]))
    assert ms.mint.equal(x, x) is True and ms.mint.equal(x, y) is False and ms.mint.equal(x, y[:2]) is False
    assert ms.mint.eq(x, y).asnumpy().tolist() == [True, True, False]
    assert ms.jit(lambda a, b: ms.mint.equal(a, b))(x, y).item() is False
    from mindspore.mint.distributed.distributed import barrier, get_rank, get_world_size, init_process_group

    init_process_group()
    barrier()
    assert (get_rank(), get_world_size()) == (0, 1)
    with pytest.raises(ValueError, match="world_size is 3, but 1 as mpirun has started the processes"):
        init_process_group(world_size=3)
    with pytest.raises(ValueError, match="init_method is not in this front end"):
        init_process_group(init_method="tcp://host:1")

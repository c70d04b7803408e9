"""What names of MindSpore mean: tensors, names of parameters, initial values, settings, strategies, data sets."""

import math

import numpy as np
import pytest
from mindspore_fixtures import digits, settings, virtual_devices  # noqa: F401

import mindspore as ms
import mindspore.dataset as ds
from mindspore import Layout, Parameter, Tensor, nn, ops
from mindspore.common.initializer import HeUniform, Uniform, XavierUniform, initializer

pytestmark = pytest.mark.usefixtures("settings")


# ---- tensors ----

@pytest.mark.parametrize("data, dtype", [
    (1.0, "Float32"), ([1, 2], "Int64"), (1, "Int64"), ([1.0, 2.0], "Float32"), (np.zeros(2), "Float64"),
    (np.zeros(2, np.float32), "Float32"), (True, "Bool"), (np.zeros(2, np.uint8), "UInt8")])
def test_type_of_a_tensor(data, dtype):
    assert str(Tensor(data).dtype) == dtype


def test_dtype_converts():
    assert Tensor([1, 2], ms.float32).dtype is ms.float32
    assert Tensor(Tensor([1.5]), ms.int32).asnumpy().tolist() == [1]


def test_types_of_arithmetic():
    whole, single, double = Tensor([1, 2], ms.int32), Tensor([1.0, 2.0]), Tensor(np.ones(2))
    assert (whole + 1).dtype is ms.int32
    assert (whole + 1.5).dtype is ms.float32
    assert (single * 2).dtype is ms.float32
    assert (whole + single).dtype is ms.float32
    assert (single + double).dtype is ms.float64
    assert (whole / 2).asnumpy().tolist() == [0.5, 1.0]
    assert (3 - whole).asnumpy().tolist() == [2, 1]
    assert (whole > 1).asnumpy().tolist() == [False, True]


def test_text_of_tensors():
    assert str(Tensor(2.3016002)) == "2.3016002"
    assert "%s" % Tensor([1, 2]) == "[1 2]"
    assert repr(Tensor([1.0, -2.0])) == "Tensor(shape=[2], dtype=Float32, value= [ 1.00000000e+00, -2.00000000e+00])"
    assert repr(Tensor([[1, 2]])) == "Tensor(shape=[1, 2], dtype=Int64, value=\n[[1, 2]])"
    assert f"{Tensor(1.25):.1f}" == "1.2"


def test_parts_of_tensors():
    values = np.arange(24).reshape(2, 3, 4)
    t = Tensor(values)
    for index in (0, -1, (1, 2), (slice(None), 1), (Ellipsis, 2), (slice(0, 1), slice(1, None, 2)), (None, 1)):
        assert (t[index].asnumpy() == values[index]).all()
    t[0, 1] = 7
    assert (t.asnumpy()[0, 1] == 7).all()


def test_methods_of_tensors():
    t = Tensor(np.arange(6).reshape(2, 3), ms.float32)
    assert t.sum().item() == 15 and t.mean(1).asnumpy().tolist() == [1, 4]
    assert t.max().item() == 5 and t.argmax(1).asnumpy().tolist() == [2, 2]
    assert t.reshape(3, -1).shape == (3, 2) and t.T.shape == (3, 2) and t.transpose((1, 0)).shape == (3, 2)
    assert t.astype(ms.int32).dtype is ms.int32
    assert float(Tensor(2.5)) == 2.5 and int(Tensor(2)) == 2 and bool(Tensor(True))
    with pytest.raises(ValueError, match="ambiguous"):
        bool(t)
    t.asnumpy()[0, 0] = 9
    assert t[0, 0].item() == 0


def test_a_type_that_tensors_do_not_have():
    with pytest.raises(TypeError, match="complex64"):
        Tensor([1], np.complex64)


def test_a_tensor_that_only_tells_of_shapes():
    shown = Tensor(shape=[None, ms.Symbol(divisor=8)], dtype=ms.float32)
    assert shown.dtype is ms.float32 and shown.shape[0] is None
    with pytest.raises(ValueError, match="set_inputs"):
        shown.asnumpy()


# ---- names ----

class Inner(nn.Cell):
    def __init__(self):
        super().__init__()
        self.weight = Parameter(Tensor([1.0]))
        self.own = Parameter(Tensor([1.0]), name="given")


class Outer(nn.Cell):
    def __init__(self):
        super().__init__()
        self.a = Inner()
        self.b = nn.SequentialCell(nn.Dense(2, 3), nn.ReLU(), nn.Dense(3, 1))
        self.scale = Parameter(Tensor(2.0), requires_grad=False)
        self.later = None
        self.later = nn.Dense(1, 1, has_bias=False)


def test_names_grow_from_inside_out():
    net = Outer()
    assert [p.name for p in net.trainable_params()] == [
        "a.weight", "a.own", "b.0.weight", "b.0.bias", "b.2.weight", "b.2.bias", "later.weight"]
    assert list(net.parameters_dict())[0] == "scale"
    wrapped = nn.WithLossCell(net, nn.MSELoss())
    assert [p.name for p in wrapped.trainable_params()] == [p.name for p in net.trainable_params()]
    assert [n for n, _ in wrapped.cells_and_names()][:3] == ["", "_backbone", "_backbone.a"]


def test_a_shared_cell_is_named_once():
    class Twice(nn.Cell):
        def __init__(self):
            super().__init__()
            self.one = nn.Dense(2, 2)
            self.two = self.one

    assert len(Twice().trainable_params()) == 2


def test_two_parameters_of_one_name():
    class Same(nn.Cell):
        def __init__(self):
            super().__init__()
            self.a = Parameter(Tensor(1.0), name="w")
            self.b = Parameter(Tensor(1.0), name="w")

    with pytest.raises(ValueError, match="'w': a and b"):
        Same().trainable_params()


def test_text_of_a_parameter():
    p = Parameter(initializer("normal", [784, 512], ms.float32), name="fc1_weight")
    assert str(p) == "Parameter (name=fc1_weight, shape=(784, 512), dtype=Float32, requires_grad=True)"
    assert p.comm_fusion == 1


def test_assigning_to_a_parameter():
    net = Inner()
    net.weight = Tensor([3.0])
    assert net.weight.asnumpy().tolist() == [3.0] and isinstance(net.weight, Parameter)
    with pytest.raises(TypeError, match="weight"):
        net.weight = 3.0
    with pytest.raises(ValueError, match="shape"):
        net.weight.set_data(Tensor([1.0, 2.0]))


def test_attributes_before_init():
    class Late(nn.Cell):
        def __init__(self):
            self.dense = nn.Dense(2, 2)
            super(Late, self).__init__()

    assert [p.name for p in Late().trainable_params()] == ["dense.weight", "dense.bias"]


def test_pipeline_stage_is_a_number_from_0_on():
    net = Inner()
    with pytest.raises(TypeError):
        net.pipeline_stage = "0"
    with pytest.raises(ValueError):
        net.pipeline_stage = -1
    with pytest.raises(KeyError, match="_backbone.a"):
        nn.PipelineCell(nn.WithLossCell(Outer(), nn.MSELoss()), 2, {"_backbone.c": 0})


# ---- initial values ----

@pytest.mark.parametrize("init, bound", [
    (Uniform(0.5), 0.5), (HeUniform(math.sqrt(5)), 1 / math.sqrt(512)), (XavierUniform(), math.sqrt(6 / (512 + 784)))])
def test_bounds_of_initial_values(init, bound):
    values = Parameter(initializer(init, [784, 512]), name="w").asnumpy()
    assert 0.99 * bound < abs(values).max() <= bound


def test_initial_values_depend_on_seed_and_name_alone():
    def start(name, init="normal"):
        return Parameter(initializer(init, [64, 32]), name=name).asnumpy()

    assert (start("a") == start("a")).all() and (start("a") != start("b")).any()
    assert abs(start("a").std() - 0.01) < 1e-3
    assert (start("a", "TruncatedNormal") == start("a", "TruncatedNormal")).all()
    before = start("a")
    ms.set_seed(2)
    assert (start("a") != before).any()


def test_a_value_that_was_looked_at_stays():
    dense = nn.Dense(4, 4)
    shown = dense.weight.asnumpy()
    holder = nn.SequentialCell(dense)
    assert dense.weight.name == "0.weight" and (dense.weight.asnumpy() == shown).all()
    assert holder(Tensor(np.ones((2, 4)), ms.float32)).shape == (2, 4)


def test_unknown_initializer():
    with pytest.raises(ValueError, match="did you mean 'normal'"):
        initializer("normla", [2])


# ---- settings ----

def test_unknown_settings_are_told_with_near_names():
    with pytest.raises(ValueError, match="did you mean 'parallel_mode'"):
        ms.set_auto_parallel_context(parallel_mod="auto_parallel")
    with pytest.raises(ValueError, match="did you mean 'max_device_memory'"):
        ms.set_context(max_device_memry="1GB")
    with pytest.raises(ValueError, match="did you mean 'semi_auto_parallel'"):
        ms.set_auto_parallel_context(parallel_mode="semi_auto")
    with pytest.raises(ValueError, match="search_mode"):
        ms.set_auto_parallel_context(search_mode="greedy")


def test_settings_are_kept():
    ms.set_auto_parallel_context(device_num=8, full_batch=True)
    assert ms.get_auto_parallel_context("device_num") == 8
    assert ms.get_auto_parallel_context("dataset_strategy") == "full_batch"
    assert ms.ParallelMode.AUTO_PARALLEL == "auto_parallel" == ms.context.ParallelMode.AUTO_PARALLEL


def test_rank_before_init():
    from mindspore.communication import get_rank, init, release

    release()
    with pytest.raises(RuntimeError, match="init"):
        get_rank()
    init("nccl")
    init()
    assert get_rank() == 0


def test_missing_names():
    with pytest.raises(AttributeError, match="'mindspore.ops.MatMull' is not in this front end; did you mean 'MatMul'"):
        ops.MatMull
    assert ms.__version__ == "2.4.1+shardwright"


# ---- splits ----

def test_types_of_strategies():
    with pytest.raises(TypeError):
        ops.MatMul().shard([(1, 2), (2, 1)])
    with pytest.raises(TypeError):
        ops.MatMul().shard(((1, 2.0), (2, 1)))
    with pytest.raises(ValueError, match="in_strategy"):
        ops.MatMul().shard(None, ((1, 1),))
    layout = Layout((2,), ("a",))
    with pytest.raises(TypeError):
        ops.MatMul().shard((layout("a", "None"), (2, 1)))
    assert ops.MatMul().set_strategy([[1, 2], [2, 1]]) is not None


def test_layouts():
    layout = Layout((2, 2, 2), name=("dp", "sp", "mp"))
    assert layout("mp", ("sp", "dp")).to_dict() == {
        "device_matrix": (2, 2, 2), "tensor_map": (0, (1, 2)), "interleaved_parallel": False,
        "alias_name": ("dp", "sp", "mp"), "rank_list": list(range(8))}
    for wrong, error in ((((2, 2), ("a",)), ValueError), (((2,), ("None",)), ValueError), (([2], ("a",)), TypeError)):
        with pytest.raises(error):
            Layout(*wrong)
    with pytest.raises(ValueError, match="is not found"):
        layout("xp", "None")
    with pytest.raises(ValueError, match="more than one"):
        layout("dp", "dp")


@pytest.mark.parametrize("second", [(4, 1), (1, 4)])  # as it is used, and as it is stored
def test_a_transposed_operand_is_read_both_ways(second, virtual_devices):
    virtual_devices(8)
    net = nn.Dense(16, 8)
    net.matmul.shard(((2, 4), second))
    x = np.arange(64).reshape(4, 16) % 5
    expected = x @ net.weight.asnumpy().T + net.bias.asnumpy()
    np.testing.assert_allclose(net(Tensor(x, ms.float32)).asnumpy(), expected, rtol=1e-5)


def test_programs_are_written_where_the_context_says(virtual_devices, tmp_path):
    virtual_devices(2)
    ms.set_context(save_graphs=2, save_graphs_path=str(tmp_path / "graphs"))
    nn.Dense(16, 8)(Tensor(np.ones((4, 16)), ms.float32))
    ms.set_context(save_graphs=False)
    text = (tmp_path / "graphs" / "program_0.txt").read_text()
    assert text.startswith("plan of traced network on 2 devices") and "%matmul = matmul %inputs.x, %weight" in text


def test_too_few_devices_are_told_with_what_would_do(virtual_devices):
    virtual_devices(2)
    net = nn.Dense(16, 8)
    net.matmul.shard(((2, 4), (4, 1)))
    with pytest.raises(ValueError, match="needs 8 devices (.|\n)*--devices 8"):
        net(Tensor(np.ones((4, 16)), ms.float32))


def test_modes_in_which_one_process_cannot_feed_the_others(virtual_devices):
    virtual_devices(8, parallel_mode="data_parallel")

    @ms.jit
    def step(x):
        return x * 2

    with pytest.raises(RuntimeError, match="mpirun -n 8"):
        step(Tensor([1.0]))


# ---- data ----

def pairs(count):
    return ds.NumpySlicesDataset((np.arange(count, dtype=np.float32), np.arange(count) * 2), ["a", "b"], shuffle=False)


def test_batches():
    data = pairs(7).batch(3)
    assert data.get_dataset_size() == 3
    assert [a.asnumpy().tolist() for a, _ in data] == [[0, 1, 2], [3, 4, 5], [6]]
    assert pairs(7).batch(3, drop_remainder=True).get_dataset_size() == 2
    assert next(pairs(4).create_dict_iterator(output_numpy=True).__iter__()) == {"a": 0, "b": 0}


def test_columns():
    data = pairs(4).map(lambda a: (a, a + 1), "a", ["x", "y"]).rename("b", "z")
    assert data.get_col_names() == ["x", "y", "z"]
    assert [[float(v) for v in row] for row in data.project(["z", "x"])][1] == [2, 1]
    with pytest.raises(ValueError, match="no column 'q'"):
        data.map(lambda q: q, "q")


def test_order_of_epochs(digits):
    data = ds.MnistDataset(str(digits) + "/", usage="train")
    epochs = [[int(label) for _, label in data] for _ in range(2)]
    assert epochs[0] != epochs[1] and sorted(epochs[0]) == sorted(epochs[1])
    again = ds.MnistDataset(str(digits), usage="train")
    assert [int(label) for _, label in again] == epochs[0]
    assert ds.MnistDataset(str(digits)).get_dataset_size() == 384
    image, label = next(iter(ds.MnistDataset(str(digits), shuffle=False)))
    assert image.shape == (28, 28, 1) and image.dtype is ms.uint8 and label.shape == ()


def test_shards_and_repeats(digits):
    parts = [ds.MnistDataset(str(digits), usage="test", num_shards=3, shard_id=i, shuffle=False) for i in range(3)]
    assert [p.get_dataset_size() for p in parts] == [22, 22, 22]
    assert pairs(4).repeat(2).get_dataset_size() == 8
    assert sorted(float(a) for a, _ in pairs(9).shuffle(4)) == list(range(9))
    assert [float(a) for a, _ in pairs(9).skip(2).take(3)] == [2, 3, 4]


def test_missing_data_is_told():
    with pytest.raises(ValueError, match="shardwright data digits"):
        ds.MnistDataset(None)


def test_transforms_of_images():
    image = np.arange(2 * 4 * 1, dtype=np.uint8).reshape(2, 4, 1)
    assert ds.vision.HWC2CHW()(image).shape == (1, 2, 4)
    assert [p.shape for p in ds.vision.SlicePatches(1, 4)(image)] == [(2, 1, 1)] * 4
    np.testing.assert_allclose(ds.vision.Normalize((0.5,), (2.0,))(ds.vision.Rescale(0.5, 1)(image))[0, 1], [0.5])
    assert ds.vision.Resize((4, 8))(image).shape == (4, 8, 1)

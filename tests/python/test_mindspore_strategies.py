"""Strategy files: what programs write of how operators and parameters lie, and what they do with it."""

import json

import numpy as np
import pytest
from mindspore_fixtures import settings, virtual_devices  # noqa: F401

import mindspore as ms
from mindspore import Model, Parameter, Tensor, nn, ops
from mindspore.parallel import _strategy_file
from mindspore.parallel._placement import Placement
from mindspore.parallel._strategy_file import Strategy
from mindspore.parallel.auto_parallel import AutoParallel

pytestmark = pytest.mark.usefixtures("settings")


# ---- strategy files ----

def protobuf_messages():
    """The messages as MindSpore declares them, made by Google's library."""
    pytest.importorskip("google.protobuf")
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    proto = descriptor_pb2.FileDescriptorProto(name="strategy.proto", package="s", syntax="proto2")
    kinds = {"uint32": 13, "int32": 5, "int64": 3, "string": 9}

    def message(name, *fields):
        said = proto.message_type.add(name=name)
        for i, (label, kind, field) in enumerate(fields, 1):
            made = said.field.add(name=field, number=i, label={"required": 2, "repeated": 3}[label])
            made.type = kinds.get(kind, 11)
            if kind not in kinds:
                made.type_name = f".s.{kind}"

    message("Dims", ("repeated", "uint32", "dim"))
    message("Map", ("repeated", "int32", "dim"))
    message("Splits", ("required", "uint32", "stage"), ("repeated", "Dims", "strategy"))
    message("Operator", ("required", "string", "name"), ("required", "Splits", "splits"))
    message("Layout", ("repeated", "Dims", "dev_matrix"), ("repeated", "Map", "tensor_map"), ("repeated", "Dims", "shape"),
            ("repeated", "Dims", "offset"), ("required", "int32", "field"), ("required", "int32", "step"),
            ("required", "int32", "size"))
    message("Parameter", ("required", "string", "name"), ("required", "Layout", "layout"))
    message("Strategy", ("required", "uint32", "stage"), ("repeated", "Operator", "operators"), ("repeated", "Parameter", "parameters"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(proto)
    return message_factory.MessageFactory(pool).GetPrototype(pool.FindMessageTypeByName("s.Strategy"))


def test_strategy_files_are_the_messages_that_others_read(tmp_path):
    message = protobuf_messages()()
    layouts = {"w": Placement.of_map([2, 4], [-1, 0]), "v": Placement.of_map([2, 4], [[0, 1]]), "s": Placement.of_map([8], []),
               "u": Placement.of_map([2, 2, 2], [[2, 0], -1])}
    _strategy_file.write(tmp_path / "a.ckpt", Strategy(3, {"matmul": (1, [[2, 1], [1, 4]])}, {n: {0: p} for n, p in layouts.items()}))
    message.ParseFromString((tmp_path / "a.ckpt").read_bytes())
    assert message.stage == 3 and [(o.name, o.splits.stage) for o in message.operators] == [("matmul", 1)]
    assert [list(s.dim) for s in message.operators[0].splits.strategy] == [[2, 1], [1, 4]]
    found = {p.name: ([list(m.dim) for m in p.layout.dev_matrix], [list(m.dim) for m in p.layout.tensor_map])
             for p in message.parameters}
    assert found == {"w": ([[2, 4]], [[-1, 0]]), "v": ([[2, 4]], [[0, 1], []]), "s": ([[8]], [[]]), "u": ([[2, 2, 2]], [[2, 0], [-1]])}
    again = _strategy_file.read(tmp_path / "a.ckpt")
    assert {n: p[0] for n, p in again.layouts.items()} == layouts and again.operators == {"matmul": (1, [[2, 1], [1, 4]])}


@pytest.mark.parametrize("size, map_of_one", [(2, [[0, 1], -1]), (-1, [[0, 1], -1]), (4, [[0, 2, 1], -1])])
def test_shards_of_the_optimizer_in_files_of_others(size, map_of_one, tmp_path):
    """Dim 0 of the slice is cut further, over replicas from the right; the axis of 4 falls into two parts if size is 2."""
    message = protobuf_messages()(stage=0)
    mesh = [2, 2, 2] if size == 4 else [4, 2]
    item = message.parameters.add(name="w")
    item.layout.field, item.layout.step, item.layout.size = 0, 2, size
    item.layout.dev_matrix.add(dim=mesh)
    item.layout.tensor_map.add(dim=[0, -1])
    (tmp_path / "a.ckpt").write_bytes(message.SerializeToString())
    placement = _strategy_file.read(tmp_path / "a.ckpt").layouts["w"][0]
    expected = Placement.of_map([2, 2, 2] if size != -1 else mesh, map_of_one)
    assert [placement.box(d, [16, 3]) for d in range(8)] == [expected.box(d, [16, 3]) for d in range(8)]


def test_files_that_are_joined_say_a_stage_only_if_there_are_several():
    """Names of one stage say none, and a file of stage 1 without would be one that is to be merged yet."""
    def one(stage):
        return Strategy(stage, {f"matmul{stage}": (stage, [[2, 1], [1, 1]])}, {f"w{stage}": {0: Placement.whole(2, 2)}})
    assert _strategy_file.joined([one(0)]).stage == 0
    both = _strategy_file.joined([one(0), one(1)])
    assert both.stage == 1 and both.layouts == {"w0": {0: Placement.whole(2, 2)}, "w1": {1: Placement.whole(2, 2)}}


# ---- of programs ----

class Net(nn.Cell):
    def __init__(self, first=None):
        super().__init__()
        self.w1 = Parameter(Tensor(np.full((16, 8), 0.5), ms.float32))
        self.w2 = Parameter(Tensor(np.full((8, 16), 0.5), ms.float32))
        self.matmul1, self.relu, self.matmul2 = ops.MatMul(), ops.ReLU(), ops.MatMul()
        if first:
            self.matmul1.shard(*first)

    def construct(self, x):
        return self.matmul2(self.relu(self.matmul1(x, self.w1)), self.w2)


layout = ms.Layout((2, 2, 2), ("a", "b", "c"))
by_axes = (layout("None", ("c", "a")), layout(("c", "a"), "b"))
x = Tensor(np.ones((8, 16)), ms.float32)


def compiled(net):
    ms.Model(net).infer_predict_layout(x)
    return ms.Model(net).infer_predict_layout(x)


@pytest.mark.parametrize("end", ["ckpt", "json"])
def test_a_program_lies_as_the_file_of_another_says(end, tmp_path, virtual_devices):
    path = str(tmp_path / f"s.{end}")
    virtual_devices(8, full_batch=True, strategy_ckpt_save_file=path)
    said = compiled(Net((by_axes,)))
    assert said["w1"] == [[2, 2, 2], [[0, 2], 1], [4, 4], 0, True, ""]
    ms.set_auto_parallel_context(strategy_ckpt_save_file=str(tmp_path / "none.ckpt"))
    ms.set_auto_parallel_context(strategy_ckpt_save_file="")
    without = compiled(Net())
    ms.set_auto_parallel_context(strategy_ckpt_load_file=path)
    assert compiled(Net()) == said != without
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"s.{end}"]
    assert _strategy_file.read(path).operators["matmul1"] == (0, [[1, 4], [4, 2]])


def test_what_is_loaded_for_inputs_of_other_dims_is_told(tmp_path, virtual_devices, capsys):
    path = tmp_path / "s.ckpt"
    _strategy_file.write(path, Strategy(0, {"matmul1": (0, [[2, 2], [2, 1]]), "relu": (0, [[2, 2, 1]])}))
    virtual_devices(4, full_batch=True, strategy_ckpt_config={"load_file": str(path)})
    assert compiled(Net())["w1"][2] == [8, 8]
    assert f"'{path}' says how 'relu' is split for inputs of other dims" in capsys.readouterr().err


def test_a_file_of_another_network_is_told(tmp_path, virtual_devices, capsys):
    path = tmp_path / "another.ckpt"
    _strategy_file.write(path, Strategy(0, {"layer2.matmul": (0, [[2, 2], [2, 1]]), "layer1.matmul": (0, [[2, 2], [2, 1]])}))
    virtual_devices(4, full_batch=True, strategy_ckpt_load_file=str(path))
    compiled(Net())
    assert (f"'{path}' says how 'layer1.matmul' and others are split, of which this program has none"
            in capsys.readouterr().err)


def test_what_trains_is_what_the_file_says(tmp_path, virtual_devices):
    """A prediction that is compiled later does not change it; states are in it unless only what is trained is asked for."""
    path = tmp_path / "s.json"
    virtual_devices(4, full_batch=True, strategy_ckpt_config={"save_file": str(path)})
    net = Net((((2, 2), (2, 1)),))
    model = Model(net, nn.MSELoss(), nn.Momentum(net.trainable_params(), 0.1, 0.9))
    model.build(ms.dataset.NumpySlicesDataset((np.ones((8, 16), np.float32),) * 2, ["x", "y"]).batch(8))
    before = path.read_bytes()
    assert set(json.loads(before)["parallel_layout_item"]) == {"w1", "w2", "moments.w1", "moments.w2"}
    model.predict(Tensor(np.ones((4, 16)), ms.float32))
    assert path.read_bytes() == before
    ms.set_auto_parallel_context(strategy_ckpt_config={"save_file": str(path), "only_trainable_params": True})
    model.infer_train_layout(ms.dataset.NumpySlicesDataset((np.ones((8, 16), np.float32),) * 2, ["x", "y"]).batch(8))
    assert set(json.loads(path.read_text())["parallel_layout_item"]) == {"w1", "w2"}


def test_files_of_auto_parallel(tmp_path, virtual_devices):
    virtual_devices(4)
    paths = [str(tmp_path / name) for name in ("parameters.ckpt", "operators.json")]
    net = AutoParallel(Net((((2, 2), (2, 1)),)))
    net.full_batch = True
    net.save_param_strategy_file(paths[0])
    net.save_operator_strategy_file(paths[1])
    expected = net(x).asnumpy()
    assert [_strategy_file.read(p).operators["matmul1"] for p in paths] == [(0, [[2, 2], [2, 1]])] * 2
    other = AutoParallel(Net(), "recursive_programming")
    other.full_batch = True
    other.load_operator_strategy_file(paths[1])
    assert (other(x).asnumpy() == expected).all()
    assert Model(other).infer_predict_layout(x)["w1"][:3] == [[2, 2], [0, -1], [8, 8]]
    for path, error in (("operators.json", ValueError), ("/tmp/operators.ckpt", ValueError), (3, TypeError)):
        with pytest.raises(error, match="full path of a .json|a string"):
            net.save_operator_strategy_file(path)


def test_what_cannot_be_inferred_or_loaded(tmp_path, virtual_devices):
    with pytest.raises(RuntimeError, match="infer_predict_layout is for graph mode"):
        Model(Net()).infer_predict_layout(x)
    virtual_devices(4, full_batch=True, strategy_ckpt_load_file=str(tmp_path / "none.ckpt"))
    with pytest.raises(ValueError, match="there is no strategy file"):
        Net()(x)
    _strategy_file.write(tmp_path / "s.ckpt", Strategy(0, {"matmul1": (0, [[3, 1], [1, 1]])}))
    ms.set_auto_parallel_context(strategy_ckpt_load_file=str(tmp_path / "s.ckpt"))
    with pytest.raises(ValueError, match="matmul1"):
        Net()(x)
    with pytest.raises(TypeError, match="strategy_ckpt_save_file is the name of a file"):
        ms.set_auto_parallel_context(strategy_ckpt_save_file=3)
    with pytest.raises(ValueError, match="'save_fil' is unknown; did you mean 'save_file'"):
        ms.set_auto_parallel_context(strategy_ckpt_config={"save_fil": "x"})


def test_one_process_saves_whole_tensors_and_tells(tmp_path, virtual_devices, capsys):
    virtual_devices(4, full_batch=True)
    net = Net((((2, 2), (2, 1)),))
    net(x)
    ms.save_checkpoint(net, str(tmp_path / "a.ckpt"), integrated_save=False)
    assert "this process stands for all ranks" in capsys.readouterr().err
    assert ms.load_checkpoint(str(tmp_path / "a.ckpt"))["w1"].shape == (16, 8)
    with pytest.raises(RuntimeError, match=r"'w1' has shape \(16, 8\), but \(8, 8\)"):
        ms.load_param_into_net(net, {"w1": Parameter(Tensor(np.ones((8, 8), np.float32)))})


def test_a_state_that_is_loaded_behind_a_compile_counts(virtual_devices):
    virtual_devices(1)

    def steps(net, optimizer, count):
        step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), optimizer)
        return [step(x, Tensor(np.zeros((8, 16)), ms.float32)).item() for _ in range(count)], step

    def adam(net):
        return nn.Adam(net.trainable_params(), 0.01)

    whole = Net()
    expected, _ = steps(whole, adam(whole), 6)
    first, second = Net(), Net()
    _, of_first = steps(first, adam(first), 3)
    state = {name: Parameter(Tensor(t.asnumpy()), name=name) for optimizer in [of_first.optimizer]
             for name, t in {**first.parameters_dict(), **optimizer.states()}.items()}
    _, of_second = steps(second, adam(second), 1)  # it is compiled, and elsewhere
    assert ms.load_param_into_net(of_second, state) == ([], [])
    rest = [of_second(x, Tensor(np.zeros((8, 16)), ms.float32)).item() for _ in range(3)]
    np.testing.assert_allclose(rest, expected[3:], rtol=1e-6)

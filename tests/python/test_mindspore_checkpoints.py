"""Checkpoints and strategy files: slices under one layout made into those under another, and what is no such file."""

import itertools
import json
import math
import random

import numpy as np
import pytest
from mindspore_fixtures import settings, virtual_devices  # noqa: F401

import mindspore as ms
from mindspore import Parameter, Tensor
from mindspore.parallel import _strategy_file
from mindspore.parallel._placement import Placement
from mindspore.parallel._strategy_file import Strategy
from mindspore.train import files

pytestmark = pytest.mark.usefixtures("settings")


# ---- slices of drawn layouts ----

def drawn_placement(draw, dims, devices):
    mesh = []
    while devices > 1:
        factor = draw.choice([f for f in range(2, devices + 1) if devices % f == 0])
        mesh.append(factor)
        devices //= factor
    axes = list(range(len(mesh)))
    draw.shuffle(axes)
    cut = [[] for _ in range(dims)]
    for axis in axes:
        dim = draw.randrange(dims + 1)  # the last is no dim: replicas
        if dim < dims:
            cut[dim].append(axis)
    return Placement(tuple(mesh), tuple(map(tuple, cut)))


def numpy_slice(whole, placement, device):
    """By numpy alone: the whole is cut dim by dim, axis by axis, the outermost first."""
    place = np.unravel_index(device, placement.mesh) if placement.mesh else ()
    for dim, axes in enumerate(placement.map):
        for axis in axes:
            whole = np.split(whole, placement.mesh[axis], dim)[place[axis]]
    return whole


def strategy_file(path, layouts):
    """layouts: by stage, by name."""
    strategy = Strategy(operators={"matmul": (0, [[1, 1], [1, 1]])})
    for stage, by_name in layouts.items():
        for name, placement in by_name.items():
            strategy.layouts.setdefault(name, {})[stage] = placement
    _strategy_file.write(path, strategy, is_joined=len(layouts) > 1)
    return str(path)


def first_ranks(layouts):
    sizes = [next(iter(by_name.values())).devices for _, by_name in sorted(layouts.items())]
    return dict(enumerate([0, *itertools.accumulate(sizes)]))


def write_ranks(folder, layouts, wholes):
    start = first_ranks(layouts)
    for stage, by_name in layouts.items():
        for device in range(next(iter(by_name.values())).devices):
            slices = {name: Tensor(numpy_slice(wholes[name], p, device)) for name, p in by_name.items()}
            ms.save_checkpoint({**slices, "global_step": Tensor([7], ms.int32)},
                               str(folder / f"rank_{start[stage] + device}" / "net.ckpt"))


def drawn(draw, number):
    """Devices and stages of both sides, names and whole tensors: what fits to a drawn shape."""
    counts = [(8, 8), (8, 4), (4, 8), (2, 6), (6, 4), (1, 8), (8, 1)][number % 7]
    stages = draw.choice([(1, 1), (2, 1), (1, 2), (2, 2)]) if min(counts) > 1 else (1, 1)
    names = [f"layer{i}.weight" for i in range(4)]
    dims = {name: draw.randint(1, 3) for name in names}

    def side(devices, count):
        return {s: {n: drawn_placement(draw, dims[n], devices // count) for n in names[s::count]} for s in range(count)}

    sides = [side(devices, count) for devices, count in zip(counts, stages)]
    shapes = {n: [math.lcm(*(p.cuts[d] for s in sides for by in s.values() for m, p in by.items() if m == n))
                  * draw.randint(1, 2) for d in range(dims[n])] for n in names}
    kinds = [np.float32, np.int32, np.float16, np.float64]
    wholes = {n: np.random.default_rng(number).integers(0, 100, shapes[n]).astype(draw.choice(kinds)) for n in names}
    return sides, wholes


@pytest.mark.parametrize("number", range(70))
def test_transformed_slices_are_those_of_the_whole(number, tmp_path):
    draw = random.Random(number)
    (source, target), wholes = drawn(draw, number)
    end = draw.choice(["ckpt", "json"])
    files_of = [strategy_file(tmp_path / f"{side}.{end}", layouts) for side, layouts in (("a", source), ("b", target))]
    write_ranks(tmp_path / "a", source, wholes)
    ms.transform_checkpoints(str(tmp_path / "a"), str(tmp_path / "b"), "new", *files_of)
    start = first_ranks(target)
    compared = 0
    for stage, by_name in target.items():
        for device in range(next(iter(by_name.values())).devices):
            rank = start[stage] + device
            found = files.read(tmp_path / "b" / f"rank_{rank}" / f"new{rank}.ckpt")
            assert found.keys() == {*by_name, "global_step"} and found["global_step"].bits.tolist() == [7]
            for name, placement in by_name.items():
                expected = numpy_slice(wholes[name], placement, device)
                assert found[name].bits.dtype == expected.dtype and found[name].bits.shape == expected.shape
                assert found[name].bits.tobytes() == expected.tobytes()
                compared += 1
    assert compared >= 4
    ms.transform_checkpoints(str(tmp_path / "b"), str(tmp_path / "c"), "net", files_of[1], files_of[0])
    for path in (tmp_path / "a").glob("*/*.ckpt"):  # and back
        again = next((tmp_path / "c" / path.parent.name).glob("*.ckpt"))
        assert dict_of(again) == dict_of(path)


def dict_of(path):
    return {name: (t.dtype, t.bits.shape, t.bits.tobytes()) for name, t in files.read(path).items()}


def test_by_rank_as_by_folder(tmp_path):
    source = {0: {"w": Placement.of_map([2, 4], [1, 0]), "b": Placement.of_map([8], [-1])}}
    target = {0: {"w": Placement.of_map([4], [0, -1]), "b": Placement.of_map([4], [0])}}
    wholes = {"w": np.arange(64, dtype=np.float32).reshape(8, 8), "b": np.arange(4, dtype=np.float32)}
    src, dst = (strategy_file(tmp_path / f"{n}.ckpt", s) for n, s in (("a", source), ("b", target)))
    write_ranks(tmp_path / "a", source, wholes)
    ms.transform_checkpoints(str(tmp_path / "a"), str(tmp_path / "b"), "new", src, dst)
    for rank in range(4):
        needed = ms.rank_list_for_transform(rank, src, dst)
        assert needed == ([0, 1, 2, 3] if rank < 2 else [0, 4, 5, 6, 7])  # rows of w, and any for b
        paths = {r: str(tmp_path / "a" / f"rank_{r}" / "net.ckpt") for r in needed}
        ms.transform_checkpoint_by_rank(rank, paths, str(tmp_path / "one.ckpt"), src, dst)
        assert dict_of(tmp_path / "one.ckpt") == dict_of(tmp_path / "b" / f"rank_{rank}" / f"new{rank}.ckpt")
    ms.transform_checkpoints(str(tmp_path / "a"), str(tmp_path / "whole"), "new", src)
    whole = ms.load_checkpoint(str(tmp_path / "whole" / "rank_0" / "new0.ckpt"))
    assert all((whole[n].asnumpy() == wholes[n]).all() for n in wholes)
    ms.transform_checkpoints(str(tmp_path / "whole"), str(tmp_path / "cut"), "new", None, dst)
    assert dict_of(tmp_path / "cut" / "rank_3" / "new3.ckpt") == dict_of(tmp_path / "b" / "rank_3" / "new3.ckpt")


def test_stages_in_files_of_their_own(tmp_path):
    """Two stages of four ranks, a file of each rank; what is in both comes from the first."""
    p = Placement.of_map([2, 2], [1, 0])
    wholes = {n: np.random.default_rng(1).normal(size=(4, 4)).astype(np.float32) for n in ("embedding", "w0", "w1")}
    for rank in range(8):
        stage = rank // 4
        one = Strategy(stage, {f"matmul{stage}": (stage, [[2, 1], [1, 2]])}, {n: {0: p} for n in ("embedding", f"w{stage}")})
        _strategy_file.write(tmp_path / "strategies" / f"rank_{rank}.ckpt", one)
        slices = {n: Tensor(numpy_slice(wholes[n], p, rank % 4)) for n in one.layouts}
        ms.save_checkpoint(slices, str(tmp_path / "a" / f"rank_{rank}" / "net.ckpt"))
    joined = str(tmp_path / "joined.ckpt")
    ms.merge_pipeline_strategys(str(tmp_path / "strategies"), joined)
    assert _strategy_file.read(joined).layouts == {"embedding": {0: p, 1: p}, "w0": {0: p}, "w1": {1: p}}
    assert ms.rank_list_for_transform(0, joined, None) == list(range(8))
    ms.transform_checkpoints(str(tmp_path / "a"), str(tmp_path / "b"), "new", joined, None)
    found = ms.load_checkpoint(str(tmp_path / "b" / "rank_0" / "new0.ckpt"))
    assert all((found[n].asnumpy() == wholes[n]).all() for n in wholes)
    with pytest.raises(ValueError, match="parameter 'w1' is in stage 1, of which there is no rank among 0, 1, 2, 3"):
        ms.transform_checkpoint_by_rank(0, {r: str(tmp_path / "a" / f"rank_{r}" / "net.ckpt") for r in range(4)},
                                        str(tmp_path / "x.ckpt"), joined)


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


def test_states_lie_as_their_parameters_where_a_file_does_not_say(tmp_path):
    source = {0: {"fc.w": Placement.of_map([4], [0, -1])}}
    src = strategy_file(tmp_path / "a.json", source)
    whole = np.arange(8, dtype=np.float32).reshape(4, 2)
    for rank in range(4):
        cut = Tensor(numpy_slice(whole, source[0]["fc.w"], rank))
        ms.save_checkpoint({"fc.w": cut, "moments.fc.w": cut}, str(tmp_path / "a" / f"rank_{rank}" / "net.ckpt"))
    ms.transform_checkpoints(str(tmp_path / "a"), str(tmp_path / "b"), "new", src, None)
    found = ms.load_checkpoint(str(tmp_path / "b" / "rank_0" / "new0.ckpt"))
    assert (found["moments.fc.w"].asnumpy() == whole).all() and (found["fc.w"].asnumpy() == whole).all()

"""Checkpoints and strategy files: slices under one layout made into those under another, and what is no such file."""

import itertools
import json
import math
import random

import numpy as np
import pytest
from mindspore_fixtures import settings  # noqa: F401

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
    _strategy_file.write(path, strategy)
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


# ---- what is no such file, or does not fit ----

def test_damaged_files_are_told_in_a_line(tmp_path):
    draw = random.Random(7)
    p = {0: Placement.of_map([2, 4], [1, 0])}
    strategy = Strategy(0, {"matmul": (0, [[2, 4], [4, 1]])}, {"w": p, "v": {0: Placement.of_map([2, 2, 2], [[0, 2]])}})
    tensors = {"w": Tensor(np.ones((2, 3), np.float32)), "b": Tensor(np.ones(3, np.float16))}
    reads = {"a.ckpt": files.read, "a.safetensors": files.read, "s.ckpt": _strategy_file.read, "s.json": _strategy_file.read}
    ms.save_checkpoint(tensors, str(tmp_path / "a.ckpt"))
    ms.save_checkpoint(tensors, str(tmp_path / "a.safetensors"), format="safetensors")
    for name in ("s.ckpt", "s.json"):
        _strategy_file.write(tmp_path / name, strategy)
    hostile = [b"\xff" * 10, b"\xff\xff\xff\xff\x0f", b"99999999999", b"-1", b"[[[", b"{}", b"null", b"", b"\x00"]
    refused = 0
    for number in range(1200):
        name = draw.choice(list(reads))
        data = (tmp_path / name).read_bytes()
        at, end = sorted(draw.randrange(len(data) + 1) for _ in "ab")
        path = tmp_path / f"damaged{name[1:]}"
        path.write_bytes(data[:at] + draw.choice(hostile) + data[draw.choice([at, end, len(data)]):])
        try:
            reads[name](path)
        except ValueError as error:
            assert str(path) in str(error) and "\n" not in str(error) and len(str(error)) < 500
            refused += 1
    assert refused > 600


def test_what_does_not_fit_is_told(tmp_path):
    p, q = Placement.of_map([4], [0, -1]), Placement.of_map([4], [0])
    src, dst = strategy_file(tmp_path / "a.ckpt", {0: {"w": p}}), strategy_file(tmp_path / "b.ckpt", {0: {"w": q}})
    (tmp_path / "empty.ckpt").write_bytes(b"")
    write_ranks(tmp_path / "a", {0: {"w": p}}, {"w": np.ones((4, 2), np.float32)})
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    with pytest.raises(ValueError, match="'w' has 2 dims in the one strategy and 1 in the other"):
        ms.transform_checkpoints(a, b, "x", src, dst)
    with pytest.raises(ValueError, match="says nothing of operators or parameters"):
        ms.rank_list_for_transform(0, str(tmp_path / "empty.ckpt"))
    with pytest.raises(ValueError, match="there is no strategy file"):
        ms.rank_list_for_transform(0, str(tmp_path / "none.ckpt"))
    with pytest.raises(ValueError, match="there is no rank 4: the strategy is for 4 devices"):
        ms.rank_list_for_transform(4, src, src)
    with pytest.raises(TypeError, match="rank_id"):
        ms.rank_list_for_transform("0", src)
    with pytest.raises(NotADirectoryError):
        ms.transform_checkpoints(str(tmp_path / "none"), b, "x", src)
    with pytest.raises(NotADirectoryError):
        ms.merge_pipeline_strategys(str(tmp_path / "none"), str(tmp_path / "m.ckpt"))
    with pytest.raises(ValueError, match="parts of it are missing"):
        ms.transform_checkpoint_by_rank(0, {0: f"{a}/rank_0/net.ckpt"}, f"{b}.ckpt", src)
    (tmp_path / "a" / "rank_2" / "net.ckpt").unlink()
    with pytest.raises(ValueError, match="checkpoint of rank 2 is needed for rank 0"):
        ms.transform_checkpoints(a, b, "x", src)
    ms.save_checkpoint({"w": Tensor(np.ones((1, 2), np.float32)), "global_step": Tensor([8], ms.int32)}, f"{a}/rank_2/net.ckpt")
    with pytest.raises(ValueError, match="'global_step' is not in the source strategy, but it is not the same on ranks"):
        ms.transform_checkpoints(a, b, "x", src)
    assert not (tmp_path / "b").exists()


def test_a_disk_that_is_full_leaves_what_was_there(tmp_path):
    """A limit on the size of files stands for the disk."""
    import resource

    path = tmp_path / "a.ckpt"
    ms.save_checkpoint({"w": Tensor(np.ones(4, np.float32))}, str(path))
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(OSError, match="a.ckpt"):
            ms.save_checkpoint({"w": Tensor(np.ones(10000, np.float32))}, str(path))
        ms.save_checkpoint({"w": Tensor(np.ones(10000, np.float32))}, str(path), async_save=True)
        with pytest.raises(OSError, match="a.ckpt"):
            ms.load_checkpoint(str(path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [p.name for p in tmp_path.iterdir()] == ["a.ckpt"] and path.read_bytes() == before


def test_options_of_loading(tmp_path):
    path = str(tmp_path / "a.ckpt")
    ms.save_checkpoint({"a.w": Tensor([1.0]), "a.b": Tensor([2.0]), "c.w": Tensor([3.0])}, path, choice_func=lambda n: n != "c.w",
                       async_save=True, append_dict={"more": 5})
    assert set(ms.load_checkpoint(path)) == {"a.w", "a.b", "more"}
    assert set(ms.load_checkpoint(path, filter_prefix="a.w")) == {"a.b", "more"}
    assert set(ms.load_checkpoint(path, filter_prefix=["more", "a.b"])) == {"a.w"}
    assert set(ms.load_checkpoint(path, specify_prefix="a")) == {"a.w", "a.b"}
    assert set(ms.load_checkpoint(path, choice_func=lambda name: name.endswith("b"))) == {"a.b"}
    with pytest.raises(ValueError, match="nothing that is asked for"):
        ms.load_checkpoint(path, specify_prefix="zz")
    with pytest.raises(ValueError, match="dec_key"):
        ms.load_checkpoint(path, dec_key=b"0123456789abcdef")
    with pytest.raises(ValueError, match="enc_key"):
        ms.save_checkpoint({}, path, enc_key=b"0123456789abcdef")
    with pytest.raises(TypeError, match="'choise' is unknown"):
        ms.load_checkpoint(path, choise=1)
    with pytest.raises(ValueError, match="format 'h5' is unknown"):
        ms.load_checkpoint(path, format="h5")


def test_loading_beside_what_goes_on(tmp_path):
    saved, taking = ms.nn.Dense(3, 2), ms.nn.Dense(3, 2, weight_init="zeros")
    ms.save_checkpoint(saved, str(tmp_path / "net.ckpt"))
    found = ms.load_checkpoint_async(str(tmp_path / "net.ckpt")).result()
    np.testing.assert_array_equal(found["weight"].asnumpy(), saved.weight.asnumpy())
    future = ms.load_checkpoint_async(str(tmp_path / "net.ckpt"), taking)
    assert future.done()
    np.testing.assert_array_equal(taking.weight.asnumpy(), saved.weight.asnumpy())
    with pytest.raises(ValueError, match="there is no checkpoint .*nothing.ckpt"):
        ms.load_checkpoint_async(str(tmp_path / "nothing.ckpt")).result()


def test_what_nets_take():
    net = ms.nn.Dense(3, 2)
    start = net.bias.asnumpy().copy()
    assert ms.load_param_into_net(net, {"weight": Parameter(Tensor(np.ones((2, 3), np.float16)))}) == (["bias"], [])
    assert (net.weight.asnumpy() == 1).all() and (net.bias.asnumpy() == start).all()
    with pytest.raises(RuntimeError, match="'weight' is Float32, but Float16 in the checkpoint; strict_load=False casts it"):
        ms.load_param_into_net(net, {"weight": Parameter(Tensor(np.ones((2, 3), np.float16)))}, strict_load=True)
    with pytest.raises(RuntimeError, match="'weight' is Float32, but Int32"):
        ms.load_param_into_net(net, {"weight": Parameter(Tensor(np.ones((2, 3), np.int32)))})
    with pytest.raises(RuntimeError, match=r"'weight' has shape \(2, 3\), but \(2, 1\) .*; slices are taken once"):
        ms.load_param_into_net(net, {"weight": Parameter(Tensor(np.ones((2, 1), np.float32)))})
    with pytest.raises(TypeError, match="'weight' is 3"):
        ms.load_param_into_net(net, {"weight": 3})
    with pytest.raises(TypeError, match="takes a Cell"):
        ms.load_param_into_net({}, net)


def test_slices_of_one_parameter():
    rows = [Parameter(Tensor(np.full((1, 2), r, np.float32)), name="w") for r in range(4)]
    assert ms.merge_sliced_parameter(rows).asnumpy().tolist() == [[0, 0], [1, 1], [2, 2], [3, 3]]
    grid = ms.merge_sliced_parameter(rows, {"w": Placement.of_map([2, 2], [1, 0])})
    assert grid.name == "w" and grid.asnumpy().tolist() == [[0, 0, 1, 1], [2, 2, 3, 3]]
    with pytest.raises(ValueError, match="lies on 4 ranks, but there are 3 slices"):
        ms.merge_sliced_parameter(rows[:3], {"w": Placement.of_map([2, 2], [1, 0])})
    with pytest.raises(KeyError, match="'w' is not in the strategy"):
        ms.merge_sliced_parameter(rows, {})
    with pytest.raises(TypeError):
        ms.merge_sliced_parameter([1])


def test_files_of_parts_and_of_the_other_format(tmp_path):
    for rank in range(2):
        ms.save_checkpoint({f"w{rank}": Tensor([float(rank)])}, str(tmp_path / "parts" / f"part{rank}.ckpt"))
    assert {n: p.item() for n, p in ms.load_segmented_checkpoints(str(tmp_path / "parts")).items()} == {"w0": 0, "w1": 1}
    with pytest.raises(ValueError, match="no folder"):
        ms.load_segmented_checkpoints(str(tmp_path / "none"))
    ms.ckpt_to_safetensors(str(tmp_path / "parts"), str(tmp_path / "safe"), name_map={"w0": "v0"})
    ms.safetensors_to_ckpt(str(tmp_path / "safe"), str(tmp_path / "back"))
    assert dict_of(tmp_path / "back" / "part1.ckpt") == dict_of(tmp_path / "parts" / "part1.ckpt")
    assert set(files.read(tmp_path / "safe" / "part0.safetensors")) == {"v0"}


def test_whole_tensors_in_parts(tmp_path, monkeypatch):
    """unified_safetensors, and a network that takes them."""
    from mindspore.train import distributed

    monkeypatch.setattr(distributed, "_longest_part", 20)
    p = Placement.of_map([2], [0, -1])
    src = strategy_file(tmp_path / "s.json", {0: {"weight": p}})
    whole = np.arange(6, dtype=np.float32).reshape(2, 3)
    for rank in range(2):
        slices = {"weight": Tensor(numpy_slice(whole, p, rank)), "bias": Tensor([5.0, 6.0])}
        ms.save_checkpoint(slices, str(tmp_path / "a" / f"rank_{rank}" / "x.safetensors"), format="safetensors")
    ms.unified_safetensors(str(tmp_path / "a"), src, str(tmp_path / "u"))
    assert json.loads((tmp_path / "u" / "param_name_map.json").read_text()) == {"weight": "part0.safetensors",
                                                                               "bias": "part1.safetensors"}
    net = ms.nn.Dense(3, 2)
    ms.load_distributed_checkpoint(net, unified_safetensors_dir=str(tmp_path / "u"), format="safetensors")
    assert (net.weight.asnumpy() == whole).all() and net.bias.asnumpy().tolist() == [5, 6]
    paths = [str(tmp_path / "a" / f"rank_{r}" / "x.safetensors") for r in range(2)]
    other = ms.nn.Dense(3, 2)
    ms.load_distributed_checkpoint(other, paths, train_strategy_filename=src, format="safetensors")
    assert (other.weight.asnumpy() == whole).all()
    found = ms.load_distributed_checkpoint(ms.nn.Dense(3, 2), paths, None, src, format="safetensors", return_param_dict=True)
    assert set(found) == {"weight", "bias"}
    with pytest.raises(ValueError, match="has 1 files, but .* is for 2 ranks"):
        ms.load_distributed_checkpoint(net, paths[:1], train_strategy_filename=src, format="safetensors")
    with pytest.raises(ValueError, match="names the strategy file of training"):
        ms.load_distributed_checkpoint(net, paths, format="safetensors")

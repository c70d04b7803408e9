"""What parameters are called: MindSpore 2.10's names for the same programs."""

import mindspore_fixtures  # noqa: F401, which finds mindspore
import pytest

import mindspore as ms
from mindspore import nn


def parameter(name: str) -> ms.Parameter:
    return ms.Parameter(ms.Tensor([1.0], ms.float32), name=name)


class Block(nn.Cell):
    def __init__(self):
        super().__init__()
        self.d = nn.Dense(8, 8)
        self.w = parameter("mine")
        self.v = ms.ParameterTuple([parameter("t0"), parameter("t1")])


def names(cell: nn.Cell) -> list[str]:
    return [p.name for p in cell.get_parameters()]


@pytest.mark.parametrize("hold, path", [
    (lambda net: None, "b1"),
    (lambda net: setattr(net, "b1", net.b1), "b1"),
    (lambda net: setattr(net, "b1", net.b1.shard(((1, 1),))), "b1"),  # there a function takes the cell's place
    (lambda net: setattr(net, "b2", net.b1.shard(((1, 1),))), "b1"),
    (lambda net: setattr(net, "b2", net.b1), "b2"),
    (lambda net: setattr(net, "top", nn.CellList([net.b1])), "top.0"),
])
def test_a_name_is_the_path_where_its_cell_was_held_last(hold, path):
    net = nn.Cell()
    net.b1 = Block()
    hold(net)
    assert names(net) == [f"{path}.{name}" for name in ("w", "t0", "t1", "d.weight", "d.bias")]


def test_a_prefix_stands_in_front_of_paths():
    block = Block()
    block.update_parameters_name("x.")
    assert names(block) == ["x.w", "x.t0", "x.t1", "x.d.weight", "x.d.bias"]


def test_a_tuple_of_parameters_is_held():
    assert names(Block()) == ["mine", "t0", "t1", "d.weight", "d.bias"]
    with pytest.raises(ValueError, match="two parameters of a cell are called 't'"):
        nn.Cell().twins = ms.ParameterTuple([parameter("t"), parameter("t")])
    cell = nn.Cell()
    for name in ("a", "b"):
        setattr(cell, name, ms.ParameterTuple([ms.Parameter(ms.Tensor([1.0], ms.float32)) for _ in range(2)]))
    assert len(names(cell)) == 4

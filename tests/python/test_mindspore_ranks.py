"""Programs of MindSpore's names as processes: collectives that they call, groups, what one of them looks at."""

import numpy as np
import pytest
from mindspore_fixtures import digits, run_as_ranks  # noqa: F401

start = """
import numpy as np
import mindspore as ms
from mindspore import Parameter, Tensor, nn, ops
from mindspore.communication import create_group, get_group_size, get_rank, init
ms.set_context(mode=ms.GRAPH_MODE)
init()
rank, size = get_rank(), get_group_size()
"""


@pytest.fixture
def run_text(run_as_ranks, tmp_path):
    def run(ranks, text):
        program = tmp_path / "program.py"
        program.write_text(start + text)
        return run_as_ranks(ranks, program)

    return run


def test_collectives_in_programs_have_gradients(run_text):
    # The gradients are those of the sum of all ranks' losses, which torch computes of all ranks' tensors at once.
    torch = pytest.importorskip("torch")
    lines = run_text(2, """
draw = np.random.RandomState(0)
xs, factors = draw.randn(2, 4, 6).astype(np.float32), draw.randn(2, 8, 12).astype(np.float32)
for op in (ops.AllReduce(), ops.AllReduce("max"), ops.AllGather(), ops.ReduceScatter(), ops.AlltoAll(2, 1, 0)):
    def loss(x):
        y = op(x * 2.0)
        return (y * y * Tensor(factors[rank][:y.shape[0], :y.shape[1]])).sum()
    value, gradient = ms.value_and_grad(loss)(Tensor(xs[rank]))
    print([value.item(), *gradient.asnumpy().ravel().tolist()])
""")
    draw = np.random.RandomState(0)
    xs, factors = (draw.randn(2, *shape).astype(np.float32) for shape in ((4, 6), (8, 12)))
    together = [lambda a, b: [a + b] * 2, lambda a, b: [torch.maximum(a, b)] * 2, lambda a, b: [torch.cat([a, b])] * 2,
                lambda a, b: [(a + b)[:2], (a + b)[2:]], lambda a, b: [torch.cat([a[:, c], b[:, c]])
                                                                       for c in (slice(0, 3), slice(3, 6))]]
    for i, op in enumerate(together):
        x = [torch.tensor(v, requires_grad=True) for v in xs]
        ys = op(*(2 * v for v in x))
        losses = [(y * y * torch.tensor(f[:y.shape[0], :y.shape[1]])).sum() for y, f in zip(ys, factors)]
        sum(losses).backward()
        for rank in range(2):
            expected = [losses[rank].item(), *x[rank].grad.numpy().ravel()]
            np.testing.assert_allclose(eval(lines[rank][i]), expected, rtol=1e-4, atol=1e-5)


def test_groups(run_text):
    lines = run_text(4, """
from mindspore.communication import get_group_rank_from_world_rank, get_world_rank_from_group_rank
from mindspore.communication.comm_func import barrier
create_group("even", [0, 2])
create_group("odd", [1, 3])
name = "odd" if rank % 2 else "even"
print(get_rank(name), get_group_size(name), get_world_rank_from_group_rank(name, 1),
      get_group_rank_from_world_rank(rank, name))
x = Tensor([float(rank)])
print(ops.AllReduce(group=name)(x), ms.jit(lambda x: ops.AllGather(group=name)(x) * 10)(x),
      ops.Broadcast(2 + rank % 2, name)((x,))[0])
barrier(name)
for wrong in (lambda: ops.AllReduce(group="none")(x), lambda: create_group("g", [2, 1]),
              lambda: create_group("g", [0, 4]), lambda: get_rank("even" if rank % 2 else "odd"),
              lambda: ops.AllReduce("prod"), lambda: ops.ReduceScatter()(x)):
    try:
        wrong()
    except (ValueError, RuntimeError) as error:
        print(error)
""")
    for rank in range(4):
        own, other = [[0, 2], [1, 3]][rank % 2], [[1, 3], [0, 2]][rank % 2]
        name = ["odd", "even"][rank % 2]
        assert lines[rank] == [
            f"{rank // 2} 2 {own[1]} {rank // 2}", f"[{sum(own)}.] [{own[0] * 10:2}. {own[1] * 10}.] [{own[1]}.]",
            "group 'none' does not exist; make it by create_group('none', ranks)",
            "group 'g': ranks are ascending numbers from 0 to 3, not [2, 1]",
            "group 'g': ranks are ascending numbers from 0 to 3, not [0, 4]",
            f"rank {rank} is not in group '{name}' of {other}",
            "ops.AllReduce by 'prod' is not in this front end; there are sum, max, min",
            "ops.ReduceScatter cannot cut rows of shape (1,) into those of 4 ranks"]


def test_a_data_parallel_step_in_one_function(run_text):
    lines = run_text(2, """
ms.set_auto_parallel_context(parallel_mode="data_parallel", gradients_mean=True)
w = Parameter(Tensor([1.0, 2.0]), name="w")
optimizer, reducer = nn.SGD([w], 0.5), nn.DistributedGradReducer([w])
gradient_of = ms.value_and_grad(lambda x: (w * w * x).sum(), None, [w])

@ms.jit
def step(x):
    loss, gradients = gradient_of(x)
    optimizer(reducer(gradients))
    return loss

print(step(Tensor([1.0 + rank, 0.5])), w.asnumpy())
""")
    # gradients 2 w x: of rank 0 [2, 2], of rank 1 [4, 2]; their mean is [3, 2]
    assert lines == [["3.0 [-0.5  1. ]"], ["4.0 [-0.5  1. ]"]]


def test_parameters_are_slices_once_a_network_is_compiled(run_text):
    lines = run_text(2, """
ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
net = nn.Dense(4, 6, weight_init=Tensor(np.arange(24).reshape(6, 4), ms.float32))
net.matmul.shard(((1, 1), (2, 1)))
print(net.weight.value().shape)
ms.Model(net).infer_predict_layout(Tensor(np.ones((2, 4)), ms.float32))
for _ in range(2):
    print(net.weight.asnumpy().ravel().tolist() == net.weight.value().asnumpy().ravel().tolist() == [*range(12 * rank, 12 * rank + 12)])
    net(Tensor(np.ones((2, 4)), ms.float32))
print(ms.mint.equal(net.weight.value(), Tensor(np.arange(12 * rank, 12 * rank + 12).reshape(3, 4), ms.float32)))
""")
    assert lines == [["(6, 4)", "True", "True", "True"]] * 2


def test_ranks_begin_with_what_the_first_one_has(run_text):
    lines = run_text(2, """
ms.set_auto_parallel_context(parallel_mode="data_parallel", gradients_mean=True, parameter_broadcast=True)
w, own = Parameter(Tensor([1.0 + rank, 2.0]), name="w"), Parameter(Tensor([3.0 + rank]), name="own")
own.layerwise_parallel = True
step = nn.TrainOneStepCell(nn.WithLossCell(Scaled(w, own), lambda y, label: y.sum()), nn.SGD([w, own], 0.5))
for _ in range(2):
    step(Tensor([1.0, 1.0 + rank]), Tensor([0.0]))
    print(w.asnumpy(), own.asnumpy())
""".replace("step = ", """
class Scaled(nn.Cell):
    def __init__(self, w, own):
        super().__init__()
        self.w, self.own = w, own

    def construct(self, x):
        return self.w * x + self.own * x

step = """))
    # gradients of w: [1, 1] and [1, 2], their mean [1, 1.5]; of `own`, which is each rank's: 2 and 3
    assert lines == [["[0.5  1.25] [2.]", "[0.  0.5] [1.]"], ["[0.5  1.25] [2.5]", "[0.  0.5] [1.]"]]


def test_one_rank_looks_at_a_parameter(run_text):
    lines = run_text(2, """
ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
ms.set_seed(1)
net = nn.Dense(4, 6, weight_init="ones", bias_init="zeros")
net.matmul.shard(((1, 1), (2, 1)))
net(Tensor(np.ones((2, 4)), ms.float32))
if rank == 1:
    print(net.weight.asnumpy().shape, net.weight.shape, net.bias.asnumpy())
    try:
        net.weight.clone()
    except ValueError as error:
        print(str(error).split(":")[0])
print(net(Tensor(np.ones((2, 4)), ms.float32)).asnumpy().tolist())
""")
    assert lines[0] == [str([[4.0] * 6] * 2)]
    assert lines[1][0].startswith("(3, 4) (6, 4) ")
    assert lines[1][1].startswith("this process has [3")
    assert lines[1][2:] == lines[0]


def test_ranks_evaluate_their_rows(run_text):
    lines = run_text(2, """
import mindspore.dataset as ds
ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel")
draw = np.random.RandomState(0)
x, label = draw.randn(16, 4).astype(np.float32), draw.randint(4, size=16).astype(np.int32)
net = nn.Dense(4, 4, weight_init=Tensor(np.eye(4, dtype=np.float32)), bias_init="zeros")
model = ms.Model(net, nn.CrossEntropyLoss(), metrics={"acc", "loss"})
data = ds.NumpySlicesDataset((x, label), ["x", "label"], shuffle=False, num_shards=2, shard_id=rank).batch(4)
found = model.eval(data)
print(found["acc"] == (x[rank::2].argmax(1) == label[rank::2]).mean(), found["loss"])
""")
    draw = np.random.RandomState(0)
    x, label = draw.randn(16, 4), draw.randint(4, size=16)
    loss = (np.log(np.exp(x).sum(1)) - x[np.arange(16), label]).mean()
    for own in lines:
        right, found = own[0].split()
        assert right == "True" and abs(float(found) - loss) < 1e-5


def test_boxes_that_do_not_fit_are_told(run_text):
    lines = run_text(2, """
for strategy in (((3, 1), (3,)), ((1, 2),), ((1, 1, 2), (1,))):
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", dataset_strategy=strategy)
    try:
        ms.jit(lambda x, y: (x * 2).sum() + y.sum())(Tensor(np.ones((2, 2)), ms.float32), Tensor(np.ones(2), ms.float32))
    except ValueError as error:
        print(error)
""")
    assert lines[0] == lines[1] == [
        "dataset_strategy (3, 1) has 3 parts, which do not divide the 2 ranks",
        "dataset_strategy has entries for 1 inputs, but there are 2",
        "dataset_strategy cuts (1, 1, 2) an input of shape (2, 2): it takes a number of parts for each dim"]


def test_collectives_have_no_place_in_programs_of_all_ranks(run_text):
    lines = run_text(2, """
ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
try:
    ms.jit(lambda x: ops.AllReduce()(x))(Tensor([1.0]))
except RuntimeError as error:
    print(error)
""")
    assert all("ops.AllReduce in a program of mode semi_auto_parallel" in own[0] for own in lines)


def test_a_file_says_which_ranks_have_the_same_slices(run_text, tmp_path):
    lines = run_text(4, f"""
ms.set_seed(1)
folder = {str(tmp_path)!r}
for stages, strategy in ((1, ((2, 1), (2, 1))), (1, ((1, 2), (2, 2))), (2, ((2, 1), (1, 1)))):
    path = f"{{folder}}/groups/{{stages}}_{{strategy[1]}}_{{rank}}.pb"
    ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True, pipeline_stages=stages,
                                 group_ckpt_save_file=path)
    first, last = nn.Dense(4, 4, has_bias=False), nn.Dense(4, 4, has_bias=False)
    first.matmul.shard(strategy)
    net = nn.SequentialCell(first, last)
    first.pipeline_stage, last.pipeline_stage = 0, stages - 1
    net(Tensor(np.ones((4, 4)), ms.float32))
    print(ms.restore_group_info_list(path))
try:
    ms.restore_group_info_list(path + "x")
except ValueError as error:
    print("no file" in str(error))
""")
    assert lines == [["[0, 2]", "[0]", "[0, 1]", "True"], ["[1, 3]", "[1]", "[0, 1]", "True"],
                     ["[0, 2]", "[2]", "[2, 3]", "True"], ["[1, 3]", "[3]", "[2, 3]", "True"]]


in_two_stages = """
ms.set_seed(1)
class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Dense(4, 6, weight_init="ones"), nn.Dense(6, 2, weight_init="ones")
        self.first.pipeline_stage, self.last.pipeline_stage = 0, 1
    def construct(self, x):
        return self.last(self.first(x))
x, y = Tensor(np.ones((4, 4)), ms.float32), Tensor(np.zeros((4, 2)), ms.float32)
ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", pipeline_stages=2, full_batch=True)
net = Net()
"""


def test_ranks_before_the_last_stage_have_zeros_for_results(run_text):
    lines = run_text(2, in_two_stages + """
for is_for_all in (False, True):
    ms.set_auto_parallel_context(pipeline_result_broadcast=is_for_all)
    print(net(x).asnumpy().tolist() == np.zeros((4, 2)).tolist(), net(x).shape)
from mindspore.parallel.auto_parallel import AutoParallel
for is_for_all in (False, True):
    parallel = AutoParallel(net)
    parallel.full_batch = True
    parallel.pipeline(stages=2, output_broadcast=is_for_all)
    print((parallel(x).asnumpy() == 0).all())
""")
    assert lines == [["True (4, 2)", "False (4, 2)", "True", "False"], ["False (4, 2)", "False (4, 2)", "False", "False"]]


def test_what_is_made_of_gradients_is_the_same_on_ranks_of_all_stages(run_text):
    lines = run_text(2, in_two_stages + """
gradient_of = ms.value_and_grad(lambda x, y: nn.MSELoss()(net(x), y), None, net.trainable_params())

@ms.jit
def step(x, y):
    loss, gradients = gradient_of(x, y)
    return loss, [ops.square(g).sum() for g in gradients]

loss, norms = step(x, y)
print(loss.item() == 0, [n.item() for n in norms])
""")
    assert lines[0][0].startswith("True [") and lines[1][0] == lines[0][0].replace("True", "False")
    assert all(n > 0 for n in eval(lines[0][0].split(" ", 1)[1]))


def test_ranks_of_all_stages_conclude_the_same(run_text):
    # An overflow in the first step, of which ranks before the last stage do not see the loss; and an evaluation.
    lines = run_text(2, in_two_stages + """
import mindspore.dataset as ds
optimizer = nn.SGD(net.trainable_params(), 0.01)
scale = nn.DynamicLossScaleUpdateCell(2.0 ** 127, 2.0 ** 100, 1000)
step = nn.TrainOneStepWithLossScaleCell(nn.WithLossCell(net, nn.MSELoss()), optimizer, scale)
print([[o.item() for o in step(x, y)][1:] for _ in range(2)], optimizer.global_step)
data = ds.NumpySlicesDataset((x.asnumpy(), y.asnumpy()), ["x", "y"], shuffle=False).batch(4)
print(ms.Model(net, nn.MSELoss(), metrics={"loss"}).eval(data)["loss"] > 0)
""")
    assert lines[0] == lines[1] == [str([[True, 2.0 ** 127], [False, 2.0 ** 27]]) + " 1", "True"]


def test_what_a_network_captures_is_whole_beside_cut_batches(run_text):
    lines = run_text(2, """
ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", dataset_strategy=((1, 2),))
weights = Tensor(np.arange(1, 5, dtype=np.float32))
class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = Parameter(Tensor(np.float32([2])), "w")
    def construct(self, x):
        return (x * weights * self.w * Tensor(np.array(0.5, np.float32))).sum()
net, x = Net(), np.arange(8, dtype=np.float32).reshape(2, 4)
print(ms.jit(lambda x: net(x))(Tensor(np.ascontiguousarray(x[:, 2 * rank:2 * rank + 2]))).item())
""")
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    assert [float(line) for of_rank in lines for line in of_rank] == [float((x * np.arange(1, 5)).sum())] * 2

"""Training with the names of MindSpore: gradients, optimizers, losses, models, callbacks, checkpoints."""

import json

import numpy as np
import pytest
from mindspore_fixtures import settings, virtual_devices  # noqa: F401

import mindspore as ms
import mindspore.dataset as ds
from mindspore import Parameter, ParameterTuple, Tensor, nn, ops
from mindspore._compile import last_program

pytestmark = pytest.mark.usefixtures("settings")


# ---- gradients and training ----

@pytest.mark.parametrize("devices, strategy", [(1, ((1, 1), (1, 1))), (4, ((2, 1), (1, 2))), (4, ((1, 2), (2, 2)))])
def test_losses_known_from_outside(devices, strategy, virtual_devices):
    virtual_devices(devices, full_batch=True)

    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.w1 = Parameter(Tensor(np.full((32, 8), 0.03), ms.float32))
            self.w2 = Parameter(Tensor(np.full((8, 16), 0.04), ms.float32))
            self.matmul1 = ops.MatMul().shard(strategy)
            self.relu = ops.ReLU()
            self.matmul2 = ops.MatMul()

        def construct(self, x):
            return self.matmul2(self.relu(self.matmul1(x, self.w1)), self.w2)

    net = Net()
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.Momentum(net.trainable_params(), 0.3, 0.1))
    x, y = Tensor(np.full((16, 32), 0.1), ms.float32), Tensor(np.full((16, 16), 0.1), ms.float32)
    losses = [step(x, y).item() for _ in range(3)]
    np.testing.assert_allclose(losses, [0.0047997184, 0.0047495709, 0.0046943466], rtol=1e-6)


def test_forms_of_gradients():
    w = Parameter(Tensor([2.0, 3.0]), name="w")
    x = Tensor([4.0, 5.0])

    def f(x):
        return (x * x * w).sum()

    value, by_x = ms.value_and_grad(f)(x)
    assert value.item() == 107 and by_x.asnumpy().tolist() == [16, 30]
    _, by_w = ms.value_and_grad(f, None, [w])(x)
    assert by_w[0].asnumpy().tolist() == [16, 25]
    _, (by_x, by_w) = ms.value_and_grad(f, 0, ParameterTuple([w]))(x)
    assert by_x.asnumpy().tolist() == [16, 30] and by_w[0].asnumpy().tolist() == [16, 25]
    assert ms.grad(f)(x).asnumpy().tolist() == [16, 30]
    assert ops.GradOperation(get_by_list=True)(f, [w])(x)[0].asnumpy().tolist() == [16, 25]
    assert ops.GradOperation(sens_param=True)(lambda x: x * x)(x, Tensor([1.0, 10.0])).asnumpy().tolist() == [8, 100]
    (value, aux), gradient = ms.value_and_grad(lambda x: (f(x), x + 1), has_aux=True)(x)
    assert aux.asnumpy().tolist() == [5, 6] and gradient.asnumpy().tolist() == [16, 30]
    with pytest.raises(ValueError):
        ms.value_and_grad(f, None, None)
    with pytest.raises(ValueError, match="has_aux"):
        ms.value_and_grad(f, has_aux=True)(x)


def test_functions_are_compiled_for_each_kind_of_call():
    runs = []

    @ms.jit
    def f(x, factor):
        runs.append(x.shape)
        return x * factor

    assert f(Tensor([1.0, 2.0]), 2).asnumpy().tolist() == [2, 4]
    assert f(Tensor([3.0, 4.0]), 2).asnumpy().tolist() == [6, 8]
    assert f(Tensor([1.0]), 2).asnumpy().tolist() == [2]
    assert f(Tensor([1.0]), 3).asnumpy().tolist() == [3]
    assert runs == [(2,), (1,), (1,)]


def test_a_mode_that_changes_is_traced_again():
    net = nn.Dropout(p=0.5)
    x = Tensor(np.ones(1000), ms.float32)
    assert (net.set_train(False)(x).asnumpy() == 1).all()
    assert (net.set_train()(x).asnumpy() == 0).any()
    assert (net.set_train(False)(x).asnumpy() == 1).all()


def test_looking_at_a_traced_value_is_told_with_its_place():
    @ms.jit
    def f(x):
        return x if x.sum() > 0 else -x

    with pytest.raises(ValueError, match=r"test_mindspore_training\.py:\d+: .* being traced"):
        f(Tensor([1.0]))


def test_a_rate_that_is_set_counts_from_the_next_step():
    w = Parameter(Tensor([1.0]), name="w")
    optimizer = nn.SGD([w], 0.5)
    optimizer((Tensor([1.0]),))
    assert w.asnumpy().tolist() == [0.5]
    optimizer.learning_rate.set_data(Tensor(0.25))
    optimizer((Tensor([1.0]),))
    assert w.asnumpy().tolist() == [0.25]
    scheduled = nn.SGD([w], [1.0, 2.0])
    scheduled((Tensor([1.0]),))
    scheduled((Tensor([1.0]),))
    assert w.asnumpy().tolist() == [-2.75]


@pytest.mark.parametrize("ours, theirs", [
    (lambda p: nn.SGD(p, 0.1, weight_decay=0.01), lambda t, p: t.optim.SGD(p, 0.1, weight_decay=0.01)),
    (lambda p: nn.SGD(p, 0.1, momentum=0.9, nesterov=True), lambda t, p: t.optim.SGD(p, 0.1, 0.9, nesterov=True)),
    (lambda p: nn.Momentum(p, 0.1, 0.9), lambda t, p: t.optim.SGD(p, 0.1, 0.9)),
    (lambda p: nn.Adam(p, 0.1), lambda t, p: t.optim.Adam(p, 0.1))])
def test_optimizers_do_as_torch_does(ours, theirs):
    torch = pytest.importorskip("torch")
    start, target = np.linspace(-1, 1, 6, dtype=np.float32), np.linspace(1, 2, 6, dtype=np.float32)
    w, v = Parameter(Tensor(start), name="w"), torch.tensor(start, requires_grad=True)
    optimizer, reference = ours([w]), theirs(torch, [v])
    gradient_of = ms.value_and_grad(lambda x: ((w - x) ** 2).sum(), None, [w])
    for _ in range(4):
        optimizer(gradient_of(Tensor(target))[1])
        reference.zero_grad()
        ((v - torch.tensor(target)) ** 2).sum().backward()
        reference.step()
    np.testing.assert_allclose(w.asnumpy(), v.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_decay_skips_beta_and_gamma():
    w, gamma = Parameter(Tensor([1.0]), name="w"), Parameter(Tensor([1.0]), name="norm.gamma")
    nn.SGD([w, gamma], 0.5, weight_decay=0.5)((Tensor([0.0]), Tensor([0.0])))
    assert w.asnumpy().tolist() == [0.75] and gamma.asnumpy().tolist() == [1.0]


def test_groups_of_parameters():
    a, b = Parameter(Tensor([1.0]), name="a"), Parameter(Tensor([1.0]), name="b")
    optimizer = nn.SGD([{"params": [a], "lr": 0.25}, {"params": [b]}, {"order_params": [b, a]}], 0.5)
    optimizer((Tensor([1.0]), Tensor([2.0])))
    assert a.asnumpy().tolist() == [0.5] and b.asnumpy().tolist() == [0.5]


def test_groups_of_adam_do_as_torch_does():
    torch = pytest.importorskip("torch")
    start = np.linspace(-1, 1, 4, dtype=np.float32)
    ours = [Parameter(Tensor(start), name=name) for name in "ab"]
    theirs = [torch.tensor(start, requires_grad=True) for _ in "ab"]
    optimizer = nn.Adam([{"params": ours[:1], "lr": 0.1}, {"params": ours[1:], "weight_decay": 0.5}], 0.01)
    reference = torch.optim.Adam([{"params": theirs[:1], "lr": 0.1}, {"params": theirs[1:], "weight_decay": 0.5}], 0.01)
    for _ in range(3):
        optimizer((Tensor(start + 1), Tensor(start - 1)))
        theirs[0].grad, theirs[1].grad = torch.tensor(start + 1), torch.tensor(start - 1)
        reference.step()
    for w, v in zip(ours, theirs):
        np.testing.assert_allclose(w.asnumpy(), v.detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("devices", [1, 4])
def test_gradients_that_a_step_changes(devices, virtual_devices):
    virtual_devices(devices)
    w = Parameter(Tensor(np.ones((4, 2)), ms.float32), name="w")
    optimizer = nn.SGD([w], 1.0, loss_scale=2.0)
    gradient_of = ms.value_and_grad(lambda x: ops.matmul(x, w).sum() / x.shape[0], None, [w])
    halved = ops.MultitypeFuncGraph("halved")

    @halved.register("Number", "Tensor")
    def _(factor, gradient):
        return gradient * factor

    @ms.jit
    def step(x):
        loss, gradients = gradient_of(x)
        gradients = ops.HyperMap()(ops.partial(halved, 0.5), gradients)
        optimizer(gradients)
        return loss

    assert step(Tensor(np.ones((8, 4)), ms.float32)).item() == 8
    assert w.asnumpy().tolist() == [[0.75, 0.75]] * 4


def test_two_optimizers_in_one_step():
    a, b = Parameter(Tensor([1.0]), name="a"), Parameter(Tensor([1.0]), name="b")
    first, second = nn.SGD([a], 0.5), nn.Momentum([b], [1.0, 2.0], 0.5)
    gradient_of = ms.grad(lambda x: (a * x + b * x).sum(), None, [a, b])

    @ms.jit
    def step(x):
        of_a, of_b = gradient_of(x)
        first((of_a,))
        second((of_b,))
        return of_a

    step(Tensor([1.0]))
    step(Tensor([1.0]))
    assert a.asnumpy().tolist() == [0.0] and b.asnumpy().tolist() == [-3.0]


def test_two_optimizers_in_one_step_have_states_of_their_own():
    def made():
        a, b = Parameter(Tensor([1.0]), name="a"), Parameter(Tensor([1.0]), name="b")
        first, second = nn.Momentum([a], 0.5, 0.9), nn.Adam([b], 0.1)
        gradient_of = ms.grad(lambda x: (a * x + b * x * x).sum(), None, [a, b])

        @ms.jit
        def step(x):
            of_a, of_b = gradient_of(x)
            first((of_a,))
            second((of_b,))
            return a + b

        return (first, second), step, (a, b)

    optimizers, step, parameters = made()
    for rows in (1, 2):  # another program, which goes on with the states
        step(Tensor([1.0] * rows))
    saved = [o.states() for o in optimizers]
    assert [sorted(s) for s in saved] == [["global_step", "learning_rate", "moments.a", "momentum"],
                                          ["beta1_power", "beta2_power", "global_step", "learning_rate", "moment1.b",
                                           "moment2.b"]]
    np.testing.assert_allclose(saved[0]["moments.a"].asnumpy(), [0.9 * 1 + 2])
    others, step_again, parameters_again = made()
    for optimizer, states in zip(others, saved):
        optimizer.load_states({name: Tensor(s.asnumpy()) for name, s in states.items()})
    for p, old in zip(parameters_again, parameters):
        p.set_data(Tensor(old.asnumpy()))
    np.testing.assert_allclose(step_again(Tensor([3.0])).asnumpy(), step(Tensor([3.0])).asnumpy(), rtol=1e-6)
    for p, old in zip(parameters_again, parameters):
        np.testing.assert_allclose(p.asnumpy(), old.asnumpy(), rtol=1e-6)


def test_ranks_are_told_of_the_scale_of_gradients_once(virtual_devices, monkeypatch, capfd):
    virtual_devices(4)
    w = Parameter(Tensor([1.0]), name="w")
    gradient_of = ms.value_and_grad(lambda x: ((w * x).mean(), x), None, [w], has_aux=True)
    x = Tensor([[1.0], [3.0]])
    assert gradient_of(x)[1][0].asnumpy().tolist() == [2]
    assert gradient_of(x)[0][1].shape == (2, 1)  # a rank's part of what depends on the batch
    ms.context.touch()
    monkeypatch.setenv("SHARDWRIGHT_GRADIENTS", "described")
    assert gradient_of(x)[1][0].asnumpy().tolist() == [8]
    assert capfd.readouterr().err.count("SHARDWRIGHT_GRADIENTS") <= 1


def test_data_parallel_steps_of_three_calls(virtual_devices):
    virtual_devices(1, parallel_mode="data_parallel", gradients_mean=True)
    net = nn.Dense(2, 1)
    optimizer = nn.SGD(net.trainable_params(), 0.1)
    reducer = nn.DistributedGradReducer(optimizer.parameters)
    gradient_of = ms.value_and_grad(lambda x: net(x).sum(), None, net.trainable_params())
    before = net.bias.item()
    for rows in (4, 4, 1):  # the last batch is smaller
        _, gradients = gradient_of(Tensor(np.ones((rows, 2)), ms.float32))
        optimizer(reducer(gradients))
    np.testing.assert_allclose(net.bias.item(), before - 0.9, rtol=1e-5)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_losses_do_as_torch_does(reduction):
    torch = pytest.importorskip("torch")
    F = torch.nn.functional
    draw = np.random.RandomState(0)
    x, y = draw.randn(4, 5).astype(np.float32), np.array([0, 4, 2, 2], np.int32)
    shares = np.abs(draw.rand(4, 5)).astype(np.float32)
    t, label = torch.tensor(x), torch.tensor(y).long()
    weight = np.float32([0.5, 1.0, 2.0, 0.1, 3.0])
    pixels, marks = draw.randn(2, 5, 3, 2).astype(np.float32), draw.randint(5, size=(2, 3, 2)).astype(np.int32)
    cases = [
        (nn.CrossEntropyLoss(reduction=reduction)(Tensor(x), Tensor(y)),
         F.cross_entropy(t, label, reduction=reduction)),
        (nn.CrossEntropyLoss(ignore_index=2, reduction=reduction)(Tensor(x), Tensor(y)),
         F.cross_entropy(t, label, ignore_index=2, reduction=reduction)),
        (nn.CrossEntropyLoss(ignore_index=-100, reduction=reduction)(Tensor(x), Tensor(np.where(y == 2, -100, y))),
         F.cross_entropy(t, torch.where(label == 2, -100, label), reduction=reduction)),
        (nn.CrossEntropyLoss(Tensor(weight), 4, reduction, 0.2)(Tensor(x), Tensor(y)),
         F.cross_entropy(t, label, torch.tensor(weight), ignore_index=4, reduction=reduction, label_smoothing=0.2)),
        (ops.cross_entropy(Tensor(pixels), Tensor(marks), reduction=reduction),
         F.cross_entropy(torch.tensor(pixels), torch.tensor(marks).long(), reduction=reduction)),
        (ops.cross_entropy(Tensor(x[0]), Tensor(y[0]), reduction=reduction), F.cross_entropy(t[0], label[0], reduction=reduction)),
        (nn.CrossEntropyLoss(label_smoothing=0.1, reduction=reduction)(Tensor(x), Tensor(y)),
         F.cross_entropy(t, label, label_smoothing=0.1, reduction=reduction)),
        (nn.SoftmaxCrossEntropyWithLogits(reduction=reduction)(Tensor(x), Tensor(shares)),
         F.cross_entropy(t, torch.tensor(shares), reduction=reduction)),
        (nn.MAELoss(reduction)(Tensor(x), Tensor(shares)), F.l1_loss(t, torch.tensor(shares), reduction=reduction)),
        (nn.MSELoss(reduction)(Tensor(x), Tensor(shares)), F.mse_loss(t, torch.tensor(shares), reduction=reduction))]
    for ours, theirs in cases:
        np.testing.assert_allclose(ours.asnumpy(), theirs.numpy(), rtol=1e-5)


def test_convolutions_do_as_torch_does():
    torch = pytest.importorskip("torch")
    x = np.random.RandomState(0).randn(2, 3, 8, 8).astype(np.float32)
    ours = nn.Conv2d(3, 4, 3, stride=2, pad_mode="pad", padding=1, has_bias=True)
    theirs = torch.nn.functional.conv2d(torch.tensor(x), torch.tensor(ours.weight.asnumpy()),
                                        torch.tensor(ours.bias.asnumpy()), 2, 1)
    np.testing.assert_allclose(ours(Tensor(x)).asnumpy(), theirs.numpy(), rtol=1e-4, atol=1e-6)
    assert nn.Conv2d(3, 4, 3)(Tensor(x)).shape == (2, 4, 8, 8)
    assert nn.MaxPool2d(2, 2)(Tensor(x)).shape == (2, 3, 4, 4)
    for size in (2, (3, 5), (None, 7)):
        np.testing.assert_allclose(nn.AdaptiveAvgPool2d(size)(Tensor(x)).asnumpy(),
                                   torch.nn.functional.adaptive_avg_pool2d(torch.tensor(x), size).numpy(), rtol=1e-5,
                                   atol=1e-6)


def test_values_that_a_step_assigns():
    class Counter(nn.Cell):
        def __init__(self):
            super().__init__()
            self.count = Parameter(Tensor(0, ms.int32), name="count", requires_grad=False)

        def construct(self, x):
            ops.assign_add(self.count, 1)
            return x + self.count

    net = Counter()
    assert net(Tensor(10, ms.int32)).item() == 11
    assert net(Tensor(10, ms.int32)).item() == 12
    assert net.count.asnumpy() == 2


# ---- models ----

class Line(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = Parameter(Tensor(0.0), name="w")

    def construct(self, x):
        return x * self.w


def line_model(**settings):
    net = Line()
    return ms.Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.01), **settings)


def line_data(count=12):
    values = np.arange(count, dtype=np.float32)
    return ds.NumpySlicesDataset((values, 2 * values), ["x", "y"], shuffle=False).batch(3)


def test_rows_by_number_are_shuffled_unless_it_is_said_otherwise():
    class Rows:
        def __getitem__(self, i):
            return np.float32(i)

        def __len__(self):
            return 64

    def orders(make, **how):
        data = make(**how)
        return [[row[0].item() for row in data] for _ in range(2)]

    in_order = [float(i) for i in range(64)]
    for make in (lambda **how: ds.NumpySlicesDataset(np.arange(64, dtype=np.float32), "x", **how),
                 lambda **how: ds.GeneratorDataset(Rows(), "x", **how)):
        for how in ({}, {"shuffle": None}, {"shuffle": True}):
            first, second = orders(make, **how)
            assert first != second and in_order not in (first, second) and sorted(first) == sorted(second) == in_order
        assert orders(make, shuffle=False) == orders(make, sampler=ds.SequentialSampler()) == [in_order] * 2
    assert orders(lambda: ds.GeneratorDataset(lambda: (np.float32(i) for i in range(64)), "x")) == [in_order] * 2


def test_lines_of_monitors(capsys):
    line_model().train(2, line_data(), callbacks=[ms.LossMonitor(3), ms.TimeMonitor()])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in lines] == [
        "epoch: 1 step: 3", "Train epoch time: " + lines[1].split("time: ")[1].split(",")[0], "epoch: 2 step: 2",
        "Train epoch time: " + lines[3].split("time: ")[1].split(",")[0]]
    assert float(lines[0].split("loss is ")[1]) > 0 and lines[1].endswith(" ms")


def test_the_line_of_a_loss(capsys):
    line_model().train(1, line_data(3), callbacks=ms.LossMonitor())  # (0 + 4 + 16) / 3, in f32
    assert capsys.readouterr().out == f"epoch: 1 step: 1, loss is {float(np.float32(20 / 3))}\n"


def test_sink_mode_tells_once_an_epoch(capsys):
    line_model().train(epoch=2, train_dataset=line_data(), callbacks=ms.LossMonitor(), dataset_sink_mode=True)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in lines] == ["epoch: 1 step: 4", "epoch: 2 step: 4"]


def test_a_loss_that_is_no_number_ends_training():
    data = ds.NumpySlicesDataset((np.array([np.inf], np.float32), np.zeros(1, np.float32)), ["x", "y"]).batch(1)
    with pytest.raises(ValueError, match="Invalid loss"):
        line_model().train(1, data, callbacks=ms.LossMonitor())


def test_hooks_and_what_they_are_told():
    seen = []

    class Told(ms.Callback):
        def on_train_begin(self, run_context):
            seen.append("begin")

        def step_end(self, run_context):
            args = run_context.original_args()
            seen.append((args.cur_epoch_num, args.cur_step_num, args.batch_num, args.net_outputs.shape))
            if args.cur_step_num == 5:
                run_context.request_stop()

        def end(self, run_context):
            seen.append("end")

    line_model().train(3, line_data(), callbacks=Told())
    assert seen == ["begin", *((1, i, 4, ()) for i in range(1, 5)), (2, 5, 4, ()), "end"]


def test_train_then_predict_and_evaluate():
    model = line_model(metrics={"loss"})
    model.train(20, line_data())
    assert abs(model.predict(Tensor([1.0])).item() - 2) < 1e-3
    assert model.eval(line_data())["loss"] < 1e-4


def test_fit_evaluates_in_between(capsys):
    model = line_model(metrics={"loss"})
    model.fit(4, line_data(), line_data(), valid_frequency=2, callbacks=ms.LossMonitor(100))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("{")[0] for line in lines] == [f"Eval result: epoch {epoch}, metrics: " for epoch in (2, 4)]
    losses = [float(line.split("'loss': ")[1].rstrip("}")) for line in lines]
    assert losses[1] < losses[0] and losses[1] == model.eval(line_data())["loss"]


def test_parts_of_a_batch_are_added_up():
    def losses(wrap):
        net = Line()
        model = ms.Model(wrap(nn.WithLossCell(net, nn.MSELoss())), optimizer=nn.SGD(net.trainable_params(), 0.001))
        seen = []

        class Seen(ms.Callback):
            def step_end(self, run_context):
                seen.append(run_context.original_args().net_outputs.item())

        model.train(1, line_data(), callbacks=Seen())
        return seen, net.w.item()

    whole, _ = losses(lambda net: net)
    for kind in (nn.GradAccumulationCell, nn.PipelineCell, nn.MicroBatchInterleaved):
        parts, w = losses(lambda net, kind=kind: kind(net, 3))
        np.testing.assert_allclose(parts[0], 3 * whole[0], rtol=1e-6)
    with pytest.raises(ValueError, match="cut into 2"):
        losses(lambda net: nn.GradAccumulationCell(net, 2))


def test_parts_run_side_by_side_inside_of_micro_batches():
    def losses(wrap):
        net = Line()
        step = nn.TrainOneStepCell(wrap(nn.WithLossCell(net, nn.MSELoss())), nn.SGD(net.trainable_params(), 0.001))
        x = np.arange(12, dtype=np.float32)
        return [step(Tensor(x), Tensor(2 * x)).item() for _ in range(3)]

    for wrap, parts, setting in ((lambda net: nn.MicroBatchInterleaved(net, 2), 2, '"micro_batch_interleave": 2'),
                                 (lambda net: nn.PipelineCell(nn.MicroBatchInterleaved(net, 2), 3), 6,
                                  '"micro_batches": 3')):
        have = losses(wrap)
        plan = last_program[0].planned.plan_json()
        assert setting in plan and '"micro_batch_interleave": 2' in plan
        want = losses(lambda net, parts=parts: nn.GradAccumulationCell(net, parts))
        np.testing.assert_allclose(have, want, rtol=1e-6)


def test_print_in_a_program_shows_values_at_each_step(capsys):
    class Shown(nn.Cell):
        def __init__(self):
            super().__init__()
            self.print = ops.Print()

        def construct(self, x):
            self.print("sum of x:", x.sum())
            return x + 1

    net = Shown()
    net(Tensor([1.0, 2.0]))
    net(Tensor([2.0, 2.0]))
    assert capsys.readouterr().out.splitlines() == [
        "sum of x:", "Tensor(shape=[], dtype=Float32, value= 3)",
        "sum of x:", "Tensor(shape=[], dtype=Float32, value= 4)"]


# ---- checkpoints ----

@pytest.mark.parametrize("format", ["ckpt", "safetensors"])
def test_tensors_come_back_from_files(format, tmp_path):
    path = str(tmp_path / f"a.{format}")
    saved = {"w": Tensor(np.arange(6).reshape(2, 3), ms.float32), "n": Tensor(3, ms.int32),
             "flags": Tensor([True, False]), "short": Tensor([1.5, -2.0], ms.bfloat16),
             "half": Tensor([0.5], ms.float16)}
    ms.save_checkpoint(saved, path, append_dict={"epoch_num": 4, "rate": 0.5}, format=format)
    found = ms.load_checkpoint(path, format=format)
    for name, tensor in saved.items():
        assert found[name].dtype is tensor.dtype and found[name].shape == tensor.shape
        assert (found[name].asnumpy() == tensor.asnumpy()).all()
    assert found["epoch_num"].item() == 4 and found["rate"].item() == 0.5


def test_bytes_of_a_ckpt(tmp_path):
    path = tmp_path / "a.ckpt"
    ms.save_checkpoint([{"name": "w", "data": Tensor([1.0])}], str(path))
    assert path.read_bytes() == b"\x0a\x16\x0a\x01w\x12\x11\x08\x01\x12\x07Float32\x1a\x04\x00\x00\x80\x3f"


def test_a_file_that_is_no_checkpoint(tmp_path):
    (tmp_path / "a.ckpt").write_bytes(b"\x0a\xff\x01no")
    with pytest.raises(ValueError, match="is no ckpt file"):
        ms.load_checkpoint(str(tmp_path / "a.ckpt"))
    with pytest.raises(ValueError, match="there is no checkpoint"):
        ms.load_checkpoint(str(tmp_path / "b.ckpt"))


def test_a_net_takes_what_fits(tmp_path):
    net, other = nn.Dense(3, 2), nn.Dense(3, 2)
    net.weight.set_data(net.weight + 1)
    ms.save_checkpoint(net, str(tmp_path / "a.ckpt"))
    values = ms.load_checkpoint(str(tmp_path / "a.ckpt"))
    values["more"] = values.pop("bias")
    assert ms.load_param_into_net(other, values) == (["bias"], ["more"])
    assert (other.weight.asnumpy() == net.weight.asnumpy()).all()
    with pytest.raises(RuntimeError, match="shape"):
        ms.load_param_into_net(nn.Dense(2, 2), values)


def test_training_goes_on_where_a_checkpoint_was_made(tmp_path):
    def momentum_model():
        net = Line()
        return ms.Model(net, nn.MSELoss(), nn.Momentum(net.trainable_params(), 0.001, 0.9)), net

    def config():
        return ms.CheckpointConfig(save_checkpoint_steps=4, keep_checkpoint_max=2,
                                   append_info=["epoch_num", "step_num"])

    whole, net = momentum_model()
    whole.train(3, line_data(), callbacks=ms.ModelCheckpoint("line", str(tmp_path), config()))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["line-2_4.ckpt", "line-3_4.ckpt", "line-graph.meta"]
    found = ms.load_checkpoint(str(tmp_path / "line-2_4.ckpt"))
    assert found["epoch_num"].item() == 2 and found["step_num"].item() == 8 and "moments.w" in found
    rest, resumed = momentum_model()
    assert ms.load_param_into_net(rest.train_network, found) == ([], ["epoch_num", "step_num"])
    rest.train(1, line_data(), callbacks=ms.ModelCheckpoint("line", str(tmp_path), config()))
    np.testing.assert_allclose(resumed.w.item(), net.w.item(), rtol=1e-6)
    assert (tmp_path / "line_1-1_4.ckpt").exists()


def test_batch_norm_does_as_torch_does():
    torch = pytest.importorskip("torch")
    x = np.random.RandomState(0).randn(4, 3, 2, 2).astype(np.float32)
    ours, theirs = nn.BatchNorm2d(3, momentum=0.75), torch.nn.BatchNorm2d(3, momentum=0.25)
    for mode in (True, True, False):
        ours.set_train(mode)
        theirs.train(mode)
        np.testing.assert_allclose(ours(Tensor(x)).asnumpy(), theirs(torch.tensor(x)).detach().numpy(), rtol=1e-4,
                                   atol=1e-5)
    factors = np.random.RandomState(1).randn(*x.shape).astype(np.float32)
    for mode in (True, False):
        ours.set_train(mode)
        theirs.train(mode)
        of_x = ms.grad(lambda x: (ours(x) ** 2 * Tensor(factors)).sum())(Tensor(x))
        v = torch.tensor(x, requires_grad=True)
        (theirs(v) ** 2 * torch.tensor(factors)).sum().backward()
        np.testing.assert_allclose(of_x.asnumpy(), v.grad.numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ours.moving_mean.asnumpy(), theirs.running_mean.numpy(), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(ours.moving_variance.asnumpy(), theirs.running_var.numpy(), rtol=1e-4)
    assert [p.name for p in ours.trainable_params()] == ["gamma", "beta"]


# ---- stages ----

class Lists(nn.Cell):
    def __init__(self):
        super().__init__()
        self.first, self.second = (nn.CellList([nn.Dense(8, 8, weight_init="ones")]) for _ in range(2))
        self.first[0].pipeline_stage, self.second[0].pipeline_stage = 0, 1

    def construct(self, x, y):
        return ((self.second[0](self.first[0](x)) - y) ** 2).mean()


class Held(Lists):
    """Cells of one name in holders that run nothing themselves."""

    def __init__(self):
        super().__init__()
        holders = nn.Cell(), nn.Cell()
        for stage, holder in enumerate(holders):
            holder.inner = nn.Dense(8, 8, weight_init="ones")
            holder.inner.pipeline_stage = stage
        self.first, self.second = holders

    def construct(self, x, y):
        return ((self.second.inner(self.first.inner(x)) - y) ** 2).mean()


@pytest.mark.parametrize("kind, names", [(Lists, ["first.0.matmul", "second.0.matmul"]),
                                         (Held, ["inner.matmul", "inner_1.matmul"])])
def test_cells_of_one_name_have_their_own_stages(kind, names, virtual_devices):
    virtual_devices(2, full_batch=True, pipeline_stages=2)
    net = nn.PipelineCell(kind(), 2)
    x = Tensor(np.ones((8, 8)), ms.float32)
    operators = nn.TrainOneStepCell(net, nn.SGD(net.trainable_params(), 0.1)).compile(x, x).operators()
    assert [(name, said["stage"]) for name, said in operators.items() if name.endswith("matmul")] == list(zip(names, range(2)))


class Chunked(nn.Cell):
    def __init__(self, stages):
        super().__init__()
        self.layers = nn.CellList([nn.Dense(8, 8, weight_init="ones") for _ in stages])
        for layer, stage in zip(self.layers, stages):
            layer.pipeline_stage = stage

    def construct(self, x, y):
        for layer in self.layers:
            x = layer(x) * 0.1
        return ((x - y) ** 2).mean()


def chunked_step(stages, **config):
    ms.set_auto_parallel_context(pipeline_stages=2, pipeline_config=config)
    net = nn.PipelineCell(Chunked(stages), 4)
    return nn.TrainOneStepCell(net, nn.SGD(net.trainable_params(), 0.1 / 4))  # of a sum over 4 parts


@pytest.mark.parametrize("stages, config, schedule", [
    ((0, 1, 0, 1), {"pipeline_interleave": True}, "interleaved:2"),
    ((0, 0, 1, 0, 1, 0, 1), {"pipeline_interleave": True, "pipeline_scheduler": "gpipe"}, "interleaved:3"),
    ((0, 0, 1, 1), {"pipeline_interleave": True}, "1f1b"), ((0, 0, 1, 1), {"pipeline_scheduler": "gpipe"}, "gpipe")])
def test_stages_that_begin_anew_are_chunks(stages, config, schedule, virtual_devices, capfd):
    x, y = (Tensor(np.random.RandomState(i).randn(8, 8), ms.float32) for i in range(2))
    whole = Chunked(stages)
    alone = nn.TrainOneStepCell(whole, nn.SGD(whole.trainable_params(), 0.1))
    expected = [alone(x, y).item() for _ in range(3)]
    virtual_devices(4, full_batch=True)
    step = chunked_step(stages, **config)
    assert json.loads(step.compile(x, y).planned.plan_json())["schedule"] == schedule
    np.testing.assert_allclose([step(x, y).item() / 4 for _ in range(3)], expected, rtol=1e-5)
    told = "pipeline_scheduler 'gpipe' has no effect" in capfd.readouterr().err
    assert told == (schedule != "gpipe" and config.get("pipeline_scheduler") == "gpipe")


def test_chunks_that_cannot_be(virtual_devices):
    virtual_devices(4, full_batch=True)
    x = Tensor(np.ones((8, 8)), ms.float32)
    with pytest.raises(ValueError, match="stage 0 is asked for 'layers.2', but it reads .* an operator cannot read from a later stage"):
        chunked_step((0, 1, 0, 1))(x, x)
    with pytest.raises(ValueError, match="stage of 'layers.1': it is 2 but there are 2 stages, from 0 on"):
        chunked_step((0, 2, 0, 1), pipeline_interleave=True)(x, x)
    with pytest.raises(ValueError, match="pipeline_scheduler 'seqpipe' is not in this front end; there are 1f1b, gpipe"):
        ms.set_auto_parallel_context(pipeline_config={"pipeline_scheduler": "seqpipe"})
    with pytest.raises(ValueError, match="'pipeline_interleaved' is unknown; did you mean 'pipeline_interleave'"):
        ms.set_auto_parallel_context(pipeline_config={"pipeline_interleaved": True})
    with pytest.raises(TypeError, match="pipeline_interleave is True or False, not 2"):
        ms.set_auto_parallel_context(pipeline_config={"pipeline_interleave": 2})
    with pytest.raises(ValueError, match="optimizer_level is level1, level2, level3, not 'level4'"):
        ms.set_auto_parallel_context(parallel_optimizer_config={"optimizer_level": "level4"})

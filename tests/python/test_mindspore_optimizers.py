"""Optimizers and learning rates, beside PyTorch, or numpy where PyTorch has another formula or none."""

import numpy as np
import pytest
from mindspore_fixtures import settings, virtual_devices  # noqa: F401

import mindspore as ms
from mindspore import Parameter, Tensor, nn

pytestmark = pytest.mark.usefixtures("settings")
start = np.linspace(-1, 1, 6, dtype=np.float32)
gradients = [np.cos(start * k).astype(np.float32) for k in (1, 2, 3, 4)]


def after_steps(make, names=("w",)):
    """What an optimizer makes of parameters in four steps."""
    parameters = [Parameter(Tensor(start), name=name) for name in names]
    optimizer = make(parameters)
    for g in gradients:
        optimizer((Tensor(g),) * len(names))
    return [p.asnumpy() for p in parameters], optimizer


@pytest.mark.parametrize("ours, theirs", [
    (lambda p: nn.SGD(p, 0.1, 0.9, dampening=0.5, weight_decay=0.1),
     lambda t, p: t.optim.SGD(p, 0.1, 0.9, 0.5, weight_decay=0.1)),
    (lambda p: nn.SGD(p, 0.1, dampening=0.5), lambda t, p: t.optim.SGD(p, 0.1, dampening=0.5)),
    (lambda p: nn.Adagrad(p, accum=0.2, learning_rate=0.1, weight_decay=0.1),
     lambda t, p: t.optim.Adagrad(p, 0.1, initial_accumulator_value=0.2, weight_decay=0.1))])
def test_as_torch_does(ours, theirs):
    torch = pytest.importorskip("torch")
    v = torch.tensor(start, requires_grad=True)
    reference = theirs(torch, [v])
    for g in gradients:
        v.grad = torch.tensor(g)
        reference.step()
    np.testing.assert_allclose(after_steps(ours)[0][0], v.detach().numpy(), rtol=1e-5, atol=1e-6)


def adam_weight_decay(w, g, s, t, rate=0.1, decay=0.2):
    s["m"], s["v"] = 0.9 * s.get("m", 0) + 0.1 * g, 0.999 * s.get("v", 0) + 0.001 * g**2
    return w - rate * (s["m"] / (np.sqrt(s["v"]) + 1e-6) + decay * w)


def lamb(w, g, s, t, rate=0.1, decay=0.2):
    s["m"], s["v"] = 0.9 * s.get("m", 0) + 0.1 * g, 0.999 * s.get("v", 0) + 0.001 * g**2
    d = s["m"] / (1 - 0.9**t) / (np.sqrt(s["v"] / (1 - 0.999**t)) + 1e-6) + decay * w
    return w - rate * np.linalg.norm(w) / np.linalg.norm(d) * d


def rmsprop(w, g, s, t, is_centered, rate=0.1):
    s["s"] = 0.9 * s.get("s", 1) + 0.1 * g**2
    s["n"] = 0.9 * s.get("n", 0) + 0.1 * g
    s["m"] = 0.5 * s.get("m", 0) + rate * g / np.sqrt(s["s"] - is_centered * s["n"] ** 2 + 1e-10)
    return w - s["m"]


def nesterov_adam(w, g, s, t, rate=0.1, decay=0.2):
    g = g + decay * w
    s["m"], s["v"] = 0.9 * s.get("m", 0) + 0.1 * g, 0.999 * s.get("v", 0) + 0.001 * g**2
    return w - rate * np.sqrt(1 - 0.999**t) / (1 - 0.9**t) * (0.9 * s["m"] + 0.1 * g) / (np.sqrt(s["v"]) + 1e-3)


def lars(w, g, s, t, rate=0.1, decay=0.2, is_clipped=False):
    trust = 0.05 * np.linalg.norm(w) / (np.linalg.norm(g) + decay * np.linalg.norm(w) + 0.01)
    g = (min(trust / rate, 1) if is_clipped else trust) * (g + decay * w)
    s["m"] = 0.5 * s.get("m", 0) + g
    return w - rate * s["m"]


def with_lars(p, coefficient=0.05, **settings):
    return nn.LARS(nn.Momentum(p, 0.1, 0.5, weight_decay=0.2), epsilon=0.01, coefficient=coefficient, **settings)


@pytest.mark.parametrize("ours, formula", [
    (lambda p: nn.Adam(p, 0.1, eps=1e-3, use_nesterov=True, weight_decay=0.2), nesterov_adam),
    (with_lars, lars), (lambda p: with_lars(p, use_clip=True), lambda *a: lars(*a, is_clipped=True)),
    (lambda p: nn.AdamWeightDecay(p, 0.1, weight_decay=0.2), adam_weight_decay),
    (lambda p: nn.Lamb(p, 0.1, weight_decay=0.2), lamb),
    (lambda p: nn.RMSProp(p, 0.1, momentum=0.5), lambda *a: rmsprop(*a, is_centered=0)),
    (lambda p: nn.RMSProp(p, 0.1, momentum=0.5, centered=True), lambda *a: rmsprop(*a, is_centered=1))])
def test_as_its_formula_says(ours, formula):
    w, states = start.astype(float), {}
    for t, g in enumerate(gradients, 1):
        w = formula(w, g.astype(float), states, t)
    np.testing.assert_allclose(after_steps(ours)[0][0], w, rtol=1e-5, atol=1e-6)


def test_a_clipped_trust_leaves_what_the_rate_says():
    # Its trust is above the rate, so that gradients with their decay are what they are; without LARS just so.
    found, optimizer = after_steps(lambda p: with_lars(p, 100.0, use_clip=True), ("w", "bias"))
    np.testing.assert_allclose(found[0], after_steps(lambda p: nn.Momentum(p, 0.1, 0.5, 0.2))[0][0], rtol=1e-6)
    np.testing.assert_allclose(found[1], after_steps(lambda p: nn.Momentum(p, 0.1, 0.5))[0][0], rtol=1e-6)
    assert optimizer.global_step == 4
    assert sorted(optimizer.opt.states()) == ["global_step", "learning_rate", "moments.bias", "moments.w", "momentum"]


def test_groups_have_their_rates_and_decays():
    def make(p):
        return nn.AdamWeightDecay([{"params": p[:1], "lr": 0.1, "weight_decay": 0.2}, {"params": p[1:]}], [0.3, 0.2])

    (w, v, gamma), _ = after_steps(make, ("w", "v", "gamma"))
    np.testing.assert_allclose(w, after_steps(lambda p: nn.AdamWeightDecay(p, 0.1, weight_decay=0.2))[0][0], rtol=1e-6)
    np.testing.assert_allclose(v, after_steps(lambda p: nn.AdamWeightDecay(p, [0.3, 0.2, 0.2]))[0][0], rtol=1e-6)
    np.testing.assert_allclose(v, gamma)


@pytest.mark.parametrize("devices, parts", [(1, 1), (1, 2), (4, 2)])
@pytest.mark.parametrize("make", [
    lambda p: nn.AdamWeightDecay(p, nn.PolynomialDecayLR(0.1, 0.01, 3, 1.0), weight_decay=0.1),
    lambda p: nn.Lamb(p, 0.1), lambda p: nn.RMSProp(p, 0.01, momentum=0.5), lambda p: nn.SGD(p, 0.1, 0.9, 0.5),
    lambda p: nn.Adam(p, 0.1, use_nesterov=True), with_lars],
    ids=["adam_weight_decay", "lamb", "rmsprop", "dampened_sgd", "nesterov_adam", "lars"])
def test_devices_and_parts_of_the_batch_change_nothing(make, devices, parts, virtual_devices):
    class Times(nn.Cell):
        def __init__(self, net):
            super().__init__(auto_prefix=False)
            self.net = net

        def construct(self, *inputs):
            return self.net(*inputs) * parts

    def trained(devices, wrap, **context):
        virtual_devices(devices, full_batch=True, **context)
        ms.set_seed(3)
        net = nn.SequentialCell(nn.Dense(8, 16), nn.ReLU(), nn.Dense(16, 4))
        with_loss = nn.WithLossCell(net, nn.MSELoss())
        step = nn.TrainOneStepCell(wrap(with_loss), make(net.trainable_params()))
        draw = np.random.RandomState(0)
        x, y = (Tensor(draw.randn(8, n).astype(np.float32)) for n in (8, 4))
        return [step(x, y).item() for _ in range(4)]

    found = trained(devices, lambda net: nn.GradAccumulationCell(net, parts), enable_parallel_optimizer=devices > 1)
    np.testing.assert_allclose(found, trained(1, Times), rtol=1e-5)


def test_states_come_back():
    _, first = after_steps(lambda p: nn.AdamWeightDecay(p, 0.1))
    states = first.states()
    assert list(states) == ["adam_m.w", "adam_v.w", "learning_rate", "global_step"]
    assert states["global_step"].asnumpy().tolist() == [4]
    other = nn.AdamWeightDecay([Parameter(Tensor(start), name="w")], 0.5)
    assert sorted(other.load_states(dict(states))) == sorted(states)
    assert (other.states()["adam_v.w"].asnumpy() == states["adam_v.w"].asnumpy()).all()
    assert other.global_step == 4 and other.get_lr().item() == np.float32(0.1)


@pytest.fixture
def compiled(monkeypatch):
    """A list that grows with each program."""
    from mindspore import _compile

    made = []
    monkeypatch.setattr(_compile, "_planned", lambda *a, plan=_compile._planned: (made.append(1), plan(*a))[1])
    return made


rates = [nn.CosineDecayLR(0.01, 0.1, 4), [0.3, 0.2, 0.1], 0.05]


@pytest.mark.parametrize("kind", [
    lambda p, rate: nn.Momentum(p, rate, 0.9, weight_decay=0.1), lambda p, rate: nn.Adam(p, rate),
    lambda p, rate: nn.AdamWeightDecay(p, rate)], ids=["momentum", "adam", "adam_weight_decay"])
def test_scheduled_rates_do_not_compile_each_step_anew(kind, compiled):
    alone = [after_steps(lambda p: kind(p, rate))[0][0] for rate in rates]
    assert len(compiled) == len(rates)
    together, optimizer = after_steps(
        lambda p: kind([{"params": p[:1], "lr": rates[0]}, {"params": p[1:2], "lr": rates[1]}, {"params": p[2:]}], rates[2]), "wvu")
    np.testing.assert_allclose(together, alone, rtol=1e-6)
    assert len(compiled) == len(rates) + 1
    np.testing.assert_allclose([r.item() for r in optimizer.get_lr()], [0.01, 0.1, 0.05], rtol=1e-6)


class Halves(nn.LearningRateSchedule):
    """0.2, 0.1, 0.05, ..."""

    def construct(self, global_step):
        return 0.2 * ms.ops.pow(Tensor(0.5), ms.ops.cast(global_step, ms.float32))


@pytest.mark.parametrize("make, formula", [
    (lambda p, d: nn.SGD(p, 0.1, weight_decay=d), lambda w, g, s, t, decay: w - 0.1 * (g + decay * w)),
    (lambda p, d: nn.Momentum([{"params": p, "weight_decay": d}], 0.1, 0.0), lambda w, g, s, t, decay: w - 0.1 * (g + decay * w)),
    (lambda p, d: nn.Adam(p, 0.1, eps=1e-3, use_nesterov=True, weight_decay=d),
     lambda w, g, s, t, decay: nesterov_adam(w, g, s, t, decay=decay)),
    (lambda p, d: nn.AdamWeightDecay(p, 0.1, weight_decay=d),
     lambda w, g, s, t, decay: adam_weight_decay(w, g, s, t, decay=decay)),
    (lambda p, d: nn.Lamb(p, 0.1, weight_decay=d), lambda w, g, s, t, decay: lamb(w, g, s, t, decay=decay))],
    ids=["sgd", "momentum", "nesterov_adam", "adam_weight_decay", "lamb"])
def test_a_scheduled_weight_decay(request, make, formula, compiled):
    (found, gamma), optimizer = after_steps(lambda p: make(p, Halves()), ("w", "gamma"))
    assert len(compiled) == 1
    is_group = request.node.callspec.id == "momentum"  # whose decay is said for it: gammas decay, too
    for name, result in (("w", found), ("gamma", gamma)):
        w, states = start.astype(float), {}
        for t, g in enumerate(gradients, 1):
            w = formula(w, g.astype(float), states, t, 0.2 * 0.5 ** (t - 1) if name == "w" or is_group else 0.0)
        np.testing.assert_allclose(result, w, rtol=1e-5, atol=1e-6)
    assert not any("decay" in name for name in optimizer.states())


@pytest.mark.parametrize("devices", [1, 4])
def test_optimizers_of_one_program_have_their_rates(devices, compiled, virtual_devices):
    virtual_devices(devices, full_batch=True, enable_parallel_optimizer=devices > 1)
    parameters = [Parameter(Tensor(np.tile(start, (4, 1))), name=name) for name in "wvu"]
    optimizers = [nn.Momentum(parameters[:2], rates[0], 0.9, weight_decay=0.1), nn.Adam(parameters[2:], rates[1])]

    @ms.jit
    def step(g):
        optimizers[0]((g, g))
        return optimizers[1]((g,))

    for g in gradients:
        step(Tensor(np.tile(g, (4, 1))))
    assert len(compiled) == 1
    expected = [after_steps(lambda p: make(p))[0][0] for make in (
        lambda p: nn.Momentum(p, rates[0], 0.9, weight_decay=0.1), lambda p: nn.Adam(p, rates[1]))]
    for p, row in zip(parameters, [expected[0], *expected]):
        np.testing.assert_allclose(p.asnumpy(), np.tile(row, (4, 1)), rtol=1e-6)


def test_a_rate_that_is_set_counts_from_then_on(compiled):
    w = Parameter(Tensor(start), name="w")
    optimizer = nn.SGD([{"params": [w], "lr": 0.5}], 0.1)
    for rate in (0.5, 0.25):
        before = w.asnumpy()
        optimizer.learning_rate.set_data(Tensor(rate))
        optimizer((Tensor(gradients[0]),))
        np.testing.assert_allclose(before - w.asnumpy(), rate * gradients[0], rtol=1e-5)
    assert len(compiled) == 1


# ---- learning rates: the figures that the documents of the described system print ----

@pytest.mark.parametrize("rates, expected", [
    (nn.piecewise_constant_lr([2, 5, 10], [0.1, 0.05, 0.01]), [0.1, 0.1, 0.05, 0.05, 0.05] + [0.01] * 5),
    (nn.exponential_decay_lr(0.1, 0.9, 6, 2, 1), [0.1, 0.1, 0.09, 0.09, 0.081, 0.081]),
    (nn.natural_exp_decay_lr(0.1, 0.9, 6, 2, 2, True), [0.1] * 4 + [0.016529888822158657] * 2),
    (nn.inverse_decay_lr(0.1, 0.5, 6, 1, 1, True), [0.1, 0.2 / 3, 0.05, 0.04, 0.1 / 3, 0.2 / 7]),
    (nn.cosine_decay_lr(0.01, 0.1, 6, 2, 2), [0.1, 0.1, 0.055, 0.055, 0.01, 0.01]),
    (nn.polynomial_decay_lr(0.1, 0.01, 6, 2, 2, 0.5), [0.1, 0.1, 0.07363961030678928, 0.07363961030678928, 0.01, 0.01]),
    (nn.warmup_lr(0.1, 6, 2, 2), [0.0, 0.0, 0.05, 0.05, 0.1, 0.1])])
def test_lists_of_rates(rates, expected):
    np.testing.assert_allclose(rates, expected, rtol=1e-12)


@pytest.mark.parametrize("schedule, list_of_steps", [
    (nn.ExponentialDecayLR(0.1, 0.9, 2), nn.exponential_decay_lr(0.1, 0.9, 6, 1, 2)),
    (nn.ExponentialDecayLR(0.1, 0.9, 2, True), nn.exponential_decay_lr(0.1, 0.9, 6, 1, 2, True)),
    (nn.NaturalExpDecayLR(0.1, 0.9, 2, True), nn.natural_exp_decay_lr(0.1, 0.9, 6, 1, 2, True)),
    (nn.InverseDecayLR(0.1, 0.5, 2), nn.inverse_decay_lr(0.1, 0.5, 6, 1, 2)),
    (nn.CosineDecayLR(0.01, 0.1, 4), nn.cosine_decay_lr(0.01, 0.1, 6, 1, 4)),
    (nn.PolynomialDecayLR(0.1, 0.01, 4, 0.5), nn.polynomial_decay_lr(0.1, 0.01, 6, 1, 4, 0.5)),
    (nn.PolynomialDecayLR(0.1, 0.01, 2, 0.5, True), nn.polynomial_decay_lr(0.1, 0.01, 6, 1, 2, 0.5, True)),
    (nn.WarmUpLR(0.1, 2), nn.warmup_lr(0.1, 6, 1, 2))])
def test_schedules_do_as_lists_of_epochs_of_one_step(schedule, list_of_steps):
    found = [schedule(Tensor(i, ms.int32)).item() for i in range(6)]
    np.testing.assert_allclose(found, list_of_steps, rtol=1e-5, atol=1e-7)


def test_wrong_settings_are_told():
    for wrong, error in ((lambda: nn.cosine_decay_lr(0.1, 0.01, 6, 2, 2), "max_lr"),
                         (lambda: nn.piecewise_constant_lr([5, 2], [0.1, 0.1]), "milestones"),
                         (lambda: nn.WarmUpLR(0.1, 0), "warmup_steps"),
                         (lambda: nn.Lamb([Parameter(Tensor(1.0))], 0.1, beta1=1.0), "beta1"),
                         (lambda: nn.SGD([Parameter(Tensor(1.0))], momentum=0.9, dampening=0.1, nesterov=True), "nesterov"),
                         (lambda: nn.LARS(nn.SGD([Parameter(Tensor(1.0))]), epsilon=0.0), "epsilon"),
                         (lambda: nn.LARS(nn.SGD([Parameter(Tensor(1.0))], weight_decay=Halves())), "weight_decay is a schedule"),
                         (lambda: nn.SGD([Parameter(Tensor(1.0))], weight_decay=-1), "weight_decay is 0 or more, not -1"),
                         *((lambda wrong=wrong: nn.SGD([Parameter(Tensor(1.0))], wrong), "a learning rate is 0 or more, not")
                           for wrong in (-0.1, float("nan"), float("inf"), [0.1, float("nan")], Tensor([-1.0])))):
        with pytest.raises(ValueError, match=error):
            wrong()
    with pytest.raises(TypeError, match="weight_decay is a number or a schedule, not 'x'"):
        nn.SGD([{"params": [Parameter(Tensor(1.0))], "weight_decay": "x"}])
    with pytest.raises(TypeError, match="LARS takes an optimizer"):
        nn.LARS([Parameter(Tensor(1.0))])
    with pytest.raises(TypeError, match="total_step"):
        nn.warmup_lr(0.1, 6.5, 2, 2)

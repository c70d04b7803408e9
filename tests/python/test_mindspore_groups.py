"""Weight decay of groups, names of regions."""

import mindspore_fixtures  # noqa: F401, which finds mindspore
import numpy as np


def test_a_group_decays_betas_and_gammas_as_its_weight_decay_says():
    import mindspore as ms
    from mindspore import nn
    p = ms.Parameter(ms.Tensor(np.ones(2, np.float32)), name="norm.gamma")
    zero = ms.Tensor(np.zeros(2, np.float32))
    nn.SGD([{"params": [p], "weight_decay": 0.5}], 0.1)((zero,))
    assert np.allclose(p.asnumpy(), 0.95)
    q = ms.Parameter(ms.Tensor(np.ones(2, np.float32)), name="norm.gamma")
    nn.SGD([q], 0.1, weight_decay=0.5)((zero,))
    assert np.allclose(q.asnumpy(), 1)


def test_a_sharded_cell_under_a_second_name_keeps_its_names():
    from mindspore import nn

    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.b1 = nn.Dense(4, 4)
            self.b2 = self.b1.shard(((1, 1),))

    assert [p.name for p in Net().trainable_params()] == ["b1.weight", "b1.bias"]


def test_adams_eps_stands_beside_the_plain_root():
    import mindspore as ms
    from mindspore import nn
    p = ms.Parameter(ms.Tensor(np.zeros(2, np.float32)), name="w")
    optimizer = nn.Adam([p], 0.001)
    for _ in range(3):
        optimizer((ms.Tensor(np.full(2, 1e-6, np.float32)),))
    m = v = w = 0.0
    for t in range(1, 4):
        m, v = 0.9 * m + 0.1e-6, 0.999 * v + 0.001e-12
        w -= 0.001 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t) * m / (np.sqrt(v) + 1e-8)
    np.testing.assert_allclose(p.asnumpy(), w, rtol=1e-5)
    np.testing.assert_allclose(w, -2.423e-3, rtol=1e-3)


def test_a_mean_does_not_count_the_padding_that_same_chooses():
    import mindspore as ms
    from mindspore import nn
    x = ms.Tensor(np.ones((1, 1, 3, 3), np.float32))
    assert (nn.AvgPool2d(3, 1, pad_mode="same")(x).asnumpy() == 1).all()
    assert nn.AvgPool2d(3, 1, pad_mode="pad", padding=1)(x).asnumpy()[0, 0, 0, 0] < 1


def test_each_call_outside_of_training_programs_drops_others():
    import mindspore as ms
    from mindspore import nn
    ms.set_context(mode=ms.PYNATIVE_MODE)
    x = ms.Tensor(np.ones((8, 8), np.float32))
    net = nn.Dropout(p=0.5)
    net.set_train()
    function = ms.jit(lambda x: net(x))
    gradient = ms.value_and_grad(lambda x: net(x).sum())
    for call in (net, function, lambda x: gradient(x)[1]):
        first, second = call(x).asnumpy(), call(x).asnumpy()
        assert set(np.unique(first)) == {0, 2} and (first != second).any()
    net.set_train(False)
    assert (net(x).asnumpy() == 1).all()

"""Weight decay of groups, names of regions."""

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

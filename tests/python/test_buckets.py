"""Sequences of all lengths: `fit` on `sw.data.Buckets`, the losses of whole batches filled up to the longest on one device."""

import numpy
import pytest

import shardwright as sw

generator = numpy.random.default_rng(5)
lengths = [4, 8, 16]
sequences = [{"ids": generator.integers(0, 30, n).astype(numpy.int32), "label": generator.integers(0, 30, n).astype(numpy.int32)}
             for n in generator.integers(1, 17, 43)]


class Net:
    def __init__(self):
        self.embedding, self.mix = sw.nn.Embedding(30, 12), sw.nn.Dense(12, 12)
        self.head = sw.nn.Dense(12, 30)

    def __call__(self, ids, mask):
        x = self.embedding(ids)
        x = x + sw.ops.relu(self.mix(x)) * mask.reshape(*mask.shape, 1)
        return self.head(x)


def loss(net, ids, label, mask):
    p = sw.ops.softmax(net(ids, mask))
    each = -sw.ops.log((p * sw.ops.one_hot(label, 30, dtype=p.dtype)).sum(-1))
    return (each * mask).sum() / mask.sum()


def step_of(devices=1, **options):
    sw.set_seed(1)
    return sw.train_step(loss, Net(), sw.optim.adamw(0.05), devices=devices, precision="f64", **options)


def buckets(of=lengths, seed=3):
    return sw.data.Buckets(sequences, lengths=of, batch=4, seed=seed)


def filled_up(data, step):
    """A batch as it would be of the longest."""
    batch = data[step]
    missing = lengths[-1] - batch["ids"].shape[1]
    return {name: numpy.pad(a, ((0, 0), (0, missing))) for name, a in batch.items()}


def test_each_sample_comes_once_an_epoch():
    data = buckets()
    assert sum(data.samples) == len(sequences)
    assert len(data) == sum(-(-n // 4) for n in data.samples)
    for epoch in range(2):
        seen = []
        for step in range(epoch * len(data), (epoch + 1) * len(data)):
            batch = data[step]
            for ids, label, mask in zip(batch["ids"], batch["label"], batch["mask"]):
                own = int(mask.sum())
                assert (mask[:own] == 1).all() and (ids[own:] == 0).all()
                seen += [(*ids[:own], *label[:own])] if own else []
        assert sorted(seen) == sorted((*s["ids"], *s["label"]) for s in sequences)


@pytest.mark.parametrize("options", [{"devices": 1}, {"devices": 2}, {"devices": 4, "fix": "dp=2,tp=2"},
                                     {"devices": 2, "optimizer_parallel": 1}, {"devices": 2, "search": "recursive"}])
def test_the_losses_are_those_of_the_longest(options):
    data = buckets()
    count = len(data) + 3
    whole = step_of()
    want = [float(whole(*filled_up(data, step).values())) for step in range(count)]
    step = step_of(**options)
    assert sw.fit(step, data, steps=count).losses == pytest.approx(want, rel=1e-9)
    batch = data[count]
    assert float(step(*batch.values())) == pytest.approx(float(whole(*filled_up(data, count).values())), rel=1e-9)


def test_a_run_goes_on_with_its_lengths(tmp_path):
    data, run = buckets(), str(tmp_path / "run")
    want = sw.fit(step_of(), data, steps=9).losses
    assert sw.fit(step_of(), data, steps=5, save=run).losses == pytest.approx(want[:5], rel=1e-9)
    with pytest.raises(ValueError, match="buckets 4,16: .* was trained with buckets 4,8,16, which orders its data"):
        sw.fit(step_of(), buckets([4, 16]), steps=9, resume=run)
    assert sw.fit(step_of(2), data, steps=9, resume=run).losses == pytest.approx(want[5:], rel=1e-9)


def test_what_is_wrong_is_told():
    for of, why in [([8, 4], "lengths 8, 4: should ascend"), ([], "lengths: there is none"), ([0, 4], "should ascend, from 1 on"),
                    ([4, 8], "has a length of .*, but the longest is 8")]:
        with pytest.raises(ValueError, match=why):
            buckets(of)
    with pytest.raises(ValueError, match="samples: there is none"):
        sw.data.Buckets([], lengths=[4], batch=2)
    with pytest.raises(ValueError, match="mask: samples have a column 'label'"):
        sw.data.Buckets(sequences, lengths, 4, mask="label")
    with pytest.raises(ValueError, match="fill: samples have no column 'other'"):
        sw.data.Buckets(sequences, lengths, 4, fill={"other": 1})
    with pytest.raises(ValueError, match="sample 1 has x"):
        sw.data.Buckets([numpy.zeros(3, numpy.int32), numpy.int32(4)], lengths, 4)
    with pytest.raises(ValueError, match="sample 1: 'y' is int32.2."):
        sw.data.Buckets([{"x": numpy.zeros(3), "y": numpy.zeros(3, numpy.int32)}, {"x": numpy.zeros(3), "y": numpy.zeros(2, numpy.int32)}],
                        lengths, 4)
    with pytest.raises(ValueError, match="is for one length"):
        sw.fit(sw.model_step("ffn", sw.optim.sgd(0.1)), buckets(), steps=1)

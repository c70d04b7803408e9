"""Data sets: files that others wrote, transforms against PyTorch and PIL, functions of Python's, threads."""

import signal
import threading
import time

import mindspore_fixtures  # noqa: F401
import numpy as np
import pytest
from mindspore_fixtures import digits, settings  # noqa: F401

import mindspore as ms
import mindspore.dataset as ds
import shardwright as sw
from shardwright import data

torch = pytest.importorskip("torch")
image_library = pytest.importorskip("PIL.Image")


def picture(height, width, channels=3):
    return np.random.default_rng(height).integers(0, 256, (height, width, channels), dtype=np.uint8)


def as_torch(image):
    return torch.from_numpy(image.transpose(2, 0, 1)[None].astype(np.float32))


@pytest.mark.parametrize("size", [(5, 9), (16, 8), (7, 7)])
@pytest.mark.parametrize("ours, theirs", [("linear", "bilinear"), ("nearest", "nearest"), ("area", "area")])
def test_resize_is_that_of_pytorch(size, ours, theirs):
    image = picture(12, 10).astype(np.float32)
    found, = data.resize(size, ours)(image)
    how = {"align_corners": False} if theirs == "bilinear" else {}
    want = torch.nn.functional.interpolate(as_torch(image), size, mode=theirs, **how)[0].numpy().transpose(1, 2, 0)
    np.testing.assert_allclose(found.numpy(), want, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("name, how", [("a.png", {}), ("a.jpg", {"quality": 90}), ("a.ppm", {})])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_images_are_those_that_pil_reads(tmp_path, name, how, mode):
    image_library.fromarray(picture(20, 13)).convert(mode).save(tmp_path / name, **how)
    want = np.asarray(image_library.open(tmp_path / name).convert("RGB"))
    assert np.abs(data.read_image(str(tmp_path / name)).numpy().astype(int) - want).max() <= 1


def test_transparency_is_left_out(tmp_path):
    image_library.fromarray(picture(6, 5, 4), "RGBA").save(tmp_path / "a.png")
    want = np.asarray(image_library.open(tmp_path / "a.png").convert("RGB"))
    assert (data.read_image(str(tmp_path / "a.png")).numpy() == want).all()


def test_folders_tokens_and_arrays(tmp_path):
    for name, height in (("cat", 4), ("dog", 6)):
        (tmp_path / "in" / name).mkdir(parents=True)
        image_library.fromarray(picture(height, 5)).save(tmp_path / "in" / name / "1.png")
    both = list(data.image_folder(tmp_path / "in"))
    assert [(i.shape, label.item()) for i, label in both] == [((4, 5, 3), 0), ((6, 5, 3), 1)]
    np.save(tmp_path / "t.npy", np.arange(10, dtype=np.uint16))
    assert [x.numpy().tolist() for x in list(data.tokens(tmp_path / "t.npy", 3))[2]] == [[6, 7, 8], [7, 8, 9]]
    rows = data.arrays(x=np.arange(5.0), y=np.arange(5)).batch(2, drop_last=False)
    assert len(rows) == 3 and [x.numpy().tolist() for x, _ in rows] == [[0, 1], [2, 3], [4]]


def test_functions_and_generators_of_python_s():
    def pairs():
        for i in range(5):
            yield np.float32(i), np.full(2, i, np.int16)

    rows = data.generator(pairs, ["a", "b"])
    assert len(rows) == 5 and sorted(a.item() for a, _ in rows.shuffle(1, buffer=3)) == [0, 1, 2, 3, 4]
    assert [a.numpy().tolist() for a, _ in rows.map(lambda a: a * 2).batch(2)] == [[0, 2], [4, 6]]
    assert [a.item() for a, _ in rows.repeat(2)] == [0, 1, 2, 3, 4] * 2
    with pytest.raises(ZeroDivisionError):
        next(iter(rows.map(lambda a: 1 / 0)))
    with pytest.raises(sw.ShardwrightError, match="columns 'a', 'b': map makes 3 results for 2 columns"):
        next(iter(rows.map(lambda a, b: (a, b, a), columns=["a", "b"])))


def test_an_endless_reader_ends_when_it_is_let_go():
    before = threading.active_count()
    for _ in range(20):
        next(iter(data.arrays(np.arange(10)).repeat().batch(3)))
    assert threading.active_count() == before


def test_an_interrupt_reaches_who_waits():
    def stop(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    start = time.time()
    with pytest.raises(KeyboardInterrupt):
        for _ in data.arrays(np.zeros((4, 8, 8, 3), np.uint8)).map(data.resize((500, 500))).repeat().batch(40):
            pass
    assert time.time() - start < 5


# ---- MindSpore's names ----

def test_iterators_count_their_epochs():
    rows = ds.NumpySlicesDataset(np.arange(3), "x", shuffle=False)
    assert next(rows.create_dict_iterator(output_numpy=True))["x"] == 0
    iterator = rows.create_tuple_iterator(num_epochs=2, output_numpy=True)
    assert [int(x) for _ in range(2) for x, in iterator] == [0, 1, 2] * 2
    with pytest.raises(RuntimeError, match="num_epochs"):
        list(iterator)


def test_samplers_and_parts():
    rows = ds.NumpySlicesDataset(np.arange(7), "x", sampler=ds.DistributedSampler(3, 1, shuffle=False))
    assert [int(x) for x, in rows] == [1, 4, 0]
    head, tail = ds.NumpySlicesDataset(np.arange(10), "x", shuffle=False).split([0.7, 0.3], randomize=False)
    assert [int(x) for x, in head + tail] == list(range(10))


def test_what_would_do_something_and_does_not_is_refused():
    rows = ds.NumpySlicesDataset(np.arange(3), "x")
    with pytest.raises(TypeError, match="batch: 'per_batch_map' is not in this front end"):
        rows.batch(2, per_batch_map=lambda *a: a)
    for name in ("VOCDataset", "TFRecordDataset"):
        with pytest.raises(AttributeError, match=name):
            getattr(ds, name)


def test_images_in_folders_are_decoded_later(tmp_path):
    (tmp_path / "cat").mkdir()
    image_library.fromarray(picture(8, 12)).save(tmp_path / "cat" / "1.png")
    rows = ds.ImageFolderDataset(str(tmp_path))
    assert rows.get_class_indexing() == {"cat": 0} and rows.output_shapes()[0] != [8, 12, 3]
    rows = rows.map([ds.vision.Decode(), ds.vision.Resize(4), ds.vision.CenterCrop(4), ds.vision.ToTensor()], "image")
    image, label = next(iter(rows.batch(1)))
    assert image.shape == (1, 3, 4, 4) and image.dtype is ms.float32 and int(label) == 0

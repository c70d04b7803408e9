"""Files of rows: what is written is read, by MindSpore too; what is damaged is told."""

import os
import random

import numpy as np
import pytest
from mindspore_fixtures import settings  # noqa: F401

import mindspore.dataset as ds
from mindspore.mindrecord import FileReader, FileWriter
from mindspore.mindrecord import files, packed

pytestmark = pytest.mark.usefixtures("settings")
SCHEMA = {"name": {"type": "string"}, "label": {"type": "int32"}, "image": {"type": "bytes"}, "share": {"type": "float64"},
          "box": {"type": "float32", "shape": [2, 2]}, "ids": {"type": "int64", "shape": [-1]}}


def _row(i):
    return {"name": f"n{i}" * 9, "label": i * 3000 - 5000, "image": bytes(range(i + 1)), "share": 0.1 * i,
            "box": np.full((2, 2), i, np.float32), "ids": np.arange(i, dtype=np.int64) ** 5 - 200}


def _written(path, count=9, shards=1, page=None):
    writer = FileWriter(path, shards, overwrite=True)
    writer.add_schema(SCHEMA, "rows")
    writer.add_index(["label"])
    if page:
        writer.set_page_size(page)
    writer.write_raw_data([_row(i) for i in range(count)])
    writer.commit()
    return path


def _is_same(found, wanted):
    return set(found) == set(wanted) and all(
        np.array_equal(found[k], wanted[k]) and getattr(found[k], "dtype", None) == getattr(wanted[k], "dtype", None) for k in wanted)


@pytest.mark.parametrize("shards, page", [(1, None), (3, None), (1, 1 << 15)])
def test_rows_come_back(tmp_path, shards, page):
    path = _written(str(tmp_path / "a.mindrecord"), 40, shards, page)
    reader = FileReader(path + "0" if shards > 1 else path)
    assert reader.len() == 40
    assert all(_is_same(found, _row(i)) for i, found in enumerate(reader.get_next()))


def test_a_row_as_mindspore_2_10_writes_it():
    """Its bytes, of {"file_name": "f1.jpg", "label": 3, "score": 0.5} and an array of [-150, -50]."""
    raw = b"\x83\xa9file_name\xa6f1.jpg\xa5label\x03\xa5score\xca?\x00\x00\x00"
    assert packed.unpack(raw) == {"file_name": "f1.jpg", "label": 3, "score": 0.5}
    assert packed.pack({"file_name": "f1.jpg", "label": 3, "score": 0.5}) == raw
    whole = np.array([-150, -50, 7, 1 << 40], np.int64)
    held = files._squeezed(whole)
    assert held[:5] == b"\x00\x00\x00\x04\x43" and len(held) == 5 + 2 + 1 + 1 + 8
    np.testing.assert_array_equal(files._stretched(held, "int64", "x"), whole)


def test_a_data_set_of_rows(tmp_path):
    path = _written(str(tmp_path / "a.mindrecord"), 12, 2)
    data = ds.MindDataset(path + "0", ["image", "label", "ids"], shuffle=False, num_samples=5)
    assert data.get_col_names() == ["image", "label", "ids"] and data.get_dataset_size() == 5
    for i, (image, label, ids) in enumerate(data.create_tuple_iterator(output_numpy=True)):
        assert bytes(image) == bytes(range(i + 1)) and label == i * 3000 - 5000 and label.dtype == np.int32
        np.testing.assert_array_equal(ids, _row(i)["ids"])
    assert sorted(int(x[0]) for x in ds.MindDataset(path + "0", ["label"]).create_tuple_iterator()) == [i * 3000 - 5000 for i in range(12)]
    with pytest.raises(ValueError, match="there is no column 'boxes'; there are label, name, share, box, ids, image"):
        ds.MindDataset(path + "0", ["boxes"])
    with pytest.raises(ValueError, match="'name' is a column of texts, which rows here do not hold"):
        ds.MindDataset(path + "0", ["name"])


def test_what_cannot_be_written_is_told(tmp_path):
    path = str(tmp_path / "a.mindrecord")
    writer = FileWriter(path)
    with pytest.raises(ValueError, match="field 'x' is {'type': 'int8'}; types are int32"):
        writer.add_schema({"x": {"type": "int8"}})
    writer.add_schema({"x": {"type": "int32"}, "y": {"type": "int64", "shape": [2]}})
    with pytest.raises(ValueError, match="index field 'y' is no field with a number or a text"):
        writer.add_index(["y"])
    with pytest.raises(ValueError, match="a row has no y; the schema has x, y"):
        writer.write_raw_data([{"x": 1}])
    with pytest.raises(TypeError, match="field 'y' is an array of int64, not of float64"):
        writer.write_raw_data([{"x": 1, "y": np.ones(2)}])
    with pytest.raises(RuntimeError, match="commit needs a schema and rows"):
        writer.commit()
    _written(path)
    with pytest.raises(RuntimeError, match="is there already; overwrite=True replaces it"):
        FileWriter(path)


def test_what_is_damaged_is_told(tmp_path):
    path = _written(str(tmp_path / "a.mindrecord"), 6, 1, 1 << 15)
    whole, index = open(path, "rb").read(), open(path + ".db", "rb").read()
    draw, told = random.Random(1), 0
    header = int.from_bytes(whole[:8], "little") + 8
    for turn in range(150):
        damaged = bytearray(whole)
        pages = [i for i in range(1 << 24, len(whole)) if whole[i]]
        for place in (draw.randrange(header),) if turn % 3 == 0 else (draw.choice(pages),):
            damaged[place] = draw.randrange(256)
        with open(path, "wb") as file:
            file.write(damaged[:draw.randrange(1 << 24, len(damaged))] if turn % 5 == 0 else damaged)
        try:
            list(FileReader(path).get_next())
        except ValueError as error:
            told += 1
            assert "\n" not in str(error)
    assert told > 40
    open(path, "wb").write(whole)
    open(path + ".db", "wb").write(index[:200])
    with pytest.raises(ValueError, match="a.mindrecord.db: is no index, or is damaged"):
        FileReader(path)
    os.unlink(path + ".db")
    with pytest.raises(ValueError, match="there is no file '.*a.mindrecord.db', the index of"):
        FileReader(path)
    with pytest.raises(ValueError, match="there is no file '.*b.mindrecord'"):
        FileReader(str(tmp_path / "b.mindrecord"))

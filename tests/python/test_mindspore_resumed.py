"""Checkpoints beside MindSpore 2.10's: texts, CRCs, types, and training that goes on from its files."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from mindspore_fixtures import settings  # noqa: F401

import mindspore as ms
from mindspore import Parameter, Tensor
from mindspore.train import files


def test_a_crc_finds_what_is_damaged(tmp_path):
    for kind in ("ckpt", "safetensors"):
        path = tmp_path / f"a.{kind}"
        ms.save_checkpoint({"w": Tensor([1.0, 2.0])}, str(path), crc_check=True, format=kind)
        assert ms.load_checkpoint(str(path), crc_check=True, format=kind)["w"].asnumpy().tolist() == [1, 2]
        data = bytearray(path.read_bytes())
        at = data.index(np.float32(2).tobytes())
        data[at] ^= 1
        damaged = tmp_path / f"b.{kind}"
        damaged.write_bytes(data)
        with pytest.raises(ValueError, match=f"b.{kind}' is no {kind} file: it is damaged: its CRC is"):
            ms.load_checkpoint(str(damaged), format=kind)


def test_texts_and_arrays_of_every_type(tmp_path):
    path = str(tmp_path / "a.ckpt")
    ms.save_checkpoint([Parameter(Tensor([1.0]), name="w")], path, append_dict={"said": "héllo\n", "empty": "", "n": True})
    found = ms.load_checkpoint(path)
    assert found["said"] == "héllo\n" and found["empty"] == "" and found["n"].dtype is ms.bool_ and found["w"].item() == 1
    with pytest.raises(TypeError, match="'said' is a text, which safetensors does not hold"):
        ms.save_checkpoint({"said": "x"}, path, format="safetensors")
    for kind in ("int8", "int16", "uint16", "uint32", "uint64"):
        for form in ("ckpt", "safetensors"):
            file = tmp_path / f"{kind}.{form}"
            ms.save_checkpoint({"v": np.array([[1, 100]], kind)}, str(file), format=form)
            assert files.read(file)["v"].bits.dtype == kind
            assert ms.load_checkpoint(str(file), format=form)["v"].asnumpy().tolist() == [[1, 100]]
    ms.save_checkpoint({"v": np.array([2**64 - 1], "uint64")}, path)
    with pytest.raises(ValueError, match="'v' is UInt64 and holds 18446744073709551615, more than an Int64"):
        ms.load_checkpoint(path)
    with pytest.raises(TypeError, match="an array of complex64 has no type in a checkpoint"):
        ms.save_checkpoint({"v": np.ones(2, "complex64")}, path)


def test_training_goes_on_from_files_of_the_described_system():
    """Files that MindSpore 2.10 wrote, and the losses of its next steps (tests/outside/mindspore/resumed.py)."""
    root = Path(__file__).parent.parent
    spec = importlib.util.spec_from_file_location("resumed", root / "outside/mindspore/resumed.py")
    resumed = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(resumed)
    folder = root / "reference/mindspore210/checkpoints"
    known = json.loads((folder / "losses.json").read_text())
    found = resumed.losses("load", str(folder), known)
    assert known.keys() == found.keys()
    for name in known:
        np.testing.assert_allclose(found[name], known[name], rtol=1e-5)

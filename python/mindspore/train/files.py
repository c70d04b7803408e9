"""Files of named tensors: `.ckpt`, a protobuf message as MindSpore writes it, and safetensors.

A `.ckpt` is a sequence of entries, field 1: {1: name, 2: {1: dims, 2: type, 3: bytes}}; entries of one name that follow
each other are joined. dims [0] is a scalar.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Iterator, NamedTuple

import numpy

from .. import _files, _protobuf
from .._missing import near
from ..common import dtype as mstype
from ..common.tensor import Tensor

_longest = 512 * 1024 * 1024  # bytes of an entry
_safetensors = {"F16": mstype.float16, "F32": mstype.float32, "F64": mstype.float64, "BF16": mstype.bfloat16,
                "I32": mstype.int32, "I64": mstype.int64, "U8": mstype.uint8, "BOOL": mstype.bool_}
_shown = {t.shown: t for t in _safetensors.values()}


class Stored(NamedTuple):
    """A tensor as it lies in a file. Two bytes of bfloat16 are looked at as a u16."""

    dtype: mstype.Type
    bits: numpy.ndarray


def stored(array) -> Stored:
    """Of an array of the core."""
    values = numpy.ascontiguousarray(array.numpy()).reshape(array.shape)
    if array.dtype == "bfloat16":
        values = (values.view(numpy.uint32) >> 16).astype("<u2")
    return Stored(mstype.type_of(array.dtype), values)


def tensor_of(of: Stored) -> Tensor:
    if of.dtype is mstype.bfloat16:
        return Tensor((of.bits.astype(numpy.uint32) << 16).view(numpy.float32), of.dtype)
    return Tensor(numpy.array(of.bits), of.dtype)


def _numpy_type(dtype: mstype.Type) -> numpy.dtype:
    return numpy.dtype("<u2" if dtype is mstype.bfloat16 else mstype.dtype_to_nptype(dtype))


def _stored_in(name: str, data, dtype: mstype.Type, shape: list) -> Stored:
    """Raises: ValueError where the bytes are not those of so many elements."""
    kind = _numpy_type(dtype)
    if not isinstance(shape, list) or any(type(d) is not int or d < 0 for d in shape):
        raise ValueError(f"{name!r:.200} has the shape {str(shape)[:60]}")
    if math.prod(shape) * kind.itemsize != len(data):
        raise ValueError(f"{name!r:.200} of {dtype}{shape} has {len(data)} bytes")
    return Stored(dtype, numpy.frombuffer(data, kind).reshape(shape))


# ---- .ckpt ----

def _ckpt_bytes(tensors: dict[str, Stored]) -> Iterator[bytes]:
    for name, (dtype, bits) in tensors.items():
        content = memoryview(bits.tobytes())
        head = _protobuf.numbers(1, bits.shape or (0,)) + _protobuf.field(2, dtype.shown.encode())
        for start in range(0, max(len(content), 1), _longest):
            part = _protobuf.field(3, bytes(content[start:start + _longest]))
            yield _protobuf.field(1, _protobuf.field(1, name.encode()) + _protobuf.field(2, head + part))


def _read_ckpt(data: bytes) -> dict[str, Stored]:
    parts: dict[str, tuple[str, list[int], list]] = {}
    for number, entry in _protobuf.fields(data):
        if number != 1:
            raise ValueError(f"there is a field {number}")
        fields = dict(_protobuf.fields(entry))
        if not fields.keys() >= {1, 2}:
            raise ValueError("an entry has no name or no tensor")
        name, kind, dims, content = _protobuf.text(fields[1]), "", [], b""
        for field, value in _protobuf.fields(fields[2]):
            if field == 1:
                dims += _protobuf.repeated(value)
            elif field == 2:
                kind = _protobuf.text(value)
            elif field == 3 and not isinstance(value, int):
                content = value
        parts.setdefault(name, (kind, dims, []))[2].append(content)
    return {name: _joined(name, *part) for name, part in parts.items()}


def _joined(name: str, kind: str, dims: list[int], contents: list) -> Stored:
    if kind not in _shown:
        raise ValueError(f"{name!r:.200} is of type {kind!r:.60}; there are {', '.join(_shown)}")
    data = contents[0] if len(contents) == 1 else b"".join(contents)
    return _stored_in(name, data, _shown[kind], [] if dims == [0] and len(data) else dims)


# ---- safetensors ----

def _safetensors_bytes(tensors: dict[str, Stored]) -> Iterator[bytes]:
    kinds = {t: name for name, t in _safetensors.items()}
    header, at = {}, 0
    for name, (dtype, bits) in tensors.items():
        header[name] = {"dtype": kinds[dtype], "shape": list(bits.shape), "data_offsets": [at, at + bits.nbytes]}
        at += bits.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for _, bits in tensors.values():
        yield bits.tobytes()


def _read_safetensors(data: bytes) -> dict[str, Stored]:
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 + size or len(data) < 8:
        raise ValueError("the file ends in its header")
    try:
        header = json.loads(data[8:8 + size])
    except RecursionError:
        raise ValueError("its header is nested too deep") from None
    if not isinstance(header, dict):
        raise ValueError("its header is no object")
    elements, out = memoryview(data)[8 + size:], {}
    for name, said in header.items():
        if name == "__metadata__":
            continue
        if not isinstance(said, dict) or not said.keys() >= {"dtype", "shape", "data_offsets"}:
            raise ValueError(f"{name!r:.200} has no dtype, shape or data_offsets")
        if not isinstance(said["dtype"], str) or said["dtype"] not in _safetensors:
            raise ValueError(f"{name!r:.200} is of type {said['dtype']!r:.60}; there are {', '.join(_safetensors)}")
        ends = said["data_offsets"]
        if not (isinstance(ends, list) and len(ends) == 2 and all(type(e) is int for e in ends)
                and 0 <= ends[0] <= ends[1] <= len(elements)):
            raise ValueError(f"{name!r:.200} lies outside of the file")
        out[name] = _stored_in(name, elements[ends[0]:ends[1]], _safetensors[said["dtype"]], said["shape"])
    return out


# ---- both ----

_formats = {"ckpt": (_ckpt_bytes, _read_ckpt), "safetensors": (_safetensors_bytes, _read_safetensors)}


def check_format(name: str) -> None:
    if name not in _formats:
        raise ValueError(f"format '{name}' is unknown{near(str(name), _formats)}; there are {', '.join(_formats)}")


def format_of(path) -> str:
    """By the end of the file's name."""
    return "safetensors" if str(path).endswith(".safetensors") else "ckpt"


def write(path, tensors: dict[str, Stored], format: str | None = None) -> None:
    """The file is there whole or not at all, and read-only."""
    _files.put(path, _formats[format or format_of(path)][0](tensors), is_read_only=True)


def read(path, format: str | None = None) -> dict[str, Stored]:
    """Tensors by name. Raises: ValueError where there is no such file, or of what is none."""
    format = format or format_of(path)
    try:
        return _formats[format][1](Path(path).read_bytes())
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        raise ValueError(f"there is no checkpoint '{path}'") from None
    except ValueError as error:
        raise ValueError(f"'{path}' is no {format} file: {error}") from None

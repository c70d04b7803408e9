"""Files of named tensors: `.ckpt`, a protobuf message as MindSpore writes it, and safetensors.

A `.ckpt` is a sequence of entries, field 1: {1: name, 2: {1: dims, 2: type, 3: bytes}}; entries of one name that follow
each other are joined. dims [0] is a scalar.
"""

from __future__ import annotations

import json
import math
from typing import Iterator

import numpy

from ..common import dtype as mstype
from ..common.tensor import Tensor

_longest = 512 * 1024 * 1024  # bytes of an entry
_shown = {t.shown: t for t in (getattr(mstype, n) for n in
                               ("float16", "float32", "float64", "bfloat16", "int32", "int64", "uint8", "bool_"))}
_safetensors = {"F16": mstype.float16, "F32": mstype.float32, "F64": mstype.float64, "BF16": mstype.bfloat16,
                "I32": mstype.int32, "I64": mstype.int64, "U8": mstype.uint8, "BOOL": mstype.bool_}


def bytes_of(tensor: Tensor) -> bytes:
    """Row-major, in the tensor's own type."""
    values = tensor.asnumpy()
    if tensor.dtype is mstype.bfloat16:
        return (values.view(numpy.uint32) >> 16).astype("<u2").tobytes()
    return values.tobytes()


def tensor_of(data: bytes, dtype: mstype.Type, shape: list[int]) -> Tensor:
    if dtype is mstype.bfloat16:
        values = (numpy.frombuffer(data, "<u2").astype(numpy.uint32) << 16).view(numpy.float32)
    else:
        values = numpy.frombuffer(data, mstype.dtype_to_nptype(dtype))
    return Tensor(values.reshape(shape), dtype)


# ---- protobuf ----

def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _read_varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Numbers of fields with what they hold: a number, or bytes."""
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        if key & 7 == 0:
            value, at = _read_varint(data, at)
            yield key >> 3, value
        elif key & 7 == 2:
            size, at = _read_varint(data, at)
            if at + size > len(data):
                raise ValueError("the file ends in the middle of an entry")
            yield key >> 3, data[at:at + size]
            at += size
        else:
            raise ValueError(f"field {key >> 3} is of wire type {key & 7}")


def ckpt_bytes(tensors: dict[str, Tensor]) -> Iterator[bytes]:
    """A file's content, entry by entry."""
    for name, tensor in tensors.items():
        content = bytes_of(tensor)
        dims = b"".join(_varint(1 << 3) + _varint(d) for d in tensor.shape or (0,))
        head = dims + _field(2, tensor.dtype.shown.encode())
        for start in range(0, max(len(content), 1), _longest):
            part = _field(3, content[start:start + _longest])
            yield _field(1, _field(1, name.encode()) + _field(2, head + part))


def read_ckpt(data: bytes) -> dict[str, Tensor]:
    """Raises: ValueError of what is no such file."""
    parts: dict[str, list] = {}
    try:
        for number, entry in _fields(memoryview(data)):
            if number != 1:
                raise ValueError(f"there is a field {number}")
            fields = dict(_fields(entry))
            name = bytes(fields[1]).decode()
            dims, kind, content = [], "", b""
            for field, value in _fields(fields[2]):
                if field == 1:
                    dims += [value] if isinstance(value, int) else _packed(value)
                elif field == 2:
                    kind = bytes(value).decode()
                elif field == 3:
                    content = bytes(value)
            parts.setdefault(name, [dims, kind, []])[2].append(content)
    except (KeyError, IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"an entry is not as it should be ({error})") from None
    return {name: _joined(name, *part) for name, part in parts.items()}


def _packed(data: memoryview) -> list[int]:
    out, at = [], 0
    while at < len(data):
        value, at = _read_varint(data, at)
        out.append(value)
    return out


def _joined(name: str, dims: list[int], kind: str, contents: list[bytes]) -> Tensor:
    if kind not in _shown:
        raise ValueError(f"'{name}' is of type {kind}; there are {', '.join(_shown)}")
    data = b"".join(contents)
    shape = [] if dims == [0] and data else dims
    return tensor_of(data, _shown[kind], shape)


# ---- safetensors ----

def safetensors_bytes(tensors: dict[str, Tensor]) -> Iterator[bytes]:
    """A file's content: a header of JSON, then the tensors."""
    kinds = {t: name for name, t in _safetensors.items()}
    header, at = {}, 0
    for name, tensor in tensors.items():
        size = math.prod(tensor.shape) * (2 if tensor.dtype is mstype.bfloat16 else tensor.itemsize)
        header[name] = {"dtype": kinds[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for tensor in tensors.values():
        yield bytes_of(tensor)


def read_safetensors(data: bytes) -> dict[str, Tensor]:
    """Raises: ValueError of what is no such file."""
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 + size:
        raise ValueError("the file ends in its header")
    header = json.loads(data[8:8 + size])
    out = {}
    for name, said in header.items():
        if name != "__metadata__":
            first, last = said["data_offsets"]
            out[name] = tensor_of(data[8 + size + first:8 + size + last], _safetensors[said["dtype"]], said["shape"])
    return out

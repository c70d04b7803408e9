"""Files of named tensors: `.ckpt`, a protobuf message as MindSpore writes it, and safetensors.

A `.ckpt` is a sequence of entries, field 1: {1: name, 2: {1: dims, 2: type, 3: bytes}}; entries of one name that follow
each other are joined. dims [0] is a scalar; a text, of type "str", lies in four bytes a sign. `crc_num` and ten bytes
behind the entries are the CRC of what is before them; in safetensors it is in the metadata.
"""

from __future__ import annotations

import json
import math
import zlib
from pathlib import Path
from typing import Iterator, NamedTuple

import numpy

from .. import _files, _protobuf, context
from .._missing import near
from ..common import dtype as mstype
from ..common.tensor import Tensor

_longest = 512 * 1024 * 1024  # bytes of an entry
_safetensors = {"F16": mstype.float16, "F32": mstype.float32, "F64": mstype.float64, "BF16": mstype.bfloat16,
                "I32": mstype.int32, "I64": mstype.int64, "U8": mstype.uint8, "BOOL": mstype.bool_}
# Types of files alone: tensors of them are wider here.
_narrow = {"I8": mstype.Type("Int8", "int8"), "I16": mstype.Type("Int16", "int16"), "U16": mstype.Type("UInt16", "uint16"),
           "U32": mstype.Type("UInt32", "uint32"), "U64": mstype.Type("UInt64", "uint64")}
_wider = {"Int8": mstype.int32, "Int16": mstype.int32, "UInt16": mstype.int32, "UInt32": mstype.int64, "UInt64": mstype.int64}
_safetensors |= _narrow
_shown = {t.shown: t for t in _safetensors.values()}
_text = mstype.Type("str", "str")
_crc_mark, _crc_bytes = b"crc_num", 10  # at the end of a .ckpt


class Stored(NamedTuple):
    """A tensor as it lies in a file. Two bytes of bfloat16 are looked at as a u16."""

    dtype: mstype.Type
    bits: numpy.ndarray


def stored(array) -> Stored:
    """Of an array of the core."""
    values = numpy.ascontiguousarray(array.numpy()).reshape(-1)
    if array.dtype == "bfloat16":
        values = (values.astype(numpy.float32).view(numpy.uint32) >> 16).astype("<u2")
    return Stored(mstype.type_of(array.dtype), values.reshape(array.shape))


def stored_text(text: str) -> Stored:
    return Stored(_text, numpy.array(text, "<U" + str(max(len(text), 1))))


def stored_as_it_is(values: numpy.ndarray) -> Stored:
    """Of an array of numpy, of any type that files have. Raises: TypeError."""
    known = {t.name: t for t in _safetensors.values() if t is not mstype.bfloat16}
    if values.dtype.name not in known:
        raise TypeError(f"an array of {values.dtype.name} has no type in a checkpoint; there are {', '.join(known)}")
    return Stored(known[values.dtype.name], numpy.ascontiguousarray(values).reshape(values.shape))


def text_in(of: Stored) -> str | None:
    """None of what is a tensor."""
    return str(of.bits) if of.dtype is _text else None


def tensor_of(of: Stored, name: str = "") -> Tensor:
    """Raises: ValueError of a whole number that no tensor here holds."""
    if of.dtype.shown in _wider:
        wide = _wider[of.dtype.shown]
        if of.bits.size and int(of.bits.max()) > numpy.iinfo(numpy.int64).max:
            raise ValueError(f"'{name}' is {of.dtype} and holds {of.bits.max()}, more than an Int64")
        context.tell(f"mindspore: '{name}' is {of.dtype} in the checkpoint, and {wide} here")
        return Tensor(of.bits.astype(wide.name), wide)
    if of.dtype is mstype.bfloat16:
        values = (of.bits.reshape(-1).astype(numpy.uint32) << 16).view(numpy.float32)
        return Tensor(values.reshape(of.bits.shape), of.dtype)
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

def _with_crc(parts: Iterator[bytes]) -> Iterator[bytes]:
    crc = 0
    for part in parts:
        crc = zlib.crc32(part, crc)
        yield part
    yield _crc_mark + crc.to_bytes(_crc_bytes, "big")


def _ckpt_bytes(tensors: dict[str, Stored], has_crc: bool) -> Iterator[bytes]:
    return _with_crc(_entries(tensors)) if has_crc else _entries(tensors)


def _entries(tensors: dict[str, Stored]) -> Iterator[bytes]:
    for name, (dtype, bits) in tensors.items():
        content = memoryview(bits.tobytes())
        head = _protobuf.numbers(1, bits.shape or (0,)) + _protobuf.field(2, dtype.shown.encode())
        for start in range(0, max(len(content), 1), _longest):
            part = _protobuf.field(3, bytes(content[start:start + _longest]))
            yield _protobuf.field(1, _protobuf.field(1, name.encode()) + _protobuf.field(2, head + part))


def _without_crc(data: bytes) -> tuple[memoryview, bool]:
    """Entries, and whether they had a CRC. Raises: ValueError where it is another."""
    content, at = memoryview(data), len(data) - len(_crc_mark) - _crc_bytes
    if at < 0 or data[at:-_crc_bytes] != _crc_mark:
        return content, False
    _check_crc(zlib.crc32(content[:at]), int.from_bytes(data[-_crc_bytes:], "big"))
    return content[:at], True


def _check_crc(found: int, said: int) -> None:
    if found != said:
        raise ValueError(f"it is damaged: its CRC is {found}, not {said}")


def _read_ckpt(data: bytes) -> tuple[dict[str, Stored], bool]:
    content, has_crc = _without_crc(data)
    return _read_entries(content), has_crc


def _read_entries(data: memoryview) -> dict[str, Stored]:
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
    if kind == _text.shown:
        return _text_of(name, b"".join(contents))
    if kind not in _shown:
        raise ValueError(f"{name!r:.200} is of type {kind!r:.60}; there are {', '.join(_shown)}")
    data = contents[0] if len(contents) == 1 else b"".join(contents)
    return _stored_in(name, data, _shown[kind], [] if dims == [0] and len(data) else dims)


def _text_of(name: str, content: bytes) -> Stored:
    try:
        return stored_text(content.decode("utf-32-le").rstrip("\0"))
    except UnicodeDecodeError:
        raise ValueError(f"{name!r:.200} is no text") from None


# ---- safetensors ----

def _safetensors_crc(tensors: dict[str, Stored]) -> int:
    crc = 0
    for name in sorted(tensors):
        crc = zlib.crc32(tensors[name].bits.tobytes(), zlib.crc32(name.encode(), crc))
    return crc


def _safetensors_bytes(tensors: dict[str, Stored], has_crc: bool) -> Iterator[bytes]:
    kinds = {t: name for name, t in _safetensors.items()}
    header: dict = {"__metadata__": {"format": "ms", "crc_num": str(_safetensors_crc(tensors))}} if has_crc else {}
    at = 0
    for name, (dtype, bits) in tensors.items():
        header[name] = {"dtype": kinds[dtype], "shape": list(bits.shape), "data_offsets": [at, at + bits.nbytes]}
        at += bits.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for _, bits in tensors.values():
        yield bits.tobytes()


def _read_safetensors(data: bytes) -> tuple[dict[str, Stored], bool]:
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
    metadata = header.get("__metadata__")
    said_crc = metadata.get("crc_num") if isinstance(metadata, dict) else None
    if said_crc is None:
        return out, False
    if not isinstance(said_crc, str) or not (said_crc.isascii() and said_crc.isdigit() and len(said_crc) <= 10):
        raise ValueError(f"its crc_num is {said_crc!r:.60}, not the digits of a number")
    _check_crc(_safetensors_crc(out), int(said_crc))
    return out, True


# ---- both ----

_formats = {"ckpt": (_ckpt_bytes, _read_ckpt), "safetensors": (_safetensors_bytes, _read_safetensors)}


def check_format(name: str) -> None:
    if name not in _formats:
        raise ValueError(f"format '{name}' is unknown{near(str(name), _formats)}; there are {', '.join(_formats)}")


def format_of(path) -> str:
    """By the end of the file's name."""
    return "safetensors" if str(path).endswith(".safetensors") else "ckpt"


def write(path, tensors: dict[str, Stored], format: str | None = None, has_crc: bool = False) -> None:
    """The file is there whole or not at all, and read-only."""
    _files.put(path, _formats[format or format_of(path)][0](tensors, has_crc), is_read_only=True)


def check_storable(tensors: dict[str, Stored], format: str) -> None:
    """Raises: TypeError of what the format does not hold."""
    for name, one in tensors.items():
        if format == "safetensors" and one.dtype is _text:
            raise TypeError(f"'{name}' is a text, which safetensors does not hold; format='ckpt' does")


def read(path, format: str | None = None, wants_crc: bool = False) -> dict[str, Stored]:
    """Tensors and texts by name; a CRC that is there is checked. Raises: ValueError where there is no such file, or of what
    is none."""
    format = format or format_of(path)
    try:
        found, has_crc = _formats[format][1](Path(path).read_bytes())
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        raise ValueError(f"there is no checkpoint '{path}'") from None
    except ValueError as error:
        raise ValueError(f"'{path}' is no {format} file: {error}") from None
    if wants_crc and not has_crc:
        context.tell(f"mindspore: crc_check: '{path}' has no CRC to check")
    return found

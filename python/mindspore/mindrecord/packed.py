"""MessagePack, as far as rows of `.mindrecord` have it: a map of names to numbers and texts."""

from __future__ import annotations

import struct
from typing import Any

_numbers = {0xca: ">f", 0xcb: ">d", 0xcc: ">B", 0xcd: ">H", 0xce: ">I", 0xcf: ">Q", 0xd0: ">b", 0xd1: ">h", 0xd2: ">i", 0xd3: ">q"}
_texts = {0xd9: ">B", 0xda: ">H", 0xdb: ">I", 0xc4: ">B", 0xc5: ">H", 0xc6: ">I"}
_maps = {0xde: ">H", 0xdf: ">I"}
_lists = {0xdc: ">H", 0xdd: ">I"}


def unpack(data: bytes) -> Any:
    """Raises: ValueError of what is cut off or of another kind."""
    try:
        value, end = _read(data, 0, 0)
    except (struct.error, IndexError, UnicodeDecodeError):
        raise ValueError(f"a row of {len(data)} bytes ends before its fields, or is damaged") from None
    if end != len(data):
        raise ValueError(f"a row goes on after its fields: {len(data) - end} bytes more")
    return value


def _read(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    if depth > 8:
        raise ValueError("a row has fields in fields in fields: damaged")
    kind = data[at]
    at += 1
    if kind < 0x80:
        return kind, at
    if kind >= 0xe0:
        return kind - 256, at
    if kind in (0xc0, 0xc2, 0xc3):
        return {0xc0: None, 0xc2: False, 0xc3: True}[kind], at
    if kind in _numbers:
        size = struct.calcsize(_numbers[kind])
        return struct.unpack_from(_numbers[kind], data, at)[0], at + size
    for sizes, low, high, make in ((_texts, 0xa0, 0xbf, _text), (_maps, 0x80, 0x8f, _map), (_lists, 0x90, 0x9f, _list)):
        if kind in sizes:
            count = struct.unpack_from(sizes[kind], data, at)[0]
            return make(data, at + struct.calcsize(sizes[kind]), count, depth, kind)
        if low <= kind <= high:
            return make(data, at, kind - low, depth, kind)
    raise ValueError(f"a row has a field of unknown kind {kind:#04x}")


def _text(data: bytes, at: int, count: int, depth: int, kind: int) -> tuple[Any, int]:
    part = data[at:at + count]
    if len(part) != count:
        raise IndexError
    return bytes(part) if kind in (0xc4, 0xc5, 0xc6) else part.decode(), at + count


def _list(data: bytes, at: int, count: int, depth: int, kind: int) -> tuple[list, int]:
    out = []
    for _ in range(count):
        value, at = _read(data, at, depth + 1)
        out.append(value)
    return out, at


def _map(data: bytes, at: int, count: int, depth: int, kind: int) -> tuple[dict, int]:
    out = {}
    for _ in range(count):
        name, at = _read(data, at, depth + 1)
        if not isinstance(name, str):
            raise ValueError(f"a row has a field whose name is {name!r}")
        out[name], at = _read(data, at, depth + 1)
    return out, at


def pack(fields: dict[str, Any]) -> bytes:
    """Of a map of texts and numbers."""
    out = bytes([0x80 | len(fields)]) if len(fields) < 16 else b"\xde" + struct.pack(">H", len(fields))
    return out + b"".join(_packed(name) + _packed(value) for name, value in fields.items())


def _packed(value: Any) -> bytes:
    if isinstance(value, str):
        text = value.encode()
        if len(text) < 32:
            return bytes([0xa0 | len(text)]) + text
        code, form = next((c, f) for c, f in ((0xd9, ">B"), (0xda, ">H"), (0xdb, ">I")) if len(text) < 256 ** struct.calcsize(f))
        return bytes([code]) + struct.pack(form, len(text)) + text
    if isinstance(value, float):
        single = struct.pack(">f", value) if abs(value) < 3e38 or value != value else None
        if single is not None and struct.unpack(">f", single)[0] == value:
            return b"\xca" + single
        return b"\xcb" + struct.pack(">d", value)
    if 0 <= value < 128:
        return bytes([value])
    if -32 <= value < 0:
        return bytes([256 + value])
    return b"\xd3" + struct.pack(">q", value)

"""Messages of protobuf, field by field: numbers and bytes."""

from __future__ import annotations

from typing import Iterator

Bytes = bytes | memoryview


def varint(value: int) -> bytes:
    """A whole number; a negative one takes ten bytes."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, content: bytes | int) -> bytes:
    """Of a message: a number, or what is in it."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def numbers(number: int, values) -> bytes:
    """A repeated field."""
    return b"".join(field(number, v) for v in values)


def _read_varint(data: Bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        if at == len(data):
            raise ValueError("the file ends in the middle of a number")
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value & ((1 << 64) - 1), at
    raise ValueError("a number takes more than ten bytes")


def fields(data: Bytes | int) -> Iterator[tuple[int, int | memoryview]]:
    """Numbers of fields with what they hold. Raises: ValueError of what is no message."""
    if isinstance(data, int):
        raise ValueError("there is a number where a message should be")
    data, at = memoryview(data), 0
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


def signed(value: int | memoryview) -> int:
    """A field's number as it was before it took ten bytes."""
    if not isinstance(value, int):
        raise ValueError("there are bytes where a number should be")
    return value - (1 << 64) if value >> 63 else value


def repeated(value: int | memoryview) -> list[int]:
    """What one occurrence of a repeated number holds: it, or several that are packed."""
    if isinstance(value, int):
        return [signed(value)]
    out, at = [], 0
    while at < len(value):
        one, at = _read_varint(value, at)
        out.append(signed(one))
    return out


def text(value: int | memoryview) -> str:
    """Raises: ValueError of what is no UTF-8."""
    if isinstance(value, int):
        raise ValueError("there is a number where a text should be")
    return bytes(value).decode()

"""Writes and reads files of rows.

A file has a header (its length, then JSON) of `header_size` bytes, then pages of `page_size` bytes: raw pages with numbers and texts,
blob pages with bytes and arrays. The index beside it says where each row's parts are.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
import struct
from pathlib import Path
from typing import Any, Iterator

import numpy

from . import packed

_header_size, _page_size = 1 << 24, 1 << 25
_scalars = {"int32": "INTEGER", "int64": "INTEGER", "float32": "NUMERIC", "float64": "NUMERIC", "string": "TEXT"}
_kinds = ("<i1", "<i2", "<i4", "<i8")  # how a whole number of an array is held


def _is_blob(field: dict) -> bool:
    return field["type"] == "bytes" or "shape" in field


def _is_size(x: Any) -> bool:
    return isinstance(x, int) and not isinstance(x, bool) and 0 <= x < 1 << 32


def _is_field(field: Any) -> bool:
    return (isinstance(field, dict) and field.get("type") in (*_scalars, "bytes")
            and ("shape" not in field or (field["type"] not in ("string", "bytes") and isinstance(field["shape"], list)
                                          and all(_is_size(n) or n == -1 for n in field["shape"]))))


# ---- one row ----

def _squeezed(values: numpy.ndarray) -> bytes:
    """How many whole numbers, for each in two bits how many bytes it takes (1, 2, 4, 8), and they."""
    kinds = sum((~((values >= numpy.iinfo(k).min) & (values <= numpy.iinfo(k).max))).astype(numpy.uint8) for k in _kinds[:3])
    kinds = numpy.zeros(values.shape, numpy.uint8) + kinds
    shifts = numpy.array([6, 4, 2, 0], numpy.uint8)
    fours = numpy.concatenate([kinds, numpy.zeros(-kinds.size % 4, numpy.uint8)]).reshape(-1, 4)
    bits = numpy.bitwise_or.reduce(fours << shifts, 1).astype(numpy.uint8)
    ends = numpy.cumsum(1 << kinds.astype(numpy.int64))
    body = numpy.zeros(int(ends[-1]) if values.size else 0, numpy.uint8)
    for code, kind in enumerate(_kinds):
        own = kinds == code
        raw = values[own].astype(kind).view(numpy.uint8).reshape(-1, 1 << code)
        for byte in range(1 << code):
            body[ends[own] - (1 << code) + byte] = raw[:, byte]
    return struct.pack(">I", values.size) + bits.tobytes() + body.tobytes()


def _stretched(data: bytes, dtype: str, what: str) -> numpy.ndarray:
    count = struct.unpack(">I", data[:4])[0] if len(data) >= 4 else -1
    at = 4 + -(-count // 4)
    if count < 0 or at > len(data):
        raise ValueError(f"{what}: an array of {len(data)} bytes is damaged")
    bits = numpy.frombuffer(data, numpy.uint8, at - 4, 4)
    kinds = ((bits[:, None] >> numpy.array([6, 4, 2, 0], numpy.uint8)) & 3).reshape(-1)[:count]
    ends = numpy.cumsum(1 << kinds.astype(numpy.int64))
    body = numpy.frombuffer(data, numpy.uint8, offset=at) if at < len(data) else numpy.zeros(0, numpy.uint8)
    if (int(ends[-1]) if count else 0) != body.size:
        raise ValueError(f"{what}: an array that says {count} elements has {body.size} bytes: damaged")
    out = numpy.zeros(count, numpy.int64)
    for code, kind in enumerate(_kinds):
        own = kinds == code
        places = (ends[own] - (1 << code))[:, None] + numpy.arange(1 << code)
        out[own] = numpy.ascontiguousarray(body[places]).view(kind).reshape(-1)
    return out.astype(dtype)


def _to_bytes(value: Any, field: dict, name: str) -> bytes:
    if field["type"] == "bytes":
        if not isinstance(value, (bytes, bytearray)) or not value:
            raise TypeError(f"field '{name}' is bytes, at least one of them, not {value!r}")
        return bytes(value)
    array = numpy.asarray(value)
    if str(array.dtype) != field["type"]:
        raise TypeError(f"field '{name}' is an array of {field['type']}, not of {array.dtype}")
    return _squeezed(array.reshape(-1)) if array.dtype.kind == "i" else array.tobytes()


def _from_bytes(data: bytes, field: dict, what: str) -> Any:
    kind = field["type"]
    if kind == "bytes":
        return data
    if "int" in kind:
        values = _stretched(data, kind, what)
    elif len(data) % numpy.dtype(kind).itemsize:
        raise ValueError(f"{what}: {len(data)} bytes are no whole number of {kind}")
    else:
        values = numpy.frombuffer(data, kind).copy()
    shape, known = field["shape"], math.prod(n for n in field["shape"] if n >= 0)
    if not known or shape.count(-1) > 1 or values.size % known or (-1 not in shape and values.size != known):
        raise ValueError(f"{what}: {values.size} elements are no array of shape {shape}")
    return values.reshape(shape)


def _blob(row: dict, schema: dict, names: list[str]) -> bytes:
    """The parts, each behind its length if there are several."""
    parts = [_to_bytes(row[name], schema[name], name) for name in names]
    body = b"\0\0\0\0" if not parts else parts[0] if len(parts) == 1 else b"".join(struct.pack(">Q", len(p)) + p for p in parts)
    return struct.pack("<Q", len(body)) + body


def _parts(body: bytes, count: int, what: str) -> list[bytes]:
    if count == 1:
        return [body]
    out, at = [], 0
    for _ in range(count):
        size = struct.unpack_from(">Q", body, at)[0] if at + 8 <= len(body) else -1
        if size < 0 or at + 8 + size > len(body):
            raise ValueError(f"{what}: a part ends behind the row: damaged")
        out.append(body[at + 8:at + 8 + size])
        at += 8 + size
    return out


# ---- writing ----

class FileWriter:
    """`add_schema`, `add_index`, `write_raw_data` with rows as dicts, `commit`. With shard_num rows are shared out, block by block."""

    def __init__(self, file_name: str, shard_num: int = 1, overwrite: bool = False):
        if not isinstance(shard_num, int) or not 1 <= shard_num <= 1000:
            raise ValueError(f"shard_num is from 1 to 1000, not {shard_num!r}")
        self.paths = [str(file_name)] if shard_num == 1 else [f"{file_name}{i}" for i in range(shard_num)]
        for path in self.paths:
            for file in (path, path + ".db"):
                if os.path.exists(file):
                    if not overwrite:
                        raise RuntimeError(f"'{file}' is there already; overwrite=True replaces it")
                    os.unlink(file)
        self.schema: dict[str, dict] = {}
        self.description, self.index_fields, self.rows = "", None, []
        self.page_size = _page_size

    def add_schema(self, content: dict, desc: str | None = None) -> int:
        """{name: {"type": .., "shape": [..]}}. Raises: ValueError of types that there are not."""
        for name, field in content.items():
            kind, known = field.get("type"), (*_scalars, "bytes")
            if kind not in known or field.keys() - {"type", "shape"} or ("shape" in field and kind in ("string", "bytes")):
                raise ValueError(f"field '{name}' is {field}; types are {', '.join(known)}, and numbers may have a shape")
        self.schema, self.description = dict(sorted(content.items())), desc or ""
        return 0

    def add_index(self, index_fields: list[str]):
        for name in index_fields:
            if name not in self.schema or _is_blob(self.schema[name]):
                raise ValueError(f"index field '{name}' is no field with a number or a text; add_schema comes first")
        self.index_fields = list(index_fields)
        return self

    def set_page_size(self, page_size: int) -> None:
        if not 1 << 15 <= page_size <= 1 << 28 or page_size % 4:
            raise ValueError(f"page_size is from 32 KiB to 256 MiB, not {page_size}")
        self.page_size = page_size

    def set_header_size(self, header_size: int) -> None:
        """A hint: headers have 16 MiB."""

    def write_raw_data(self, raw_data: list[dict], parallel_writer: bool = False) -> None:
        for row in raw_data:
            lacking = self.schema.keys() - row.keys()
            if lacking:
                raise ValueError(f"a row has no {', '.join(sorted(lacking))}; the schema has {', '.join(self.schema)}")
            self.rows.append(self._packed(row))

    def _packed(self, row: dict) -> tuple[bytes, bytes, list]:
        scalars = {}
        for name, field in self.schema.items():
            if not _is_blob(field):
                value = row[name].item() if isinstance(row[name], numpy.generic) else row[name]
                wanted = str if field["type"] == "string" else (int, float) if "float" in field["type"] else int
                if not isinstance(value, wanted) or isinstance(value, bool):
                    raise TypeError(f"field '{name}' is {field['type']}, not {value!r}")
                scalars[name] = float(value) if "float" in field["type"] else value
        raw = packed.pack(scalars)
        blob = _blob(row, self.schema, self._blob_fields())
        if max(len(raw) + 8, len(blob)) > self.page_size:
            raise ValueError(f"a row of {max(len(raw), len(blob))} bytes is larger than a page; set_page_size makes them larger")
        return struct.pack("<Q", len(raw)) + raw, blob, [scalars[n] for n in self._indices()]

    def _blob_fields(self) -> list[str]:
        return [name for name, field in self.schema.items() if _is_blob(field)]

    def _indices(self) -> list[str]:
        return self.index_fields if self.index_fields is not None else [n for n, f in self.schema.items() if not _is_blob(f)]

    def commit(self) -> str:
        """Writes the files."""
        if not self.schema or not self.rows:
            raise RuntimeError("commit needs a schema and rows")
        each, more = divmod(len(self.rows), len(self.paths))
        start = 0
        for shard, path in enumerate(self.paths):
            end = start + each + (shard < more)
            self._write(path, shard, self.rows[start:end])
            start = end
        return "MSRStatus.SUCCESS"

    def _write(self, path: str, shard: int, rows: list[tuple]) -> None:
        groups: list[list[tuple]] = [[]]
        sizes = [0, 0]
        for row in rows:
            if any(size + len(part) > self.page_size for size, part in zip(sizes, row)):
                groups.append([])
                sizes = [0, 0]
            groups[-1].append(row)
            sizes = [size + len(part) for size, part in zip(sizes, row)]
        pages, index, first = [], [], 0
        with open(path, "wb") as file:
            for number, group in enumerate(groups):
                ids = {"BLOB_DATA": 2 * number, "RAW_DATA": 2 * number + 1}
                for kind, part in (("BLOB_DATA", 1), ("RAW_DATA", 0)):
                    body = b"".join(row[part] for row in group)
                    file.seek(_header_size + ids[kind] * self.page_size)
                    file.write(body)
                    is_blob = kind == "BLOB_DATA"
                    pages.append({"end_row_id": first + len(group) if is_blob else 0, "page_id": ids[kind], "page_size": len(body),
                                  "page_type": kind, "page_type_id": number, "row_group_ids": [{"id": number, "offset": 0}],
                                  "shard_id": shard, "start_row_id": first if is_blob else 0})
                at = [0, 0]
                for row in group:
                    ends = [a + len(part) for a, part in zip(at, row)]
                    index.append((len(index), ids["RAW_DATA"], at[0], ends[0], number, ids["BLOB_DATA"], at[1], ends[1],
                                  *(v for value in row[2] for v in (0, value))))
                    at = ends
                first += len(group)
            header = json.dumps(self._header(shard, pages)).encode()
            file.seek(0)
            file.write(struct.pack("<Q", len(header)) + header)
        self._write_index(path, index)

    def _header(self, shard: int, pages: list[dict]) -> dict:
        return {"header_size": _header_size, "index_fields": [{"index_field": n, "schema_id": 0} for n in self._indices()],
                "page": pages, "page_size": self.page_size, "compression_size": 0,
                "schema": [{"blob_fields": self._blob_fields(), "desc": self.description, "schema": self.schema}],
                "shard_addresses": [os.path.basename(p) for p in self.paths], "shard_id": shard, "statistics": None, "version": "3.0"}

    def _write_index(self, path: str, index: list[tuple]) -> None:
        own = "".join(f",INC_{i} INT, {n}_0 {_scalars[self.schema[n]['type']]}" for i, n in enumerate(self._indices()))
        keys = "".join(f",INC_{i}" for i in range(len(self._indices())))
        places = ("ROW_ID", "PAGE_ID_RAW", "PAGE_OFFSET_RAW", "PAGE_OFFSET_RAW_END", "ROW_GROUP_ID", "PAGE_ID_BLOB", "PAGE_OFFSET_BLOB",
                  "PAGE_OFFSET_BLOB_END")
        with sqlite3.connect(path + ".db") as database:
            database.execute(f"CREATE TABLE INDEXES({','.join(f'{p} INT NOT NULL' for p in places)}{own}, PRIMARY KEY(ROW_ID{keys}))")
            database.execute("CREATE TABLE SHARD_NAME(NAME TEXT NOT NULL)")
            database.execute("INSERT INTO SHARD_NAME VALUES(?)", (os.path.basename(path),))
            if index:
                database.executemany(f"INSERT INTO INDEXES VALUES({','.join('?' * len(index[0]))})", index)
        database.close()


# ---- reading ----

class Records:
    """Rows of a file, or of all files that its header names, by their number."""

    def __init__(self, paths, columns=None):
        said = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
        files = [str(p) for p in said]
        first = self._header_of(files[0])
        if isinstance(paths, (str, os.PathLike)):
            files = [str(Path(files[0]).parent / name) for name in first["shard_addresses"]]
        self.schema = first["schema"][0]["schema"]
        self.blob_fields = list(first["schema"][0]["blob_fields"])
        whole = [n for n in self.schema if n not in self.blob_fields] + self.blob_fields
        for name in columns or ():
            if name not in whole:
                raise ValueError(f"{files[0]}: there is no column '{name}'; there are {', '.join(whole)}")
        self.columns = list(columns or whole)
        self.rows = [row for file in files for row in self._index_of(file)]
        self._open: dict[str, Any] = {}

    @staticmethod
    def _header_of(path: str) -> dict:
        try:
            with open(path, "rb") as file:
                size = struct.unpack("<Q", file.read(8))[0]
                if size > 1 << 28:
                    raise ValueError
                header = json.loads(file.read(size))
            schema, blobs = header["schema"][0]["schema"], header["schema"][0]["blob_fields"]
            if not (all(_is_size(header[n]) for n in ("header_size", "page_size")) and header["page_size"]
                    and all(isinstance(x, str) and "/" not in x for x in header["shard_addresses"])
                    and all(_is_field(f) for f in schema.values()) and set(blobs) == {n for n, f in schema.items() if _is_blob(f)}):
                raise ValueError
            return header
        except FileNotFoundError:
            raise ValueError(f"there is no file '{path}'") from None
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, struct.error, RecursionError):
            raise ValueError(f"{path}: is no .mindrecord file, or is damaged: its header says no schema") from None

    def _index_of(self, path: str) -> list[tuple]:
        header = self._header_of(path)
        if not os.path.exists(path + ".db"):
            raise ValueError(f"there is no file '{path}.db', the index of '{path}'")
        try:
            database = sqlite3.connect(f"file:{path}.db?mode=ro", uri=True)
            found = database.execute("SELECT PAGE_ID_RAW, PAGE_OFFSET_RAW, PAGE_OFFSET_RAW_END, PAGE_ID_BLOB, PAGE_OFFSET_BLOB, "
                                     "PAGE_OFFSET_BLOB_END FROM INDEXES ORDER BY ROW_ID").fetchall()
            database.close()
        except sqlite3.Error as error:
            raise ValueError(f"{path}.db: is no index, or is damaged: {error}") from None
        if any(not _is_size(x) for row in found for x in row):
            raise ValueError(f"{path}.db: is damaged: a row lies nowhere")
        start, page = header["header_size"], header["page_size"]
        return [(path, start + a * page + b, c - b, start + d * page + e, f - e) for a, b, c, d, e, f in found]

    def __len__(self) -> int:
        return len(self.rows)

    def _bytes(self, path: str, at: int, size: int) -> bytes:
        file = self._open.get(path)
        if file is None:
            file = self._open[path] = open(path, "rb")  # noqa: SIM115, open until the data set is gone
        file.seek(at)
        data = file.read(size) if 8 <= size <= 1 << 30 else b""
        if len(data) != size or struct.unpack("<Q", data[:8])[0] != size - 8:
            raise ValueError(f"{path}: a row at {at} has not the {size} bytes that the index says: damaged")
        return data[8:]

    def row(self, number: int) -> dict[str, Any]:
        """By the columns' names."""
        path, raw_at, raw_size, blob_at, blob_size = self.rows[number]
        what = f"{path}: row {number}"
        values: dict[str, Any] = {}
        if any(n not in self.blob_fields for n in self.columns):
            values = packed.unpack(self._bytes(path, raw_at, raw_size))
        if any(n in self.blob_fields for n in self.columns):
            parts = _parts(self._bytes(path, blob_at, blob_size), len(self.blob_fields), what)
            values.update({n: _from_bytes(p, self.schema[n], what) for n, p in zip(self.blob_fields, parts) if n in self.columns})
        lacking = [n for n in self.columns if n not in values]
        if lacking:
            raise ValueError(f"{what} has no {', '.join(lacking)}: damaged")
        return {n: values[n] for n in self.columns}


class FileReader:
    """`get_next()`: rows as dicts, one after the other."""

    def __init__(self, file_name, num_consumer: int = 4, columns=None, operator=None):
        if operator is not None:
            raise ValueError("FileReader with operator is not in this front end: it reads rows in their order")
        self._records = Records(file_name, columns)

    def get_next(self) -> Iterator[dict]:
        return (self._records.row(i) for i in range(len(self._records)))

    def schema(self) -> dict:
        return self._records.schema

    def len(self) -> int:
        return len(self._records)

    def close(self) -> None:
        """Nothing is open between rows that would need it."""


class MindPage:
    """Refused by name."""

    def __init__(self, *args, **settings):
        raise ValueError("mindrecord.MindPage is not in this front end; FileReader reads rows, ds.MindDataset makes a data set of them")

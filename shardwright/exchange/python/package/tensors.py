"""Weights, states and batches: safetensors files, checkpoints' folders, and the values that a run begins with.

Files are mapped, so that nothing is read but the parts that are held here.
"""

import json
import math
import os
import struct

import arrays

NAMES = {dtype: name for name, dtype in arrays.TYPES.items()}


def error(message):
    raise SystemExit(f"train.py: {message}")


# ---- files ----


class File:
    """A safetensors file."""

    def __init__(self, path, writes=False):
        try:
            with open(path, "rb") as f:
                (length,) = struct.unpack("<Q", f.read(8))
                self.entries = json.loads(f.read(length))
        except (OSError, struct.error, ValueError) as e:
            error(f"{path}: is no safetensors file that can be read: {e}")
        self.run = json.loads(self.entries.pop("__metadata__", {}).get("shardwright.run", "{}"))
        self.start, self.bytes = 8 + length, arrays.mapped(path, writes)

    def __contains__(self, name):
        return name in self.entries

    def shape(self, name):
        return self.entries[name]["shape"]

    def tensor(self, name):
        """All of it; nothing is read before it is used."""
        entry = self.entries[name]
        begin, end = (self.start + offset for offset in entry["data_offsets"])
        return arrays.viewed(self.bytes[begin:end], arrays.TYPES[entry["dtype"]]).reshape(entry["shape"])


class Folder:
    """A checkpoint's folder: the run's latest, or one that the folder is itself."""

    def __init__(self, path):
        if os.path.exists(os.path.join(path, "latest")):
            path = os.path.join(path, "latest")
        try:
            with open(os.path.join(path, "manifest.json")) as f:
                self.manifest = json.load(f)
        except (OSError, ValueError) as e:
            error(f"{path}: is no checkpoint that can be read: {e}")
        if self.manifest.get("format") != 1:
            error(f"{path}: a checkpoint of format {self.manifest.get('format')}; this reads format 1")
        self.run = self.manifest["run"]
        self.tensors = {t["name"]: t for t in self.manifest["tensors"]}
        for t in self.tensors.values():  # "f32[32, 16]"
            t["shape"] = [int(n) for n in t["type"].partition("[")[2].rstrip("]").split(",") if n.strip()]
        self.files = [File(os.path.join(path, shard["file"])) for shard in self.manifest["shards"]]

    def __contains__(self, name):
        return name in self.tensors

    def shape(self, name):
        return self.tensors[name]["shape"]

    def part(self, name, box):
        """What lies in the box, of whatever parts there are: cells of a grid, row-major."""
        tensor = self.tensors[name]
        bounds = [cuts + [size] for cuts, size in zip(tensor["cuts"], tensor["shape"])]
        out = None
        for number, shard in enumerate(tensor["shards"]):
            cell, rest = [], number
            for cuts in reversed(bounds):
                rest, i = divmod(rest, len(cuts) - 1)
                cell.insert(0, (cuts[i], cuts[i + 1]))
            both = [(max(a, c), min(b, d)) for (a, b), (c, d) in zip(box, cell)]
            if any(a >= b for a, b in both):
                continue
            source = self.files[shard].tensor(name)
            if out is None:
                out = arrays.empty([b - a for a, b in box], source)
            here = tuple(slice(a - first, b - first) for (a, b), (first, _) in zip(both, box))
            there = tuple(slice(a - first, b - first) for (a, b), (first, _) in zip(both, cell))
            out[here] = source[there]
        return arrays.full([b - a for a, b in box], 0.0, None) if out is None else out  # of an empty box


def open_weights(path):
    return Folder(path) if os.path.isdir(path) else File(path)


def part_of(source, name, box):
    if isinstance(source, Folder):
        return source.part(name, box)
    return source.tensor(name)[tuple(slice(a, b) for a, b in box)]


# ---- the values that a run begins with ----


def shifted_right(x, bits):
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def signed(x):
    x &= (1 << 64) - 1
    return x - (1 << 64) if x >> 63 else x


def splitmix64(x):
    """Of arrays of 64 bits, which stand in signed integers and wrap around."""
    x = x + signed(0x9E3779B97F4A7C15)
    x = (x ^ shifted_right(x, 30)) * signed(0xBF58476D1CE4E5B9)
    x = (x ^ shifted_right(x, 27)) * signed(0x94D049BB133111EB)
    return x ^ shifted_right(x, 31)


class Stream:
    """Numbers that are functions of seed, name and index."""

    def __init__(self, seed, name):
        h = 0xCBF29CE484222325
        for byte in name.encode():
            h = ((h ^ byte) * 0x100000001B3) & ((1 << 64) - 1)
        self.key = int(splitmix64(arrays.integers([signed(seed ^ h)]))[0])

    def bits(self, index):
        flat = index.reshape([-1])  # NumPy tells when a single integer wraps around
        return splitmix64(self.key + splitmix64(flat)).reshape(index.shape)

    def uniform(self, index):
        return arrays.as_type(shifted_right(self.bits(index), 11), arrays.TYPES["F64"]) * 2.0**-53

    def below(self, index, n):
        bits = self.bits(index)  # unsigned: the upper half is 2^63 more
        return (shifted_right(bits, 1) % n * 2 + (bits & 1)) % n

    def normal(self, index):
        u, v = 1 - self.uniform(2 * index), self.uniform(2 * index + 1)
        return arrays.sqrt(-2 * arrays.log(u)) * arrays.cos(2 * math.pi * v)


def indices_of(shape, box, device):
    """Of the elements in a box, their places in the whole tensor."""
    index, stride = arrays.arange(0, 1, device).reshape([1] * len(shape)), 1
    for d in reversed(range(len(shape))):
        own = arrays.arange(*box[d], device) * stride
        index = index + own.reshape([-1] + [1] * (len(shape) - 1 - d))
        stride *= shape[d]
    return index


def initial(leaf, box, seed, device):
    init, start = leaf.get("init", {}), leaf.get("init", {}).get("init", "zeros")
    shape = [b - a for a, b in box]
    if start in ("zeros", "ones", "constant"):
        value = {"zeros": 0.0, "ones": 1.0, "constant": init.get("value", 0.0)}[start]
        return arrays.full(shape, value, device)
    stream, index = Stream(seed, init.get("as", leaf["name"])), indices_of(leaf["shape"], box, device)
    if start == "uniform":
        x = 2 * stream.uniform(index) - 1
    else:
        x = stream.normal(index)
        if start == "truncated_normal":
            count = math.prod(leaf["shape"])
            for draw in range(1, 64):
                far = abs(x) > 2
                if not far.any():
                    break
                index = index + far * count
                x = arrays.where(far, stream.normal(index), x)
    return init.get("shift", 0.0) + init.get("scale", 1.0) * x


def load(leaf, box, source, seed, has_states, device=None, may_lack=False):
    """A leaf's part as a run begins: from weights, which `may_lack` it, or else as it begins anew. Masters stand there as the weights."""
    dtype = arrays.dtype_called(leaf["dtype"])
    is_weight = leaf["kind"] == "param" or leaf["name"].endswith(".master")
    name = leaf["name"].removesuffix(".master")
    if source is None or not (is_weight or has_states):
        return arrays.as_type(initial(leaf, box, seed, device), dtype)
    if name not in source and "init." + name in source:
        name = "init." + name
    if name not in source:
        if is_weight and not may_lack:
            error(f"parameter '{name}' is missing from the weights")
        return arrays.as_type(initial(leaf, box, seed, device), dtype)
    if list(source.shape(name)) != list(leaf["shape"]):
        error(f"'{name}' is {leaf['shape']} but the weights have {list(source.shape(name))}")
    return arrays.placed(part_of(source, name, box), dtype, device)


# ---- files that are written ----


def head_of(tensors, run):
    """The header of a file of {name: (dtype, shape)}: wide elements first, which aligns them all."""
    entries, offset = {"__metadata__": {"shardwright.run": json.dumps(run)}}, 0
    for name, (dtype, shape) in sorted(tensors.items(), key=lambda t: (-arrays.size_of(t[1][0]), t[0])):
        end = offset + math.prod(shape) * arrays.size_of(dtype)
        entries[name] = {"dtype": NAMES[dtype], "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text, offset


def make_file(path, tensors, run):
    head, size = head_of(tensors, run)
    with open(path, "wb") as f:
        f.write(head)
        f.truncate(len(head) + size)

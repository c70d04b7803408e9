"""Safetensors, for tests that share no code with what they test."""

import json
import struct

import torch

TYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
         "I64": torch.int64, "I32": torch.int32, "U8": torch.uint8, "BOOL": torch.bool}


def read_all(path):
    with open(path, "rb") as f:
        (length,) = struct.unpack("<Q", f.read(8))
        entries = json.loads(f.read(length))
        data = bytearray(f.read())
    out = {}
    for name, entry in entries.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        dtype = TYPES[entry["dtype"]]
        if begin == end:
            out[name] = torch.empty(entry["shape"], dtype=dtype)
            continue
        out[name] = torch.frombuffer(data[begin:end], dtype=dtype).reshape(entry["shape"])
    return out


def write_all(path, tensors):
    entries, chunks, offset = {}, [], 0
    names = {dtype: name for name, dtype in TYPES.items()}
    for name, tensor in tensors.items():
        raw = bytes(tensor.contiguous().reshape(-1).view(torch.uint8).tolist())
        entries[name] = {"dtype": names[tensor.dtype], "shape": list(tensor.shape),
                         "data_offsets": [offset, offset + len(raw)]}
        chunks.append(raw)
        offset += len(raw)
    head = json.dumps(entries).encode()
    head += b" " * (-len(head) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head + b"".join(chunks))

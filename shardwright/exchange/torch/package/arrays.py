"""What the package's other files need of arrays, in PyTorch."""

import os

import torch

TYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
         "I64": torch.int64, "I32": torch.int32, "U8": torch.uint8, "BOOL": torch.bool}

where, stack, cat, sqrt, log, cos = torch.where, torch.stack, torch.cat, torch.sqrt, torch.log, torch.cos


def dtype_called(name):
    return getattr(torch, name)


def size_of(dtype):
    return torch.empty((), dtype=dtype).element_size()


def mapped(path, writes):
    """A file's bytes; nothing is read before it is used."""
    return torch.from_file(path, shared=writes, size=os.path.getsize(path), dtype=torch.uint8)


def viewed(data, dtype):
    if data.storage_offset() % size_of(dtype):
        data = data.clone()  # where others have put it at any byte
    return data.view(dtype)


def empty(shape, like):
    return torch.empty(shape, dtype=like.dtype)


def full(shape, value, device):
    return torch.full(shape, value, dtype=torch.float64, device=device)


def integers(values):
    return torch.tensor(values, dtype=torch.int64)


def arange(begin, end, device=None):
    return torch.arange(begin, end, device=device)


def as_type(x, dtype):
    return x.to(dtype)


def placed(x, dtype, device):
    """A copy of x, of whatever memory it is."""
    return x.to(dtype).clone().to(device)

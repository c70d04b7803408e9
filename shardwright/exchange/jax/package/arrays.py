"""What the package's other files need of arrays, in NumPy: on the host, from where devices take their parts.

JAX is not imported here: options say which devices it takes, and it asks when it is imported.
"""

import ml_dtypes  # JAX's own types of 16 bits
import numpy as np

TYPES = {"F64": np.dtype(np.float64), "F32": np.dtype(np.float32), "F16": np.dtype(np.float16),
         "BF16": np.dtype(ml_dtypes.bfloat16), "I64": np.dtype(np.int64), "I32": np.dtype(np.int32),
         "U8": np.dtype(np.uint8), "BOOL": np.dtype(np.bool_)}

where, stack, cat, sqrt, log, cos = np.where, np.stack, np.concatenate, np.sqrt, np.log, np.cos


def dtype_called(name):
    return np.dtype(getattr(ml_dtypes, name, name))


def size_of(dtype):
    return dtype.itemsize


def mapped(path, writes):
    """A file's bytes; nothing is read before it is used."""
    return np.memmap(path, np.uint8, "r+" if writes else "r")


def viewed(data, dtype):
    return data.view(dtype)


def empty(shape, like):
    return np.empty(shape, like.dtype)


def full(shape, value, _):
    return np.full(shape, value, np.float64)


def integers(values):
    return np.array(values, np.int64)


def arange(begin, end, _=None):
    return np.arange(begin, end, dtype=np.int64)


def as_type(x, dtype):
    return x.astype(dtype)


def placed(x, dtype, _):
    return np.array(x).astype(dtype)

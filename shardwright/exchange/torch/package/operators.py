"""The plan's operators, as its kernels compute them: sums in f32 at least, each result rounded once."""

import functools
import math
import os

import torch
import torch.nn.functional as F

aten = torch.ops.aten
is_compiling = torch.compiler.is_compiling if hasattr(torch, "compiler") else lambda: False
has_scaled_attention = hasattr(F, "scaled_dot_product_attention") and int(torch.__version__[0]) >= 2


def own_device():
    """SHARDWRIGHT_DEVICE (cpu or cuda), or a GPU for each rank where there are any."""
    kind = os.environ.get("SHARDWRIGHT_DEVICE") or ("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(kind, int(os.environ.get("LOCAL_RANK", "0"))) if kind == "cuda" else torch.device(kind)


device = own_device()


def computed_once(*numbers):
    """Of what is compiled in a kernel of its own, as a running sum of one addend is: else with every few elements again."""
    if not is_compiling():
        return numbers
    return torch.cumsum(torch.stack(numbers).unsqueeze(-1), -1).squeeze(-1).unbind()


def wide(x):
    """x in the type in which it is computed."""
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


def goes_by_pixels(x):
    """Whether convolutions are fastest where channels are neighbours: but for wide types on GPUs."""
    return not x.is_cuda or wide(x) is not x


def by_pixels(x):
    return x.contiguous(memory_format=torch.channels_last) if goes_by_pixels(x) else x


@functools.lru_cache(maxsize=None)
def own_kernel(name, device_type):
    """PyTorch's kernel of that name; None: this version has none, or none on such devices."""
    there = hasattr(torch, name) and torch._C._dispatch_has_kernel_for_dispatch_key("aten::" + name, device_type.upper())
    return getattr(torch, name) if there else None


def fetched(x):
    """What lies on the host, on the device."""
    return x.to(device, non_blocking=True)


def evicted(x):
    """What lies on the device, on the host: in memory that a device reads by itself."""
    if x.device.type == "cpu":
        return x
    return torch.empty(x.shape, dtype=x.dtype, pin_memory=True).copy_(x)


def once(f, *x):
    """f of operands in full precision, its result rounded to their type."""
    return f(*map(wide, x)).to(x[0].dtype)

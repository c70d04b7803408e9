"""The plan's operators, as its kernels compute them: sums in f32 at least, each result rounded once."""

import math
import os

import jax
import jax.numpy as jnp
from jax import lax

jax.config.update("jax_enable_x64", True)  # labels, moments and f64 are what the plan says
if "JAX_DEFAULT_MATMUL_PRECISION" not in os.environ:  # else products of f32 are of shorter types on GPUs and TPUs
    jax.config.update("jax_default_matmul_precision", "highest")


def wide(x):
    """x in the type in which it is computed."""
    return x if x.dtype in (jnp.float32, jnp.float64) else x.astype(jnp.float32)


def once(f, *x):
    """f of operands in full precision, its result rounded to their type."""
    return f(*map(wide, x)).astype(x[0].dtype)


def gradient(f, dy, *x):
    """What of dy flows to each x through f, in full precision, rounded once."""
    made, back = jax.vjp(f, *map(wide, x))
    out = tuple(dx.astype(v.dtype) for dx, v in zip(back(wide(dy).astype(made.dtype)), x))
    return out[0] if len(out) == 1 else out


# ---- between ranks ----


def own_part(x, begin, size):
    """`size` elements of each dim from `begin` on, which depends on the rank."""
    return lax.dynamic_slice(x, [jnp.asarray(b, jnp.int32) for b in begin], size)


def reduce_together(reduce, axes, *x):
    """Several tensors in one collective, as the others below."""
    return shapes_of(reduce(jnp.concatenate([v.reshape(-1) for v in x]), axes), [v.shape for v in x])


def cut(x, dim, count):
    """[count, ...]: the parts of x along dim."""
    return jnp.moveaxis(x.reshape(x.shape[:dim] + (count, x.shape[dim] // count) + x.shape[dim + 1 :]), dim, 0)


def joined(x, dim):
    """What `cut` has cut."""
    x = jnp.moveaxis(x, 0, dim)
    return x.reshape(x.shape[:dim] + (x.shape[dim] * x.shape[dim + 1],) + x.shape[dim + 2 :])


def rows_of(parts):
    """One row a rank, of several tensors [ranks, ...]."""
    return jnp.concatenate([part.reshape(part.shape[0], -1) for part in parts], 1)


def shapes_of(row, shapes):
    """Tensors [..., *shape] of what rows hold."""
    out, begin = [], 0
    for shape in shapes:
        size = math.prod(shape)
        out.append(row[..., begin : begin + size].reshape(row.shape[:-1] + tuple(shape)))
        begin += size
    return out


def gather_together(axes, dims, *x):
    made = lax.all_gather(jnp.concatenate([v.reshape(-1) for v in x]), axes)
    return [joined(part, dim) for part, dim in zip(shapes_of(made, [v.shape for v in x]), dims)]


def reduce_scatter_together(axes, dims, *x):
    parts = [cut(v, dim, lax.axis_size(axes)) for v, dim in zip(x, dims)]
    made = lax.psum_scatter(rows_of(parts), axes)
    return shapes_of(made, [part.shape[1:] for part in parts])


def all_to_all_together(axes, from_dims, to_dims, *x):
    parts = [cut(v, dim, lax.axis_size(axes)) for v, dim in zip(x, to_dims)]
    made = lax.all_to_all(rows_of(parts), axes, 0, 0, tiled=True)
    return [joined(part, dim) for part, dim in zip(shapes_of(made, [p.shape[1:] for p in parts]), from_dims)]

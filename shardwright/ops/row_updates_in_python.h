// Updates by rows as functions of Python: what their lines in PyTorch and JAX call.
#pragma once

namespace shardwright::ops {

inline constexpr const char* by_rows_in_torch = R"(
def by_rows_in_place(update, tensors, rows, ids, first, bag):
    """`update(gradient, *rows)` of those rows of the tensors that ids name: the others stay as they are."""
    shape = tensors[0].shape
    width = shape[-1] if bag != "none" else math.prod(shape[1:])
    count = shape[-2] if bag != "none" else shape[0]
    of = ids.reshape(-1, tensors[0].numel() // max(count * width, 1), ids.shape[-1] if bag != "none" else 1).long()
    at = of - first
    is_own = (of >= 0) & (at >= 0) & (at < count)
    gradients = rows.reshape(of.shape[:2] + (1, width))
    if bag == "mean":
        gradients = gradients / (of >= 0).sum(-1).clamp(min=1).reshape(of.shape[:2] + (1, 1)).to(rows.dtype)
    gradients = gradients.expand(of.shape + (width,))[is_own]
    at = (at + torch.arange(of.shape[1], device=ids.device).reshape(1, -1, 1) * count)[is_own]
    at, place = torch.unique(at, return_inverse=True)
    sums = torch.zeros((len(at), width), dtype=wide(gradients).dtype, device=rows.device)
    sums = sums.index_add(0, place, wide(gradients)).to(rows.dtype)
    flat = [x.view(-1, width) for x in tensors]
    new = update(sums, *[x[at] for x in flat])
    for x, to in zip(flat, new if isinstance(new, tuple) else (new,)):
        x[at] = to
    return tuple(tensors) if len(tensors) > 1 else tensors[0]


def by_rows(update, tensors, *call):
    return by_rows_in_place(update, [x.clone() for x in tensors], *call)
)";

inline constexpr const char* by_rows_in_jax = R"(
def by_rows(update, tensors, rows, ids, first, bag):
    """`update(gradient, *rows)` of those rows of the tensors that ids name: the others stay as they are."""
    shape = tensors[0].shape
    width = shape[-1] if bag != "none" else math.prod(shape[1:])
    count = shape[-2] if bag != "none" else shape[0]
    of = ids.reshape(-1, tensors[0].size // max(count * width, 1), ids.shape[-1] if bag != "none" else 1).astype(jnp.int64)
    at = of - first
    is_own = (of >= 0) & (at >= 0) & (at < count)
    gradients = wide(rows).reshape(of.shape[:2] + (1, width))
    if bag == "mean":
        gradients = gradients / jnp.maximum((of >= 0).sum(-1), 1).reshape(of.shape[:2] + (1, 1)).astype(gradients.dtype)
    gradients = jnp.where(is_own[..., None], gradients, jnp.zeros((), gradients.dtype)).reshape(-1, width)
    every = of.shape[1] * count
    at = jnp.where(is_own, at + jnp.arange(of.shape[1]).reshape(1, -1, 1) * count, every).reshape(-1)
    at, place = jnp.unique(at, return_inverse=True, size=at.size, fill_value=every)
    sums = jnp.zeros((at.size, width), gradients.dtype).at[place.reshape(-1)].add(gradients).astype(rows.dtype)
    flat = [x.reshape(-1, width) for x in tensors]
    new = update(sums, *[jnp.take(x, at, 0, mode="clip") for x in flat])
    new = [x.at[at].set(to, mode="drop") for x, to in zip(flat, new if isinstance(new, tuple) else (new,))]
    new = [to.reshape(x.shape) for x, to in zip(tensors, new)]
    return tuple(new) if len(new) > 1 else new[0]
)";

}  // namespace shardwright::ops

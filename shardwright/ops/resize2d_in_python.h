// Functions of Python that the lines of resized images call, in PyTorch and in JAX.
#pragma once

#include <string>

namespace shardwright::ops {

inline constexpr const char* resize_taps_in_torch = R"(
def resize_taps(first, count, n, to, mode, corners, like):
    """Of `count` elements from `first` on, of `to`, where they lie among n: left and right of them, and the share of the right."""
    step, start, unit = n, 0, to
    is_nearest = mode == "nearest" or n == to or n == 1 or (corners and to == 1)
    if not is_nearest:
        step, start, unit = (n - 1, 0, to - 1) if corners else (2 * n, n - to, 2 * to)
    place = ((torch.arange(count, device=like.device) + first) * step + start).clamp(min=0)
    left = torch.div(place, unit, rounding_mode="floor").clamp(max=n - 1)
    if is_nearest:
        return left, left, None
    return left, (left + 1).clamp(max=n - 1), torch.where(left < n - 1, place % unit, torch.zeros_like(place)).to(like.dtype) / unit


def of_dim(share, d):
    return share.reshape([-1] + [1] * (3 - d))
)";

inline const std::string resize2d_in_torch = std::string(resize_taps_in_torch) + R"(
def resize2d(x, shape, mode, corners, first, begin, of_x, of_y):
    y = wide(x) if mode == "bilinear" else x
    if mode == "bilinear" and list(x.shape[2:]) == list(of_x) and list(shape[2:]) == list(of_y):
        return F.interpolate(y, of_y, mode=mode, align_corners=corners).to(x.dtype)
    for d in (2, 3):
        left, right, share = resize_taps(first[d - 2], shape[d], of_x[d - 2], of_y[d - 2], mode, corners, y)
        last = y.shape[d] - 1
        one = y.index_select(d, (left - begin[d - 2]).clamp(max=last))
        if share is not None:
            share = of_dim(share, d)
            one = one * (1 - share) + y.index_select(d, (right - begin[d - 2]).clamp(max=last)) * share
        y = one
    return y.to(x.dtype)
)";

inline const std::string resize2d_grad_in_torch = std::string(resize_taps_in_torch) + R"(
def resize2d_grad(dy, shape, mode, corners, first, begin, of_x, of_y):
    dx = wide(dy)
    if mode == "bilinear" and list(shape[2:]) == list(of_x) and list(dy.shape[2:]) == list(of_y):
        return aten.upsample_bilinear2d_backward(dx, of_y, shape, corners, None, None).to(dy.dtype)
    for d in (2, 3):
        left, right, share = resize_taps(begin[d - 2], dx.shape[d], of_x[d - 2], of_y[d - 2], mode, corners, dx)
        parts = [(left, None)] if share is None else [(left, 1 - share), (right, share)]
        sums = torch.zeros(dx.shape[:d] + (shape[d],) + dx.shape[d + 1 :], dtype=dx.dtype, device=dx.device)
        for at, share in parts:
            is_own = (at >= first[d - 2]) & (at < first[d - 2] + shape[d])
            by = is_own.to(dx.dtype) if share is None else share * is_own.to(dx.dtype)
            sums = sums.index_add(d, (at - first[d - 2]).clamp(0, shape[d] - 1), dx * of_dim(by, d))
        dx = sums
    return dx.to(dy.dtype)
)";

inline constexpr const char* resize_taps_in_jax = R"(
def resize_taps(first, count, n, to, mode, corners, like):
    """Of `count` elements from `first` on, of `to`, where they lie among n: left and right of them, and the share of the right."""
    step, start, unit = n, 0, to
    is_nearest = mode == "nearest" or n == to or n == 1 or (corners and to == 1)
    if not is_nearest:
        step, start, unit = (n - 1, 0, to - 1) if corners else (2 * n, n - to, 2 * to)
    place = jnp.maximum((jnp.arange(count) + first) * step + start, 0)
    left = jnp.minimum(place // unit, n - 1)
    if is_nearest:
        return left, left, None
    return left, jnp.minimum(left + 1, n - 1), jnp.where(left < n - 1, place % unit, 0).astype(like.dtype) / unit


def of_dim(share, d):
    return share.reshape((-1,) + (1,) * (3 - d))
)";

inline const std::string resize2d_in_jax = std::string(resize_taps_in_jax) + R"(
def resize2d(x, shape, mode, corners, first, begin, of_x, of_y):
    y = wide(x) if mode == "bilinear" else x
    for d in (2, 3):
        left, right, share = resize_taps(first[d - 2], shape[d], of_x[d - 2], of_y[d - 2], mode, corners, y)
        one = jnp.take(y, left - begin[d - 2], d, mode="clip")
        if share is not None:
            share = of_dim(share, d)
            one = one * (1 - share) + jnp.take(y, right - begin[d - 2], d, mode="clip") * share
        y = one
    return y.astype(x.dtype)
)";

inline const std::string resize2d_grad_in_jax = std::string(resize_taps_in_jax) + R"(
def resize2d_grad(dy, shape, mode, corners, first, begin, of_x, of_y):
    dx = wide(dy)
    for d in (2, 3):
        left, right, share = resize_taps(begin[d - 2], dx.shape[d], of_x[d - 2], of_y[d - 2], mode, corners, dx)
        parts = [(left, None)] if share is None else [(left, 1 - share), (right, share)]
        sums = jnp.zeros(dx.shape[:d] + (shape[d],) + dx.shape[d + 1 :], dx.dtype)
        for at, share in parts:
            own = at - first[d - 2]
            where = (slice(None),) * d + (jnp.where((own >= 0) & (own < shape[d]), own, shape[d]),)
            sums = sums.at[where].add(dx if share is None else dx * of_dim(share, d), mode="drop")
        dx = sums
    return dx.astype(dy.dtype)
)";

}  // namespace shardwright::ops

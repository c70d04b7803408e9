// Functions of Python that the lines of convolutions call, in PyTorch and in JAX.
#pragma once

#include <string>

#include "shardwright/ops/sliding.h"

namespace shardwright::ops {

inline const std::string conv2d_in_torch = std::string(image_in_torch) + R"(
def conv2d(x, w, strides, dilations, shift, out):
    x, padding = padded_image(x, w.shape[2:], strides, dilations, shift, out)
    return F.conv2d(by_pixels(x), w, None, strides, padding, dilations, x.shape[1] // w.shape[1])
)";

inline const std::string conv_transpose2d_in_torch = std::string(image_in_torch) + R"(
def conv_transpose2d(dy, w, strides, dilations, groups, shift, shape):
    padding = [-shift[0], -shift[1]]
    outputs = [(shape[2 + d] + 2 * padding[d] - (w.shape[2 + d] - 1) * dilations[d] - 1) // strides[d] + 1 for d in (0, 1)]
    if min(padding) >= 0 and outputs == list(dy.shape[2:]) and wide(dy) is dy:
        dy = by_pixels(dy)
        return aten.convolution_backward(dy, unread(shape, dy), w, None, strides, padding, dilations, False, [0, 0], groups,
                                         [True, False, False])[0]
    operands = (dy, w) if dy.is_cuda else (wide(dy), wide(w))  # old versions have it for bf16 on GPUs alone
    dx = F.conv_transpose2d(*operands, None, strides, 0, 0, groups, dilations).to(dy.dtype)
    rows, columns = shape[2] - dx.shape[2] - shift[0], shape[3] - dx.shape[3] - shift[1]
    return F.pad(dx, (shift[1], columns, shift[0], rows))  # what lies outside of the image is cut off


def conv2d_grads(dy, w, x, strides, dilations, groups, shift, shape, w_shape, x_shift, out):
    """Those of operand and weight: at once where both windows are the convolution's own."""
    x, padding = padded_image(x, w_shape[2:], strides, dilations, x_shift, out)
    if padding == [-shift[0], -shift[1]] and list(x.shape) == list(shape) and wide(dy) is dy:
        return aten.convolution_backward(by_pixels(dy), by_pixels(x), w, None, strides, padding, dilations, False, [0, 0], groups,
                                         [True, True, False])[:2]
    return (conv_transpose2d(dy, w, strides, dilations, groups, shift, shape),
            conv2d_weight_grad(x, dy, w_shape, strides, dilations, [-padding[0], -padding[1]], out))
)";

inline const std::string conv2d_weight_grad_in_torch = std::string(image_in_torch) + R"(
def conv2d_weight_grad(x, dy, shape, strides, dilations, shift, out):
    x, padding = padded_image(x, shape[2:], strides, dilations, shift, out)
    groups = x.shape[1] // shape[1]
    dy = by_pixels(dy)
    return aten.convolution_backward(dy, by_pixels(x), unread(shape, dy), None, strides, padding, dilations, False, [0, 0],
                                     groups, [False, True, False])[1]
)";

inline const std::string conv2d_in_jax = std::string(image_in_jax) + R"(
def conv2d(x, w, strides, dilations, shift, out):
    padding = image_padding(x, w.shape[2:], strides, dilations, shift, out)
    groups = x.shape[1] // w.shape[1]
    return lax.conv_general_dilated(x, w, strides, padding, rhs_dilation=dilations, feature_group_count=groups)
)";

inline const std::string conv_transpose2d_in_jax = conv2d_in_jax + R"(
def conv_transpose2d(dy, w, strides, dilations, groups, shift, shape):
    forward = lambda x: conv2d(x, w, strides, dilations, shift, dy.shape[2:])
    return jax.linear_transpose(forward, jax.ShapeDtypeStruct(shape, dy.dtype))(dy)[0]
)";

inline const std::string conv2d_weight_grad_in_jax = conv2d_in_jax + R"(
def conv2d_weight_grad(x, dy, shape, strides, dilations, shift, out):
    forward = lambda w: conv2d(x, w, strides, dilations, shift, out)
    return jax.linear_transpose(forward, jax.ShapeDtypeStruct(shape, x.dtype))(dy)[0]
)";

}  // namespace shardwright::ops

#include "shardwright/runtime/backend/cpu/convolution.h"

namespace shardwright::cpu {

std::optional<ConvolutionKind> convolution_kind(std::string_view op) {
  if (op == "conv2d") return ConvolutionKind::forward;
  if (op == "conv_transpose2d") return ConvolutionKind::data_gradient;
  if (op == "conv2d_weight_grad") return ConvolutionKind::weight_gradient;
  return {};
}

ConvolutionGeometry convolution_geometry(const KernelCall& call, ConvolutionKind kind) {
  const bool has_x = kind != ConvolutionKind::data_gradient;
  const Shape& x = has_x ? call.operands[0].shape : call.results[0].shape;
  const Shape& w = kind == ConvolutionKind::weight_gradient ? call.results[0].shape : call.operands[1].shape;
  const auto spatial = ops::spatial_of(call.attributes, w[2], w[3]);
  const auto local = [&](std::size_t d, const char* loop) {
    return has_x ? ops::with_window_of_inputs(spatial[d], call, loop, x[2 + d])
                 : ops::with_window_of_outputs(spatial[d], call, loop, call.operands[0].shape[2 + d]);
  };
  const std::int64_t groups = w[1] == 0 ? 0 : x[1] / w[1];
  return {local(0, "h"), local(1, "w"), x[0], groups, w[1], groups == 0 ? 0 : w[0] / groups};
}

}  // namespace shardwright::cpu

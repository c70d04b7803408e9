// Convolutions by oneDNN, f32, on blocks of channels: 160 to 175 GF/s a core for most layers of ResNet-50, a quarter
// more than row-major.
//
// `convolution_formats` asks oneDNN for the formats that it likes best; the pass choose_formats lets values lie in
// these from layer to layer. Primitives are made once; which of them a shape gets is oneDNN's choice.

#include <oneapi/dnnl/dnnl.hpp>

#include <algorithm>
#include <array>
#include <memory>

#include "shardwright/runtime/backend/cpu/convolution.h"
#include "shardwright/runtime/backend/cpu/memory_format.h"

namespace shardwright::cpu {
namespace {

using Dims = dnnl::memory::dims;
using Memory = dnnl::memory::desc;
constexpr auto direct = dnnl::algorithm::convolution_direct;

/// Strides, dilations and pads as oneDNN counts them.
struct Slides {
  Dims strides, dilations, before, after;

  explicit Slides(const ConvolutionGeometry& g) {
    for (const ops::Local* l : {&g.rows, &g.columns}) {
      strides.push_back(l->stride);
      dilations.push_back(l->dilation - 1);
      before.push_back(-l->shift);
      const std::int64_t read = (l->out - 1) * l->stride + (l->kernel - 1) * l->dilation + 1;
      after.push_back(std::max<std::int64_t>(0, read - l->in + l->shift));
    }
  }
};

dnnl::primitive_attr own_scratch() {
  dnnl::primitive_attr out;
  out.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return out;
}

/// x, weight and y, whichever of them is made.
using Three = std::array<Memory, 3>;

/// Their places among the operands of a call; -1: the result.
std::array<int, 3> places(ConvolutionKind kind) {
  switch (kind) {
    case ConvolutionKind::forward: return {0, 1, -1};
    case ConvolutionKind::data_gradient: return {-1, 1, 0};
    default: return {0, -1, 1};
  }
}

std::array<int, 3> arguments(ConvolutionKind kind) {
  switch (kind) {
    case ConvolutionKind::forward: return {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    case ConvolutionKind::data_gradient: return {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST};
    default: return {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST};
  }
}

/// Throws: dnnl::error if oneDNN has no such convolution.
dnnl::primitive_desc_base described(ConvolutionKind kind, const Slides& s, const Three& t) {
  const auto forward = [&](const Three& m) {
    return dnnl::convolution_forward::primitive_desc({dnnl::prop_kind::forward_training, direct, m[0], m[1],
                                                      m[2], s.strides, s.dilations, s.before, s.after},
                                                     own_scratch(), engine());
  };
  if (kind == ConvolutionKind::forward) return forward(t);
  Three any;
  for (std::size_t i = 0; i < 3; ++i) any[i] = any_description_of(t[i].dims());
  if (kind == ConvolutionKind::data_gradient)
    return dnnl::convolution_backward_data::primitive_desc(
        {direct, t[0], t[1], t[2], s.strides, s.dilations, s.before, s.after}, own_scratch(), engine(),
        forward(any));
  return dnnl::convolution_backward_weights::primitive_desc(
      {direct, t[0], t[1], t[2], s.strides, s.dilations, s.before, s.after}, own_scratch(), engine(),
      forward(any));
}

class Convolution {
 public:
  Convolution(ConvolutionKind kind, const dnnl::primitive_desc_base& what, const KernelCall& call,
              Workspace& workspace)
      : stream_(engine()), primitive_(what.get()), workspace_(&workspace) {
    workspace.reserve(what.scratchpad_desc().get_size());
    for (std::size_t t = 0; t < 3; ++t) {
      const int name = arguments(kind)[t], place = places(kind)[t];
      if (place < 0) made_ = t;
      bind(t, name,
           {what.query_md(dnnl::query::exec_arg_md, name), engine(),
            place < 0 ? nullptr : call.operands[static_cast<std::size_t>(place)].data});
    }
    bind(3, DNNL_ARG_SCRATCHPAD, {what.scratchpad_desc(), engine(), nullptr});
  }

  void run(std::byte* made) const {
    dnnl_memory_set_data_handle(memories_[made_].get(), made);
    dnnl_memory_set_data_handle(memories_[3].get(), workspace_->data());
    const auto status = dnnl_primitive_execute(primitive_.get(), stream_.get(),
                                               static_cast<int>(arguments_.size()), arguments_.data());
    require(status == dnnl_success, "oneDNN's convolution says {}", static_cast<int>(status));
  }

 private:
  void bind(std::size_t i, int name, dnnl::memory memory) {
    memories_[i] = std::move(memory);
    arguments_[i] = {name, memories_[i].get()};
  }

  dnnl::stream stream_;
  dnnl::primitive primitive_;
  Workspace* workspace_;
  std::size_t made_ = 0;                  // which of x, weight, y
  std::array<dnnl::memory, 4> memories_;  // and the scratch memory
  std::array<dnnl_exec_arg_t, 4> arguments_{};
};

/// Sizes and pads that networks have. oneDNN 2.6 divides by zero for some that they have not, such as pads of a million.
bool is_usual(const ops::Local& l) {
  constexpr std::int64_t large = 1 << 16;
  for (const std::int64_t n : {l.stride, l.dilation, l.kernel, l.in, l.out})
    if (n > large) return false;
  const std::int64_t window = (l.kernel - 1) * l.dilation + 1;
  const std::int64_t behind = (l.out - 1) * l.stride + window - l.in + l.shift;
  return -l.shift < window && behind < window;
}

bool is_for_us(ConvolutionKind kind, const KernelCall& call) {
  constexpr std::int64_t most_channels = 1 << 20,
                         most_elements = std::int64_t{1} << 31;  // its sizes are ints
  const auto is_large = [](const TensorView& t) { return t.size() >= most_elements; };
  if (std::any_of(call.operands.begin(), call.operands.end(), is_large) || is_large(call.results[0]))
    return false;
  const ConvolutionGeometry g = convolution_geometry(call, kind);
  return call.results[0].dtype == DType::f32 && g.groups == 1 && !g.is_empty() && is_usual(g.rows) &&
         is_usual(g.columns) && std::max(g.in, g.out) <= most_channels;
}

}  // namespace

Formats convolution_formats(const OpDef& op, const KernelCall& call) {
  const auto kind = convolution_kind(op.name);
  if (!kind || !is_for_us(*kind, call)) return {};
  const auto place = places(*kind);
  Three any;
  for (std::size_t t = 0; t < 3; ++t)
    any[t] = any_description_of(
        (place[t] < 0 ? call.results[0] : call.operands[static_cast<std::size_t>(place[t])]).shape);
  Formats out{.operands = std::vector<std::optional<Format>>(2),
              .results = std::vector<std::optional<Format>>(1)};
  try {
    const auto what = described(*kind, Slides(convolution_geometry(call, *kind)), any);
    for (std::size_t t = 0; t < 3; ++t) {
      const auto format = format_of(what.query_md(dnnl::query::exec_arg_md, arguments(*kind)[t]));
      if (!format) return {};
      (place[t] < 0 ? out.results[0] : out.operands[static_cast<std::size_t>(place[t])]) = format;
    }
  } catch (const dnnl::error&) {
    return {};
  }
  return out;
}

Rows blocked_convolution(const FusedCall& fused, Workspace& workspace) {
  const auto kind = convolution_kind(fused.op.name);
  if (!kind || !is_for_us(*kind, fused.call)) return {};
  const KernelCall& call = fused.call;
  const auto place = places(*kind);
  Three tensors;
  bool is_blocked = false;
  for (std::size_t t = 0; t < 3; ++t) {
    const auto i = static_cast<std::size_t>(std::max(place[t], 0));
    const Format format = place[t] < 0 ? fused.result_format(0) : fused.operand_format(i);
    tensors[t] = description_of((place[t] < 0 ? call.results[0] : call.operands[i]).shape, format);
    is_blocked = is_blocked || !format.is_row_major();
  }
  if (!is_blocked) return {};
  try {
    const auto what = described(*kind, Slides(convolution_geometry(call, *kind)), tensors);
    return all_at_once(
        [c = std::make_shared<Convolution>(*kind, what, call, workspace)](std::byte* y) { c->run(y); });
  } catch (const dnnl::error&) {
    return {};  // a part whose window begins inside a stride: oneDNN knows no negative pads
  }
}

}  // namespace shardwright::cpu

// Convolutions by oneDNN on blocks of channels: in f32 160 to 175 GF/s a core for most layers of ResNet-50, a quarter
// more than row-major.
//
// bf16 is computed as such where the machine multiplies it fast; elsewhere, and f16, on copies in f32.
//
// `convolution_formats` asks oneDNN for the formats that it likes best; the pass choose_formats lets values lie in
// these from layer to layer. Primitives are made once; which of them a shape gets is oneDNN's choice.

#include <oneapi/dnnl/dnnl.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <tuple>

#include "shardwright/ops/block.h"
#include "shardwright/runtime/backend/cpu/convolution.h"
#include "shardwright/runtime/backend/cpu/instructions.h"
#include "shardwright/runtime/backend/cpu/memory_format.h"

namespace shardwright::cpu {
namespace {

using Dims = dnnl::memory::dims;
using MemoryDesc = dnnl::memory::desc;
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
using Three = std::array<MemoryDesc, 3>;

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
dnnl::primitive_desc_base described(ConvolutionKind kind, const Slides& s, const Three& t, DType dtype) {
  const auto forward = [&](const Three& m) {
    return dnnl::convolution_forward::primitive_desc({dnnl::prop_kind::forward_training, direct, m[0], m[1],
                                                      m[2], s.strides, s.dilations, s.before, s.after},
                                                     own_scratch(), engine());
  };
  if (kind == ConvolutionKind::forward) return forward(t);
  Three any;
  for (std::size_t i = 0; i < 3; ++i) any[i] = any_description_of(t[i].dims(), dtype);
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
              DType computed, Workspace& workspace)
      : stream_(engine()), primitive_(what.get()), workspace_(&workspace) {
    const DType dtype = call.results[0].dtype;
    if (dtype != computed) stored_ = dtype;
    std::size_t bytes = in_lines(what.scratchpad_desc().get_size());
    for (std::size_t t = 0; t < 3; ++t) {
      const int name = arguments(kind)[t], place = places(kind)[t];
      if (place < 0) made_ = t;
      const auto description = what.query_md(dnnl::query::exec_arg_md, name);
      data_[t] = place < 0 ? nullptr : call.operands[static_cast<std::size_t>(place)].data;
      bind(t, name, {description, engine(), data_[t]});
      if (!stored_) continue;
      copies_[t] = {bytes, static_cast<std::int64_t>(description.get_size() / sizeof(float))};
      bytes += in_lines(description.get_size());
    }
    workspace.reserve(bytes);
    bind(3, DNNL_ARG_SCRATCHPAD, {what.scratchpad_desc(), engine(), nullptr});
  }

  void run(std::byte* made) const {
    use(made_, made);
    use(3, workspace_->data());
    if (stored_) bring_copies();
    const auto status = dnnl_primitive_execute(primitive_.get(), stream_.get(),
                                               static_cast<int>(arguments_.size()), arguments_.data());
    require(status == dnnl_success, "oneDNN's convolution says {}", static_cast<int>(status));
    if (!stored_) return;
    const Copy& y = copies_[made_];
    *stored_ == DType::f16 ? ops::convert_elements<float, F16>(at(y), made, y.count)
                           : ops::convert_elements<float, BF16>(at(y), made, y.count);
  }

 private:
  /// A tensor in f32, in the workspace behind what the primitive needs.
  struct Copy {
    std::size_t offset = 0;
    std::int64_t count = 0;
  };

  static std::size_t in_lines(std::size_t bytes) { return (bytes + 63) / 64 * 64; }
  std::byte* at(const Copy& copy) const { return workspace_->data() + copy.offset; }

  void bind(std::size_t i, int name, dnnl::memory memory) {
    memories_[i] = std::move(memory);
    arguments_[i] = {name, memories_[i].get()};
  }
  void use(std::size_t i, std::byte* data) const { dnnl_memory_set_data_handle(memories_[i].get(), data); }

  void bring_copies() const {
    for (std::size_t t = 0; t < copies_.size(); ++t) {
      use(t, at(copies_[t]));
      if (t == made_) continue;
      *stored_ == DType::f16 ? ops::convert_elements<F16, float>(data_[t], at(copies_[t]), copies_[t].count)
                             : ops::convert_elements<BF16, float>(data_[t], at(copies_[t]), copies_[t].count);
    }
  }

  dnnl::stream stream_;
  dnnl::primitive primitive_;
  Workspace* workspace_;
  std::size_t made_ = 0;                  // which of x, weight, y
  std::array<dnnl::memory, 4> memories_;  // and the scratch memory
  std::array<dnnl_exec_arg_t, 4> arguments_{};
  std::optional<DType> stored_;  // if oneDNN gets copies
  std::array<std::byte*, 3> data_{};
  std::array<Copy, 3> copies_;
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
  const DType dtype = call.results[0].dtype;
  return is_floating(dtype) && dtype != DType::f64 && g.groups == 1 && !g.is_empty() && is_usual(g.rows) &&
         is_usual(g.columns) && std::max(g.in, g.out) <= most_channels;
}

/// Formats of x, weight and y.
using FormatsOfThree = std::optional<std::array<Format, 3>>;

FormatsOfThree asked_formats(ConvolutionKind kind, const Slides& slides, const Three& any, DType dtype) {
  std::array<Format, 3> out;
  try {
    const auto what = described(kind, slides, any, dtype);
    for (std::size_t t = 0; t < 3; ++t) {
      const auto format = format_of(what.query_md(dnnl::query::exec_arg_md, arguments(kind)[t]));
      if (!format) return {};
      out[t] = *format;
    }
  } catch (const dnnl::error&) {
    return {};
  }
  return out;
}

/// Formats in which oneDNN's convolution in `dtype` is fastest; nothing if it has none that we can say. A search asks for
/// the same convolutions again and again, and an answer takes some 100 us. All threads have the same answer: who compiles
/// a program and the ranks that run it.
FormatsOfThree formats_in(DType dtype, ConvolutionKind kind, const KernelCall& call) {
  constexpr std::size_t most_known = 10000;
  static std::shared_mutex mutex;
  static std::map<std::tuple<DType, ConvolutionKind, std::array<Dims, 7>>, FormatsOfThree> known;
  const auto place = places(kind);
  const Slides slides(convolution_geometry(call, kind));
  std::array<Dims, 7> sizes{Dims(),           Dims(),        Dims(),      slides.strides,
                            slides.dilations, slides.before, slides.after};
  Three any;
  for (std::size_t t = 0; t < 3; ++t) {
    const auto& tensor = place[t] < 0 ? call.results[0] : call.operands[static_cast<std::size_t>(place[t])];
    any[t] = any_description_of(tensor.shape, dtype);
    sizes[t] = {tensor.shape.begin(), tensor.shape.end()};
  }
  const std::tuple key{dtype, kind, sizes};
  {
    const std::shared_lock lock(mutex);
    if (const auto it = known.find(key); it != known.end()) return it->second;
  }
  const std::unique_lock lock(mutex);
  if (known.size() > most_known) known.clear();
  const auto [it, is_new] = known.try_emplace(key);
  if (is_new) it->second = asked_formats(kind, slides, any, dtype);
  return it->second;
}

/// What oneDNN is to compute with. In bf16 it pads the weights of images of three channels, which no format says.
DType computed_in(ConvolutionKind kind, const KernelCall& call) {
  const bool is_bf16 = call.results[0].dtype == DType::bf16 && multiplies_bf16();
  return is_bf16 && formats_in(DType::bf16, kind, call) ? DType::bf16 : DType::f32;
}

}  // namespace

Formats convolution_formats(const OpDef& op, const KernelCall& call) {
  const auto kind = convolution_kind(op.name);
  if (!kind || !is_for_us(*kind, call)) return {};
  const auto formats = formats_in(computed_in(*kind, call), *kind, call);
  if (!formats) return {};
  Formats out{.operands = std::vector<std::optional<Format>>(2),
              .results = std::vector<std::optional<Format>>(1)};
  for (std::size_t t = 0; t < 3; ++t) {
    const int place = places(*kind)[t];
    (place < 0 ? out.results[0] : out.operands[static_cast<std::size_t>(place)]) = (*formats)[t];
  }
  return out;
}

Rows blocked_convolution(const FusedCall& fused, Workspace& workspace) {
  const auto kind = convolution_kind(fused.op.name);
  if (!kind || !is_for_us(*kind, fused.call)) return {};
  const KernelCall& call = fused.call;
  const auto place = places(*kind);
  const DType dtype = computed_in(*kind, call);
  Three tensors;
  bool is_blocked = false;
  for (std::size_t t = 0; t < 3; ++t) {
    const auto i = static_cast<std::size_t>(std::max(place[t], 0));
    const Format format = place[t] < 0 ? fused.result_format(0) : fused.operand_format(i);
    tensors[t] = description_of((place[t] < 0 ? call.results[0] : call.operands[i]).shape, format, dtype);
    is_blocked = is_blocked || !format.is_row_major();
  }
  if (!is_blocked) return {};
  try {
    const auto what = described(*kind, Slides(convolution_geometry(call, *kind)), tensors, dtype);
    return all_at_once([c = std::make_shared<Convolution>(*kind, what, call, dtype, workspace)](
                           std::byte* y) { c->run(y); });
  } catch (const dnnl::error&) {
    return {};  // a part whose window begins inside a stride: oneDNN knows no negative pads
  }
}

}  // namespace shardwright::cpu

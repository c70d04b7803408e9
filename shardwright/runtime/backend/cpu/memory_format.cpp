#include "shardwright/runtime/backend/cpu/memory_format.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace shardwright::cpu {

dnnl::memory::data_type data_type_of(DType dtype) {
  require(dtype == DType::f32 || dtype == DType::bf16, "oneDNN in {}", name_of(dtype));
  return dtype == DType::f32 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
}

dnnl::memory::desc description_of(const Shape& shape, const Format& format, DType dtype) {
  dnnl::memory::desc out(dnnl::memory::dims(shape.begin(), shape.end()), data_type_of(dtype),
                         dnnl::memory::dims(strides_of(shape)));
  if (format.is_row_major()) return out;
  dnnl_blocking_desc_t& blocking = out.data.format_desc.blocking;
  std::int64_t stride = 1;
  for (std::size_t i = format.count; i-- > 0;) {
    const auto [dim, block] = format.parts[i];
    if (block > 0) {
      stride *= block;
    } else {
      blocking.strides[dim] = stride;
      stride *= shape[static_cast<std::size_t>(dim)] / format.block_of(static_cast<std::size_t>(dim));
    }
  }
  for (const auto [dim, block] : format.all()) {
    if (block == 0) continue;
    blocking.inner_blks[blocking.inner_nblks] = block;
    blocking.inner_idxs[blocking.inner_nblks++] = dim;
  }
  return out;
}

dnnl::memory::desc any_description_of(const Shape& shape, DType dtype) {
  return {dnnl::memory::dims(shape.begin(), shape.end()), data_type_of(dtype), dnnl::memory::format_tag::any};
}

std::optional<Format> format_of(const dnnl::memory::desc& description) {
  const dnnl_memory_desc_t& d = description.data;
  const auto count = static_cast<std::size_t>(d.ndims);
  if (d.format_kind != dnnl_blocked || d.offset0 != 0 || d.extra.flags != 0 ||
      !std::equal(d.dims, d.dims + count, d.padded_dims))
    return {};
  const dnnl_blocking_desc_t& blocking = d.format_desc.blocking;
  Format out;
  if (count + static_cast<std::size_t>(blocking.inner_nblks) > out.parts.size()) return {};
  std::vector<std::int8_t> order(count);
  std::iota(order.begin(), order.end(), std::int8_t{0});
  // Dims of size 1 may have equal strides: then either order says the same, and this one is said always.
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int8_t a, std::int8_t b) { return blocking.strides[a] > blocking.strides[b]; });
  for (std::int8_t dim : order) out.parts[out.count++] = {dim, 0};
  for (int b = 0; b < blocking.inner_nblks; ++b)
    out.parts[out.count++] = {static_cast<std::int8_t>(blocking.inner_idxs[b]),
                              static_cast<std::uint8_t>(blocking.inner_blks[b])};
  out = parse_format(to_text(out));
  const Shape shape(d.dims, d.dims + count);
  const bool is_f32 = description.data_type() == dnnl::memory::data_type::f32;
  if (!fits(out, shape) || description != description_of(shape, out, is_f32 ? DType::f32 : DType::bf16))
    return {};
  return out;
}

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

}  // namespace shardwright::cpu

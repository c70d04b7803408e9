#include "shardwright/runtime/backend/cpu/product_primitive.h"

#include <algorithm>
#include <memory>

#include "shardwright/runtime/backend/cpu/memory_format.h"

namespace shardwright::cpu {
namespace {

/// A batch of matrices; of transposed ones, `stored` rows stand beside each other.
dnnl::memory::desc matrices(std::int64_t batch, std::int64_t rows, std::int64_t columns, DType dtype,
                            bool is_transposed = false, std::int64_t stored = 0) {
  if (stored == 0) stored = rows;
  const dnnl::memory::dims strides = is_transposed ? dnnl::memory::dims{stored * columns, 1, stored}
                                                   : dnnl::memory::dims{rows * columns, columns, 1};
  return {{batch, rows, columns}, data_type_of(dtype), strides};
}

/// One matrix has two dims: oneDNN has more kernels for it than for a batch of one.
dnnl::memory::desc without_batch(const dnnl::memory::desc& matrix) {
  const dnnl_memory_desc_t& d = matrix.data;
  const auto* const strides = d.format_desc.blocking.strides;
  return {{d.dims[1], d.dims[2]}, matrix.data_type(), dnnl::memory::dims{strides[1], strides[2]}};
}

dnnl::matmul::primitive_desc described(const Product& p, DType dtype) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  std::array<dnnl::memory::desc, 3> m{matrices(p.batch, p.m, p.k, dtype, p.transpose_a, p.stored_m),
                                      matrices(p.shares_b ? 1 : p.batch, p.k, p.n, dtype, p.transpose_b),
                                      matrices(p.batch, p.m, p.n, dtype)};
  if (p.batch == 1) std::transform(m.begin(), m.end(), m.begin(), without_batch);
  return {dnnl::matmul::desc(m[0], m[1], m[2]), attributes, engine()};
}

}  // namespace

ProductPrimitive::ProductPrimitive(const Product& p, DType dtype, Workspace& workspace)
    : stream_(engine()), workspace_(&workspace) {
  const auto what = described(p, dtype);
  primitive_ = dnnl::matmul(what);
  workspace.reserve(what.scratchpad_desc().get_size());
  bound_ = {dnnl::memory(what.src_desc(), engine(), nullptr),
            dnnl::memory(what.weights_desc(), engine(), nullptr),
            dnnl::memory(what.dst_desc(), engine(), nullptr),
            dnnl::memory(what.scratchpad_desc(), engine(), nullptr)};
  constexpr std::array<int, 4> names{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD};
  for (std::size_t i = 0; i < names.size(); ++i) arguments_[i] = {names[i], bound_[i].get()};
}

void ProductPrimitive::run(const std::byte* a, const std::byte* b, std::byte* y) const {
  const std::array<const std::byte*, 4> data{a, b, y, workspace_->data()};
  for (std::size_t i = 0; i < data.size(); ++i)
    dnnl_memory_set_data_handle(bound_[i].get(),
                                const_cast<std::byte*>(data[i]));  // NOLINT: it reads operands only
  const auto status = dnnl_primitive_execute(primitive_.get(), stream_.get(),
                                             static_cast<int>(arguments_.size()), arguments_.data());
  require(status == dnnl_success, "oneDNN matmul says {}", static_cast<int>(status));
}

Rows batch_of_products(const Product& p, DType dtype, Workspace& workspace) {
  const auto bytes = static_cast<std::int64_t>(size_of(dtype));
  std::int64_t chunk = std::clamp<std::int64_t>(p.panel_rows(bytes) / p.m, 1, p.batch);
  while (p.batch % chunk != 0) --chunk;
  const auto all = std::make_shared<ProductPrimitive>(p, dtype, workspace);
  Product part = p;
  part.batch = chunk;
  const auto some = chunk == p.batch ? all : std::make_shared<ProductPrimitive>(part, dtype, workspace);
  const auto make = [=](std::int64_t first, std::int64_t rows, std::byte* y) {
    if (rows == p.batch * p.m) return all->run(p.a, p.b, y);
    const std::int64_t end = (first + rows) / p.m;
    for (std::int64_t q = first / p.m; q < end; q += chunk, y += chunk * p.m * p.n * bytes)
      some->run(p.a + q * p.m * p.k * bytes, p.b + (p.shares_b ? 0 : q * p.k * p.n * bytes), y);
  };
  return {.count = p.batch * p.m, .panel = chunk * p.m, .make = make};
}

}  // namespace shardwright::cpu

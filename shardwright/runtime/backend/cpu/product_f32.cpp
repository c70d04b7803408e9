// Products in f32 by oneDNN: dnnl_sgemm for one matrix, the matmul primitive for a batch of small ones.
//
// For one matrix dnnl_sgemm is as fast as the primitive or faster (GF/s, 1 thread, 32x784x512: NN 163 / 117,
// NT 128 / 114, TN 156 / 113; 1024^3: 168 / 157), and it calls operator new never, the primitive six times
// per run for its map of arguments. A batch of 16x16 matrices is four times faster in one primitive than in
// many calls. Both take packing memory from malloc or from us, never more than 3 MiB.

#include <oneapi/dnnl/dnnl.hpp>

#include <algorithm>
#include <array>
#include <memory>

#include "shardwright/runtime/backend/cpu/product.h"
#include "shardwright/runtime/backend/cpu/scratch.h"

namespace shardwright::cpu {
namespace {

const float* floats(const std::byte* data) { return reinterpret_cast<const float*>(data); }

/// Rows [first, first + n) of one matrix.
void multiply_rows(const Product& p, std::int64_t first, std::int64_t n, std::byte* y) {
  const float* const a = floats(p.a) + (p.transpose_a ? first : first * p.k);
  const auto status = dnnl_sgemm(p.transpose_a ? 'T' : 'N', p.transpose_b ? 'T' : 'N', n, p.n, p.k, 1.0F, a,
                                 p.transpose_a ? p.m : p.k, floats(p.b), p.transpose_b ? p.k : p.n, 0.0F,
                                 reinterpret_cast<float*>(y), p.n);
  require(status == dnnl_success, "dnnl_sgemm says {}", static_cast<int>(status));
}

Rows one(const Product& p) {
  const auto make = [p](std::int64_t first, std::int64_t n, std::byte* y) { multiply_rows(p, first, n, y); };
  return {.count = p.m, .panel = p.panel_rows(sizeof(float)), .make = make};
}

dnnl::memory::desc matrices(std::int64_t batch, std::int64_t rows, std::int64_t columns, bool is_transposed) {
  const dnnl::memory::dims strides = is_transposed ? dnnl::memory::dims{rows * columns, 1, rows}
                                                   : dnnl::memory::dims{rows * columns, columns, 1};
  return {{batch, rows, columns}, dnnl::memory::data_type::f32, strides};
}

/// A primitive for `p.batch` matrices, run on any such run of them.
class Batch {
 public:
  explicit Batch(const Product& p)
      : p_(p), engine_(dnnl::engine::kind::cpu, 0), stream_(engine_), what_(described(p, engine_)) {
    primitive_ = dnnl::matmul(what_);
    scratch_ = Scratch(what_.scratchpad_desc().get_size());
    bound_ = {dnnl::memory(what_.src_desc(), engine_, nullptr),
              dnnl::memory(what_.weights_desc(), engine_, nullptr),
              dnnl::memory(what_.dst_desc(), engine_, nullptr),
              dnnl::memory(what_.scratchpad_desc(), engine_, scratch_.data())};
    constexpr std::array<int, 4> names{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD};
    for (std::size_t i = 0; i < names.size(); ++i) arguments_[i] = {names[i], bound_[i].get()};
  }

  /// Matrices from `first` on.
  void run(std::int64_t first, std::byte* y) const {
    const auto offset = [first](std::int64_t elements) {
      return static_cast<std::size_t>(first * elements) * sizeof(float);
    };
    bind(0, p_.a + offset(p_.m * p_.k));
    bind(1, p_.b + (p_.shares_b ? 0 : offset(p_.k * p_.n)));
    bind(2, y);
    const auto status = dnnl_primitive_execute(primitive_.get(), stream_.get(),
                                               static_cast<int>(arguments_.size()), arguments_.data());
    require(status == dnnl_success, "oneDNN matmul says {}", static_cast<int>(status));
  }

 private:
  void bind(std::size_t i, const std::byte* data) const {
    dnnl_memory_set_data_handle(bound_[i].get(),
                                const_cast<std::byte*>(data));  // NOLINT: it reads operands only
  }

  static dnnl::matmul::primitive_desc described(const Product& p, const dnnl::engine& engine) {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::matmul::desc product(matrices(p.batch, p.m, p.k, p.transpose_a),
                                     matrices(p.shares_b ? 1 : p.batch, p.k, p.n, p.transpose_b),
                                     matrices(p.batch, p.m, p.n, false));
    return {product, attributes, engine};
  }

  Product p_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::matmul::primitive_desc what_;
  dnnl::matmul primitive_;
  Scratch scratch_;
  std::array<dnnl::memory, 4> bound_;
  std::array<dnnl_exec_arg_t, 4> arguments_{};
};

/// As many matrices at a time as make a panel and divide the batch; all of them, when all rows are wanted.
Rows many(const Product& p) {
  std::int64_t chunk = std::clamp<std::int64_t>(p.panel_rows(sizeof(float)) / p.m, 1, p.batch);
  while (p.batch % chunk != 0) --chunk;
  const auto all = std::make_shared<Batch>(p);
  Product part = p;
  part.batch = chunk;
  const auto some = chunk == p.batch ? all : std::make_shared<Batch>(part);
  const auto make = [=, m = p.m, n = p.n, count = p.batch](std::int64_t first, std::int64_t rows,
                                                           std::byte* y) {
    if (rows == count * m) return all->run(0, y);
    const auto step = static_cast<std::size_t>(chunk * m * n) * sizeof(float);
    for (std::int64_t q = first / m; q < (first + rows) / m; q += chunk, y += step) some->run(q, y);
  };
  return {.count = p.batch * p.m, .panel = chunk * p.m, .make = make};
}

}  // namespace

void multiply_f32(const Product& p, std::byte* y) { multiply_rows(p, 0, p.m, y); }

Rows product_f32(const Product& p) { return p.batch == 1 ? one(p) : many(p); }

}  // namespace shardwright::cpu

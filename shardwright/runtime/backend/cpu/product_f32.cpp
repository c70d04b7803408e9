// Products in f32 by oneDNN: dnnl_sgemm for one matrix, the matmul primitive for a batch of small ones.
//
// For one matrix dnnl_sgemm is as fast as the primitive or faster (GF/s, 1 thread, 32x784x512: NN 163 / 117,
// NT 128 / 114, TN 156 / 113; 1024^3: 168 / 157), and it calls operator new never, the primitive six times
// per run for its map of arguments. A batch of 16x16 matrices is four times faster in one primitive than in
// many calls. Both take packing memory from malloc or from us, never more than 3 MiB.

#include <oneapi/dnnl/dnnl.hpp>

#include <array>

#include "shardwright/runtime/backend/cpu/product.h"

namespace shardwright::cpu {
namespace {

float* floats(std::byte* data) { return reinterpret_cast<float*>(data); }

PreparedKernel one(const Product& p) {
  return PreparedKernel([p] {
    const auto status =
        dnnl_sgemm(p.transpose_a ? 'T' : 'N', p.transpose_b ? 'T' : 'N', p.m, p.n, p.k, 1.0F, floats(p.a),
                   p.transpose_a ? p.m : p.k, floats(p.b), p.transpose_b ? p.k : p.n, 0.0F, floats(p.y), p.n);
    require(status == dnnl_success, "dnnl_sgemm says {}", static_cast<int>(status));
  });
}

dnnl::memory::desc matrices(std::int64_t batch, std::int64_t rows, std::int64_t columns, bool is_transposed) {
  const dnnl::memory::dims strides = is_transposed ? dnnl::memory::dims{rows * columns, 1, rows}
                                                   : dnnl::memory::dims{rows * columns, columns, 1};
  return {{batch, rows, columns}, dnnl::memory::data_type::f32, strides};
}

/// A primitive with its arguments bound.
class Batch {
 public:
  explicit Batch(const Product& p)
      : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_), what_(described(p, engine_)) {
    primitive_ = dnnl::matmul(what_);
    scratch_.resize(what_.scratchpad_desc().get_size() + alignment);
    const auto misaligned = reinterpret_cast<std::uintptr_t>(scratch_.data()) % alignment;
    bound_ = {dnnl::memory(what_.src_desc(), engine_, p.a), dnnl::memory(what_.weights_desc(), engine_, p.b),
              dnnl::memory(what_.dst_desc(), engine_, p.y),
              dnnl::memory(what_.scratchpad_desc(), engine_, scratch_.data() + alignment - misaligned)};
    constexpr std::array<int, 4> names{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD};
    for (std::size_t i = 0; i < names.size(); ++i) arguments_[i] = {names[i], bound_[i].get()};
  }

  void operator()() const {
    const auto status = dnnl_primitive_execute(primitive_.get(), stream_.get(),
                                               static_cast<int>(arguments_.size()), arguments_.data());
    require(status == dnnl_success, "oneDNN matmul says {}", static_cast<int>(status));
  }

 private:
  static constexpr std::size_t alignment = 64;

  static dnnl::matmul::primitive_desc described(const Product& p, const dnnl::engine& engine) {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::matmul::desc product(matrices(p.batch, p.m, p.k, p.transpose_a),
                                     matrices(p.shares_b ? 1 : p.batch, p.k, p.n, p.transpose_b),
                                     matrices(p.batch, p.m, p.n, false));
    return {product, attributes, engine};
  }

  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::matmul::primitive_desc what_;
  dnnl::matmul primitive_;
  std::vector<std::byte> scratch_;
  std::array<dnnl::memory, 4> bound_;
  std::array<dnnl_exec_arg_t, 4> arguments_{};
};

}  // namespace

PreparedKernel product_f32(const Product& p) { return p.batch == 1 ? one(p) : PreparedKernel(Batch(p)); }

}  // namespace shardwright::cpu

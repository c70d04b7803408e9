// oneDNN's matmul primitive for products of one size, wherever their operands lie.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include <array>

#include "shardwright/base/dtype.h"
#include "shardwright/runtime/backend/cpu/product.h"
#include "shardwright/runtime/backend/cpu/scratch.h"

namespace shardwright::cpu {

/// Sums are f32; operands and result are f32 or bf16. It takes its memory from the workspace. A run calls operator new
/// six times, for oneDNN's map of arguments.
class ProductPrimitive {
 public:
  /// The operands' places in `p` are not looked at.
  ProductPrimitive(const Product& p, DType dtype, Workspace& workspace);

  void run(const std::byte* a, const std::byte* b, std::byte* y) const;

 private:
  dnnl::stream stream_;
  dnnl::matmul primitive_;
  Workspace* workspace_;
  std::array<dnnl::memory, 4> bound_;  // a, b, y and what the primitive needs
  std::array<dnnl_exec_arg_t, 4> arguments_{};
};

/// As many matrices at a time as make a panel and divide the batch; all of them, when all rows are wanted.
Rows batch_of_products(const Product& p, DType dtype, Workspace& workspace);

}  // namespace shardwright::cpu

#include "shardwright/runtime/backend/cpu/cpu.h"

#include <omp.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "shardwright/runtime/backend/cpu/product.h"

namespace shardwright {
namespace {

/// Operators with a kernel of their own here. An empty kernel means "not for this call".
struct OwnKernel {
  std::string_view op;
  PreparedKernel (*prepare)(const KernelCall&);
};
constexpr std::array own_kernels{
    OwnKernel{"matmul", cpu::matmul},
    OwnKernel{"outer_product", cpu::outer_product},
};

class Cpu final : public Backend {
 public:
  std::string_view name() const override { return "cpu"; }

  void enter_thread() override { omp_set_num_threads(1); }

  Memory allocate(std::int64_t bytes) override {
    constexpr std::int64_t line = 64, huge_page = std::int64_t{1} << 21;
    const std::int64_t alignment = bytes < huge_page ? line : huge_page;
    const auto rounded =
        static_cast<std::size_t>((std::max(bytes, line) + alignment - 1) / alignment * alignment);
    auto* data = static_cast<std::byte*>(std::aligned_alloc(static_cast<std::size_t>(alignment), rounded));
    if (!data) throw Error(fmt::format("no memory for {} bytes", bytes), ErrorKind::memory);
    if (alignment == huge_page) madvise(data, rounded, MADV_HUGEPAGE);  // a wish; refusing it is fine
    std::memset(data, 0, rounded);
    return {{data, {[](std::byte* d, std::int64_t) { std::free(d); }, bytes}}};
  }

  PreparedKernel prepare(const OpDef& op, const KernelCall& call) override {
    for (const OwnKernel& own : own_kernels)
      if (own.op == op.name)
        if (PreparedKernel kernel = own.prepare(call)) return kernel;
    if (!op.kernel) throw error("operator {} has no kernel", op.name);
    return PreparedKernel([kernel = op.kernel, call] { kernel(call); });
  }
};

}  // namespace

std::unique_ptr<Backend> cpu_backend() { return std::make_unique<Cpu>(); }

}  // namespace shardwright

#include "shardwright/runtime/backend/cpu/cpu.h"

#include <omp.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "shardwright/runtime/backend/cpu/convolution.h"
#include "shardwright/runtime/backend/cpu/rows.h"
#include "shardwright/runtime/backend/cpu/scratch.h"

namespace shardwright {
namespace {

/// An operator's reference kernel as a head: all rows at once.
cpu::Rows reference_rows(const FusedCall& c) {
  const KernelCall& call = c.call;
  const std::int64_t columns = call.results[0].shape.empty() ? 1 : call.results[0].shape.back();
  const std::int64_t count = columns == 0 ? 0 : call.results[0].size() / columns;
  std::vector<TensorView> results(call.results.begin(), call.results.end());
  const auto make = [&op = c.op, call, results](std::int64_t, std::int64_t, std::byte* y) mutable {
    results[0].data = y;
    op.kernel({call.operands, results, call.attributes, call.rule, call.box});
  };
  return {.count = count, .panel = count, .make = make};
}

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

  PreparedKernel prepare(std::span<const FusedCall> calls) override {
    const FusedCall& first = calls.front();
    if (first.op.block) return cpu::pointwise(calls);
    if (!first.op.kernel) throw error("operator {} has no kernel", first.op.name);
    cpu::Rows rows = cpu::product_rows(first);
    if (calls.size() > 1) return cpu::pointwise(calls, rows ? std::move(rows) : reference_rows(first));
    if (rows)
      return PreparedKernel(
          [rows = std::move(rows), y = first.call.results[0].data] { rows.make(0, rows.count, y); });
    if (PreparedKernel kernel = cpu::convolution_by_columns(first, workspace_)) return kernel;
    return PreparedKernel([kernel = first.op.kernel, call = first.call] { kernel(call); });
  }

 private:
  cpu::Workspace workspace_;
};

}  // namespace

std::unique_ptr<Backend> cpu_backend() { return std::make_unique<Cpu>(); }

}  // namespace shardwright

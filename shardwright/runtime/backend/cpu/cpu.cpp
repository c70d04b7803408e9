#include "shardwright/runtime/backend/cpu/cpu.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "shardwright/runtime/backend/cpu/blocked.h"
#include "shardwright/runtime/backend/cpu/convolution.h"
#include "shardwright/runtime/backend/cpu/copy_threads.h"
#include "shardwright/runtime/backend/cpu/instructions.h"
#include "shardwright/runtime/backend/cpu/pages.h"
#include "shardwright/runtime/backend/cpu/reformat.h"
#include "shardwright/runtime/backend/cpu/rows.h"
#include "shardwright/runtime/backend/cpu/scratch.h"
#include "shardwright/runtime/trace.h"

namespace shardwright {
namespace {

/// An operator's reference kernel as a head: all rows at once.
cpu::Rows reference_rows(const FusedCall& c, cpu::Workspace& workspace) {
  const KernelCall& call = c.call;
  const std::int64_t columns = call.results[0].shape.empty() ? 1 : call.results[0].shape.back();
  const std::int64_t count = columns == 0 ? 0 : call.results[0].size() / columns;
  std::vector<TensorView> results(call.results.begin(), call.results.end());
  if (c.op.workspace) workspace.reserve(static_cast<std::size_t>(c.op.workspace(call)));
  const auto make = [&op = c.op, call, results, &workspace](std::int64_t, std::int64_t,
                                                            std::byte* y) mutable {
    results[0].data = y;
    op.kernel({call.operands, results, call.attributes, call.rule, call.box, workspace.data()});
  };
  return {.count = count, .panel = count, .make = make};
}

bool is_row_major(const FusedCall& call) {
  const auto is = [](const Format& f) { return f.is_row_major(); };
  return std::all_of(call.operand_formats.begin(), call.operand_formats.end(), is) &&
         std::all_of(call.result_formats.begin(), call.result_formats.end(), is);
}

/// Point-wise calls take elements in any order, if all have their own: what is stretched has not.
Formats pointwise_formats(const KernelCall& call) {
  Formats out{.takes_any = true};
  for (const TensorView& t : call.operands) {
    const bool is_whole = t.shape == call.results[0].shape;
    if (!is_whole && t.size() != 1) return {};
    out.operands.push_back(is_whole ? std::optional<Format>() : Format{});
  }
  out.results.resize(call.results.size());
  return out;
}

class Cpu final : public Backend {
 public:
  void enter_thread() override { omp_set_num_threads(1); }

  Memory allocate(std::int64_t bytes) override {
    if (bytes >= cpu::huge_page) return cpu::allocate_pages(bytes);
    constexpr std::int64_t line = 64;
    const auto rounded = static_cast<std::size_t>((std::max(bytes, line) + line - 1) / line * line);
    auto* data = static_cast<std::byte*>(std::aligned_alloc(line, rounded));
    if (!data) throw cpu::no_memory(bytes);
    std::memset(data, 0, rounded);
    return {{data, {[](std::byte* d, std::int64_t) { std::free(d); }, bytes}}};
  }

  bool is_host() const override { return true; }
  std::int64_t resident_bytes(std::span<const std::byte> memory) const override {
    return cpu::resident_bytes(memory);
  }

  void write(std::byte* to, std::span<const std::byte> host) override { copy(to, host.data(), host.size()); }
  void read(std::span<std::byte> host, const std::byte* from) override {
    copy(host.data(), from, host.size());
  }
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void fill(const TensorView& to, double value) override {
    if (value == 0) {
      std::memset(to.data, 0, static_cast<std::size_t>(to.size()) * size_of(to.dtype));
      return;
    }
    visit(to.dtype, [&]<class T>(std::type_identity<T>) {
      std::ranges::fill(to.as<T>(), static_cast<T>(static_cast<Compute<T>>(value)));
    });
  }
  void wait() override { copies_.wait(); }

  Memory allocate_host(std::int64_t bytes) override { return allocate(bytes); }
  void copy_later(DeviceStream way, std::byte* to, const std::byte* from, std::size_t bytes) override {
    copies_.add(way, to, from, bytes);
  }
  /// Kernels are done when their calls return.
  DeviceEvent record(DeviceStream stream) override {
    return {stream, stream == DeviceStream::compute ? 0 : copies_.asked(stream)};
  }
  void wait_for(DeviceEvent event, DeviceStream stream) override {
    if (event.stream == DeviceStream::compute || event.stream == stream) return;
    require(stream == DeviceStream::compute, "copies wait for kernels only");
    copies_.wait_for(event);
  }
  void wait_for(DeviceEvent event) override {
    if (event.stream != DeviceStream::compute) copies_.wait_for(event);
  }
  bool is_past(DeviceEvent event) override {
    return event.stream == DeviceStream::compute || copies_.is_past(event);
  }

  DeviceEvent record_time() override {
    times_.push_back(Recorder::now());
    return {DeviceStream::compute, static_cast<std::int64_t>(times_.size()) - 1};
  }
  std::int64_t time_of(DeviceEvent event) const override {
    return times_[static_cast<std::size_t>(event.number)];
  }
  void forget_times(std::size_t room) override {
    times_.clear();
    times_.reserve(room);
  }

  PreparedKernel prepare(std::span<const FusedCall> calls) override {
    const FusedCall& first = calls.front();
    if (first.op.block) return cpu::pointwise(calls, panels_);
    if (!first.op.kernel) throw error("operator {} has no kernel", first.op.name);
    if (PreparedKernel kernel = cpu::blocked_normalization(first)) return kernel;
    if (PreparedKernel kernel = cpu::blocked_pooling(first, workspace_)) return kernel;
    cpu::Rows rows = rows_of(first);
    if (calls.size() > 1) return cpu::pointwise(calls, panels_, std::move(rows));
    return PreparedKernel(
        [rows = std::move(rows), y = first.call.results[0].data] { rows.make(0, rows.count, y); });
  }

 private:
  /// The fastest kernel for a call: those that know formats, then those that are row-major, then the reference.
  cpu::Rows rows_of(const FusedCall& call) {
    if (cpu::Rows rows = cpu::blocked_convolution(call, workspace_)) return rows;
    if (cpu::Rows rows = cpu::blocked_batch_norm_rows(call)) return rows;
    if (cpu::Rows rows = cpu::reformat_rows(call, workspace_)) return rows;
    if (!is_row_major(call))
      return cpu::in_row_major(call, workspace_, [this](const FusedCall& c) { return rows_of(c); });
    if (cpu::Rows rows = cpu::product_rows(call, workspace_)) return rows;
    if (cpu::Rows rows = cpu::transpose_rows(call)) return rows;
    if (cpu::Rows rows = cpu::attention_rows(call, workspace_)) return rows;
    if (cpu::Rows rows = cpu::convolution_by_columns(call, workspace_)) return rows;
    return reference_rows(call, workspace_);
  }

  cpu::Workspace workspace_;  // of the kernel that runs
  cpu::Workspace panels_;     // of a chain whose head it is
  cpu::CopyThreads copies_;
  std::vector<std::int64_t> times_;
};

}  // namespace

Formats cpu_formats(const OpDef& op, const KernelCall& call) {
  if (op.block) return pointwise_formats(call);
  if (const auto formats = cpu::normalization_formats(op, call)) return *formats;
  if (const auto formats = cpu::pooling_formats(op, call)) return *formats;
  return cpu::convolution_formats(op, call);
}

std::unique_ptr<Backend> cpu_backend() { return std::make_unique<Cpu>(); }

DeviceKind cpu_devices() {
  return {.formats = cpu_formats,
          .backend = [](int) { return cpu_backend(); },
          .formats_are_of =
              fmt::format("kernels of {} (ONEDNN_MAX_CPU_ISA says which)", cpu::instructions_of_onednn())};
}

}  // namespace shardwright

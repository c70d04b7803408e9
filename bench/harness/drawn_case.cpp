#include "bench/harness/drawn_case.h"

#include <fmt/format.h>

#include <random>

namespace shardwright {
namespace {

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}

  PlanCase run() {
    PlanCase out{.model = model()};
    const char* kind = any({"a100-80g", "h100", "v100-32g", "ascend910b"});
    const int devices = any({8, 16, 32, 64, 128, 256, 512, 1024});
    out.cluster = cluster_called(fmt::format("{}:{}", kind, devices));
    if (below(4) == 0) slow_down(out.cluster);
    out.keeps_batch = out.model.starts_with("resnet");
    out.batch = devices * any({1, 4, 8, 16, 64}) / 4;
    out.precision = kind == std::string_view("v100-32g") ? any({"fp16", "fp16", "f32"})
                                                         : any({"bf16", "bf16", "fp16", "f32"});
    if (below(3) == 0) out.framework = "megatron";
    return out;
  }

 private:
  std::string model() {
    switch (below(8)) {
      case 0:
      case 1: {
        const int width = any({512, 1024, 2048, 4096, 8192});
        return fmt::format("gpt:layers={},hidden={},heads={},vocab={},seq={}", any({4, 8, 12, 24, 36, 48}),
                           width, width / any({64, 128}), any({8192, 50304}), any({256, 1024, 2048}));
      }
      case 2:
      case 3: {
        const int width = any({512, 1024, 2048, 4096, 8192}), heads = width / any({64, 128});
        return fmt::format("llama:layers={},hidden={},heads={},kv_heads={},ffn={},vocab={},seq={}",
                           any({4, 8, 16, 32, 60}), width, heads, heads / any({1, 4}), width * any({2, 3}),
                           any({8192, 32000}), any({512, 2048, 4096}));
      }
      case 4: return any({"llama2-7b", "llama2-13b", "llama2-70b"});
      case 5: return any({"pangualpha-2.6b", "pangualpha-13b"});
      case 6: return "resnet18";
      default: return any({"ffn", "matmul_chain:widths=4096-16384-4096-16384-4096"});
    }
  }

  /// Between nodes a twentieth of what there is, and ten times as late.
  static void slow_down(Cluster& cluster) {
    if (cluster.links.size() < 2) return;
    LinkLevel& network = cluster.links.back();
    network.bytes_per_second /= 20, network.latency_seconds *= 10, network.start_seconds *= 10;
    cluster.name += ", slow network";
  }

  std::size_t below(std::size_t n) { return random_() % n; }
  template <class T>
  T any(std::initializer_list<T> of) {
    return std::data(of)[below(of.size())];
  }

  std::mt19937_64 random_;
};

}  // namespace

PlanCase drawn_case(std::uint64_t seed) { return Draw(seed).run(); }

}  // namespace shardwright

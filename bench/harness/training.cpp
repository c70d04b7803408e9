#include "bench/harness/training.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "shardwright/base/random.h"
#include "shardwright/runtime/safetensors.h"

namespace shardwright {
namespace {

/// Of all steps but the first `warming`.
StepTime median_of(const std::vector<StepTime>& steps, int warming) {
  std::vector<double> seconds, cpu;
  for (auto s = steps.begin() + warming; s != steps.end(); ++s) {
    seconds.push_back(s->seconds);
    cpu.push_back(s->cpu_seconds);
  }
  return {spread_of(seconds).median, spread_of(cpu).median};
}

Batch batch_of(const Graph& graph, std::int64_t classes, std::uint64_t seed) {
  const RandomStream random(seed, "batch");
  std::uint64_t next = 0;
  Batch out;
  for (const Node& node : graph.nodes) {
    if (node.op->kind != OpKind::input) continue;
    const Value& value = graph.value(node.results.front());
    Tensor& t = out[value.name] = Tensor(value.global_type());
    if (t.dtype() == DType::f32)
      for (float& e : t.as<float>()) e = static_cast<float>(random.normal(next++));
    else
      for (std::int32_t& e : t.as<std::int32_t>())
        e = static_cast<std::int32_t>(random.below(next++, classes));
  }
  return out;
}

}  // namespace

OptimizerChoice optimizer_of_peers(const std::string& name, double rate) {
  OptimizerChoice out{name, {{"rate", rate}}};
  if (name == "momentum") out.attributes.set("momentum", 0.9);
  if (name == "adamw")
    for (const auto& [setting, value] : {std::pair{"beta2", 0.95}, {"epsilon", 1e-8}, {"weight_decay", 0.1}})
      out.attributes.set(setting, value);
  return out;
}

std::vector<Batch> random_batches(const Graph& graph, std::int64_t classes, std::uint64_t seed) {
  std::vector<Batch> out;
  for (std::uint64_t i = 0; i < 8; ++i) out.push_back(batch_of(graph, classes, seed + i));
  return out;
}

StepTime Steps::run(int steps, int warming) {
  std::vector<StepTime> times;
  for (int i = 0; i < steps + warming; ++i) {
    const double cpu = cpu_seconds_now();
    const double seconds = seconds_per_call(1, [&] { step(); });
    times.push_back({seconds, cpu_seconds_now() - cpu});
  }
  return median_of(times, warming);
}

StepTime run(Peer& peer, int steps, int warming) {
  std::vector<StepTime> times;
  for (const Peer::Step& s : peer.run(steps + warming)) times.push_back({s.seconds, s.cpu_seconds});
  return median_of(times, warming);
}

std::string file_for_peer(const Session& session, const std::vector<Batch>& batches) {
  std::map<std::string, Tensor> tensors;
  for (const Node& node : session.program().graph.nodes)
    if (node.op->kind == OpKind::parameter) {
      const std::string& name = session.program().graph.value(node.results[0]).name;
      tensors["init." + name] = session.get(name);
    }
  for (const auto& [name, first] : batches.front()) {
    Type type = first.type();
    type.shape.insert(type.shape.begin(), static_cast<std::int64_t>(batches.size()));
    Tensor all(type);
    auto to = all.bytes().begin();
    for (const Batch& b : batches) to = std::copy(b.at(name).bytes().begin(), b.at(name).bytes().end(), to);
    tensors[name] = std::move(all);
  }
  const std::string path = std::filesystem::temp_directory_path() / fmt::format("bench_peer_{}", getpid());
  write_safetensors(path, tensors);
  return path;
}

void check_losses(const std::vector<double>& ours, Peer& peer, double tolerance) {
  const std::vector<Peer::Step> theirs = peer.run(static_cast<int>(ours.size()));
  for (std::size_t i = 0; i < ours.size(); ++i)
    if (!(std::abs(ours[i] - theirs[i].loss) <= tolerance * theirs[i].loss))
      throw error("the loss is {} but the peer's is {}", ours[i], theirs[i].loss);
}

std::optional<Peer> start_peer(const Session& session, const std::vector<Batch>& batches,
                               const std::string& script, const std::vector<std::string>& words) {
  const std::string file = file_for_peer(session, batches);
  std::vector<std::string> command{"/usr/bin/python3", "bench/peers/" + script, file};
  command.insert(command.end(), words.begin(), words.end());
  auto peer = Peer::start(command);
  std::filesystem::remove(file);
  return peer;
}

std::optional<AgainstPeer> against_peer(Session& session, const std::vector<Batch>& batches,
                                        const PeerOptions& options) {
  auto peer = start_peer(session, batches, options.script, options.words);
  if (!peer) return {};
  Steps ours(session, batches);
  std::vector<double> losses;
  for (int i = 0; i < options.compared; ++i) losses.push_back(ours.loss());
  check_losses(losses, *peer);
  AgainstPeer out;
  std::vector<double> cpu_ratios;
  StepTime last;
  out.time = interleaved(
      options.rounds,
      [&] {
        last = ours.run(options.steps, options.warming);
        return last.seconds;
      },
      [&] {
        const StepTime theirs = run(*peer, options.steps, options.warming);
        cpu_ratios.push_back(last.cpu_seconds / theirs.cpu_seconds);
        return theirs.seconds;
      });
  out.cpu_ratio = spread_of(cpu_ratios);
  out.peak_bytes = peer->peak_bytes();
  return out;
}

std::int64_t peak_bytes_of(const std::function<void()>& work) {
  const int child = fork();
  if (child == 0) {
    work();
    _exit(0);
  }
  rusage used{};
  int status = 0;
  wait4(child, &status, 0, &used);
  if (status != 0) throw error("a process of the benchmark ended with status {}", status);
  return used.ru_maxrss * 1024;
}

}  // namespace shardwright

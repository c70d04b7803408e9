// Training steps measured against the same steps in another framework, which gets our weights and batches.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "bench/harness/measure.h"
#include "bench/harness/peer.h"
#include "shardwright/autodiff/train_step.h"
#include "shardwright/runtime/session.h"

namespace shardwright {

using Batch = std::map<std::string, Tensor>;

/// Normal numbers for floating inputs, integers below `classes` for the others.
std::vector<Batch> random_batches(const Graph& graph, std::int64_t classes, std::uint64_t seed);

/// The optimizer called `name` with the settings that bench/peers give it.
OptimizerChoice optimizer_of_peers(const std::string& name, double rate);

struct StepTime {
  double seconds = 0;
  double cpu_seconds = 0;  // without those in which another process had the core
};

/// Steps over the batches in turns.
class Steps {
 public:
  Steps(Session& session, const std::vector<Batch>& batches) : session_(session), batches_(batches) {}

  double loss() { return static_cast<double>(step().front().as<float>().front()); }
  /// Medians of `steps` behind `warming` ones, which fill the caches again and do not count.
  StepTime run(int steps, int warming = 3);

 private:
  std::vector<Tensor> step() { return session_.step(batches_[next_++ % batches_.size()]); }

  Session& session_;
  const std::vector<Batch>& batches_;
  std::size_t next_ = 0;
};

struct AgainstPeer {
  Comparison time;
  Spread cpu_ratio;
  std::int64_t peak_bytes = 0;  // resident, of the peer
};

struct PeerOptions {
  std::string script;              // of bench/peers
  std::vector<std::string> words;  // behind the file with weights and batches
  int steps = 1;                   // of a turn
  int warming = 3;                 // before them
  int rounds = 15;
  int compared = 3;  // losses that must agree within 1e-4, from the first on
};

/// Trains both in turns. Nothing if the peer is not installed. Throws: Error if the first losses differ.
std::optional<AgainstPeer> against_peer(Session& session, const std::vector<Batch>& batches,
                                        const PeerOptions& options);

/// A safetensors file with the initial weights of `session` and the batches, for a script of bench/peers.
std::string file_for_peer(const Session& session, const std::vector<Batch>& batches);

/// Both sides do the same work: the same weights and batches give the peer the same losses within `tolerance`.
/// Throws: Error if they do not.
void check_losses(const std::vector<double>& ours, Peer& peer, double tolerance = 1e-4);

/// Starts a script of bench/peers on our weights and batches. Nothing if what it needs is not installed.
std::optional<Peer> start_peer(const Session& session, const std::vector<Batch>& batches,
                               const std::string& script, const std::vector<std::string>& words);
/// Medians of `steps` of a peer's steps behind `warming` ones.
StepTime run(Peer& peer, int steps, int warming);

/// The most memory that a process of its own has resident while it does `work`, in bytes.
std::int64_t peak_bytes_of(const std::function<void()>& work);

}  // namespace shardwright

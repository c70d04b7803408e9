// The one way to run a plan: what a session runs was made here, for the kind of device that will run it, with the host's
// memory looked at and its step proven. Nothing else hands programs to sessions (scripts/check_one_way.sh), so that no way of
// running can forget a check that others have.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "shardwright/graph/graph.h"
#include "shardwright/lower/pipeline.h"
#include "shardwright/plan/plan.h"
#include "shardwright/runtime/backend/backend.h"
#include "shardwright/verify/verify.h"

namespace shardwright {

class Progress;
class Session;

struct PrepareOptions {
  DeviceKind device;
  bool verifies = true;  // the graph after each pass
  bool proves = true;    // false: another process of the run does
  /// Looks at what will run, before it is proven, which may take long; throws to refuse it: more memory than a cap allows.
  std::function<void(const Pipeline&)> accept = {};
  Progress* progress = nullptr;
};

/// A plan, and the network or train step that it is of.
struct StepToPrepare {
  Graph graph;
  Plan plan;
};

/// A program that may run.
class Prepared {
 public:
  const Pipeline& pipeline() const { return pipeline_; }
  const DeviceKind& device() const { return device_; }
  /// What there is to tell of it, a line each: operators that the device has no kernel for.
  std::vector<std::string> notices() const;
  /// Takes it out.
  Pipeline release() && { return std::move(pipeline_); }

 private:
  Prepared(Pipeline pipeline, DeviceKind device)
      : pipeline_(std::move(pipeline)), device_(std::move(device)) {}
  friend Prepared prepare(const Graph& graph, const Plan& plan, const PrepareOptions& options);
  friend std::vector<Prepared> prepare_together(const std::vector<StepToPrepare>& steps,
                                                const PrepareOptions& options);
  friend Prepared prepared_again(const Session& session);

  Pipeline pipeline_;
  DeviceKind device_;
};

/// Compiles a plan of `graph` (a network or train step of one micro-batch).
/// Throws: Error as compile_pipeline and prove do; of kind memory if this host has too little; what `accept` throws.
Prepared prepare(const Graph& graph, const Plan& plan, const PrepareOptions& options);

/// Of one network for batches of several sizes, the largest first: programs that share memory (passes/share_memory.h). `accept` looks at
/// each. Throws: also if they cannot.
std::vector<Prepared> prepare_together(const std::vector<StepToPrepare>& steps,
                                       const PrepareOptions& options);

/// What a session runs, for another that takes its place.
Prepared prepared_again(const Session& session);

/// As prove does, telling how far it is.
Proof proven(const Pipeline& pipeline, Progress* progress);

}  // namespace shardwright

// Tracing: running a network's code once on traced values writes its graph down.
//
// A Traced value stands for a tensor of the graph that is being built. Operators (frontend/operator.h)
// applied to it add nodes; their `shard` annotations are collected beside the graph.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/annotations/annotations.h"
#include "shardwright/base/precision.h"
#include "shardwright/graph/builder.h"

namespace shardwright {

class Trace;

/// A tensor of the network being traced. Cheap to copy; valid as long as its trace.
struct Traced {
  Trace* trace = nullptr;
  ValueId id;

  const Type& type() const;
};

/// How a parameter starts: see runtime/initial.h for the attributes.
struct Initializer {
  std::string name = "zeros";
  double scale = 1;
  double shift = 0;
};
inline Initializer zeros() { return {"zeros"}; }
inline Initializer ones() { return {"ones"}; }
/// Uniform in [-scale, scale].
inline Initializer uniform(double scale) { return {"uniform", scale}; }
/// Mean 0, standard deviation `deviation`; the seeds' "normal" has 0.01.
inline Initializer normal(double deviation = 0.01) { return {"normal", deviation}; }

/// A trained tensor of a module. It enters the graph when it is first used.
struct Parameter {
  std::string name;
  Shape shape;
  Initializer initializer;
  /// It is kept and read in full precision whatever products are computed in: weights of norms.
  bool is_full = false;
  /// Collectives of parameters of one number run as one, those of 0 alone; none: as the plan's limits say.
  std::optional<int> comm_fusion = {};
  /// Its own, whatever the network is computed in.
  std::optional<DType> dtype = {};
  bool is_frozen = false;  // read and never trained (graph/node_kinds.h)
};

/// What a module keeps from step to step without training it, such as running statistics.
struct State {
  std::string name;
  Shape shape;
  Initializer initializer;
  std::optional<DType> dtype = {};  // likewise
};

class Trace {
 public:
  explicit Trace(Precision precision = {}) : precision_(precision), builder_(graph_) {}
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  Graph& graph() { return graph_; }
  Builder& builder() { return builder_; }
  /// What code says of operators, parameters and modules.
  Constraints& constraints() { return constraints_; }
  /// The type of activations.
  DType precision() const { return precision_.compute; }
  /// That of what is kept in full precision, and of losses.
  DType kept_precision() const { return precision_.kept(); }
  bool is_mixed() const { return precision_.is_mixed; }
  const Precision& all_precision() const { return precision_; }

  Traced input(std::string_view name, Type type);
  Traced parameter(const Parameter& p);
  Traced state(const State& s);
  Traced call(std::string_view op, const std::vector<Traced>& operands, Attributes attributes = {},
              std::string_view name = "");
  /// The same for operators of several results.
  std::vector<Traced> call_all(std::string_view op, const std::vector<Traced>& operands,
                               Attributes attributes = {}, std::string_view name = "");
  /// Something to be minimised beside the network's loss, which it is added to in the end; the sum so far is called `sum`.
  void add_loss(Traced loss, std::string_view sum);
  const std::optional<Traced>& losses_beside() const { return losses_beside_; }
  /// After the step, `state` holds `value`.
  void update(Traced state, Traced value) { graph_.updates.push_back({state.id, value.id}); }

 private:
  Traced leaf(OpKind kind, const void* object, const Parameter& p);

  Precision precision_;
  Graph graph_;
  Builder builder_;
  Constraints constraints_;
  std::optional<Traced> losses_beside_;

  struct Used {
    const void* object;  // the same object is the same parameter
    ValueId value;
  };
  std::map<std::string, Used> leaves_;
};

}  // namespace shardwright

// A traced function, planned for devices and running on them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "python/core/trace.h"
#include "shardwright/frontend/graph_step.h"
#include "shardwright/search/planning/make_plan.h"

namespace shardwright::python {

/// Parameters and states by name, as several programs of one function (of other shapes) share them.
struct Store {
  std::map<std::string, LeafPtr> leaves;
};

class Program : public std::enable_shared_from_this<Program> {
 public:
  /// What is returned by the traced function, and what its optimizer, if it has one, makes of the first of it.
  struct Outputs {
    std::vector<ArrayPtr> values;
    std::optional<OptimizerChoice> optimizer;
  };

  /// `options`: settings by the names of the command's flags, `micro_batches=4` as --micro-batches 4.
  /// `store` gets the states that the optimizer adds. Throws: Error as planning and lowering do.
  Program(const std::shared_ptr<Tracing>& tracing, const Outputs& outputs,
          const std::map<std::string, std::string>& options, std::shared_ptr<Store> store);
  /// The network called `model` (a name, a graph or an ONNX file), trained by `optimizer`, of the same options.
  Program(const std::string& model, const OptimizerChoice& optimizer,
          const std::map<std::string, std::string>& options, std::shared_ptr<Store> store);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// One step. Shapes: whole batches, in the order in which the trace's inputs were made.
  std::vector<ArrayPtr> run(const std::vector<ArrayPtr>& batch);
  /// Likewise, where each process has its own rows of the batch; those of all ranks of a stage are the batch.
  std::vector<ArrayPtr> run_local(const std::vector<ArrayPtr>& rows);
  const std::vector<std::string>& inputs() const { return inputs_; }

  /// The newest value of what is kept under this name, from the devices.
  Tensor value_of(const std::string& name) const;
  void set_rate(double rate);
  /// Throws: Error once the program has ended.
  GraphStep& step() const;
  /// Brings what other programs have changed here.
  void refresh();
  /// All that is kept was set from outside.
  void has_loaded();
  /// Gives its devices back, with all that they hold.
  void end() { step_.reset(); }

  /// Of initial values.
  static std::uint64_t seed();
  static void set_seed(std::uint64_t seed);

 private:
  void start(TracedGraph traced, const std::vector<LeafPtr>& leaves,
             const std::map<std::string, std::string>& options, PlanRequest request);
  void find_leaves(const std::vector<LeafPtr>& known);
  /// Where this process's rows of an input are in the batch: of each micro-batch its part, those of the ranks of a stage
  /// one behind the other.
  void add_rows(const std::shared_ptr<Tensor>& rows, std::vector<TensorPart>& to) const;
  std::vector<ArrayPtr> finish(std::vector<Tensor> outputs);

  std::unique_ptr<GraphStep> step_;
  std::shared_ptr<Store> store_;
  struct Used {
    LeafPtr leaf;
    bool is_changed;  // by a step
  };
  std::vector<Used> leaves_;
  std::vector<std::string> inputs_;  // those that are given, then those that are captured
  std::vector<Tensor> captured_;
};

}  // namespace shardwright::python

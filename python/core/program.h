// A traced function, planned for devices and running on them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "python/core/asked.h"
#include "python/core/ranks.h"

namespace shardwright::python {

/// Parameters and states by name, as several programs of one function (of other shapes) share them.
struct Store {
  std::map<std::string, LeafPtr> leaves;
};

class Program : public std::enable_shared_from_this<Program> {
 public:
  /// `store` gets the states that the optimizer adds. `ranks`: the processes that run it; none said: all. `others`: the same function for
  /// smaller batches, which it runs over the same memory.
  /// Throws: Error as planning and lowering do.
  Program(Asked asked, std::shared_ptr<Store> store, std::vector<int> ranks = {},
          std::vector<Asked> others = {});
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// One step. Shapes: whole batches, in the order in which the trace's inputs were made.
  std::vector<ArrayPtr> run(const std::vector<ArrayPtr>& batch);
  /// Likewise, where each process has its own part of the batch; those of all ranks of a stage are the batch.
  /// `cuts`: per input, into how many parts each of its dims is cut; none said: its rows into those of the ranks. Ranks
  /// take the parts in row-major order, again from the first where there are more ranks than parts.
  std::vector<ArrayPtr> run_local(const std::vector<ArrayPtr>& parts, const std::vector<Shape>& cuts);
  /// Likewise, of a loop that runs without Python's lock and has the whole batch by name.
  std::vector<Tensor> step_of_loop(const std::map<std::string, Tensor>& batch);
  /// Such a batch, of what is given for the first inputs.
  std::map<std::string, Tensor> named(const std::vector<ArrayPtr>& batch) const;
  const std::vector<std::string>& inputs() const { return inputs_; }

  /// The newest value of what is kept under this name, from the devices. Of several processes all ask at the same time.
  Tensor value_of(const std::string& name) const;
  /// What devices of this process, or one of them, have of it, of which others need not know; nothing if it lies
  /// elsewhere.
  std::optional<TensorPart> own(const std::string& name, std::optional<int> rank = {}) const;
  /// Sets that, of which all processes call it.
  void set_own(const std::string& name, const Tensor& part, std::optional<int> rank = {});
  /// Those that it keeps.
  std::map<std::string, LeafPtr> leaves() const;
  void set_rate(double rate, const std::string& name);
  /// Of a network that is only asked: the parameters and states that `trained` has now.
  void take_weights(Program& trained);
  /// Throws: Error once the program has ended.
  GraphStep& step() const;
  /// Whose session runs, for what all processes do together: again, if a step has failed.
  GraphStep& running() const;
  /// Says that this process begins what all processes that run it do together. Throws: Error if another does not.
  void enter(std::string_view does) const { python::enter(step().session(), *together_, does); }
  /// Brings what other programs have changed here, and what was set from outside.
  void hand_over();
  /// Likewise, behind a look whether all processes have set the same. Throws: Error if not.
  void refresh();
  /// All that is kept was set from outside.
  void has_loaded();
  /// Gives its devices back, with all that they hold.
  void end() { step_.reset(); }

  /// Of initial values.
  static std::uint64_t seed();
  static void set_seed(std::uint64_t seed);

 private:
  /// Before a step.
  void begin();
  void agree_on_values() const;
  void find_leaves(const std::vector<LeafPtr>& known);
  std::optional<Box> box_of(const std::string& name, std::optional<int> rank) const;
  /// Where this process's part of an input is in the batch: it has one of each micro-batch.
  void add_part(const std::shared_ptr<Tensor>& part, const Shape& cuts, std::vector<TensorPart>& to) const;
  /// Those of a batch's size. Throws: Error if it is none of the program's.
  const std::vector<Tensor>& captured_beside(const std::vector<Tensor>& batch) const;
  std::size_t given() const { return inputs_.size() - captured_.front().size(); }
  /// What is given for input `i`, in the type in which the graph has it.
  Tensor as_input(std::size_t i, Tensor given) const;
  /// Behind a step: what it has changed is newest here.
  void has_stepped();
  std::vector<ArrayPtr> finish(std::vector<Tensor> outputs);

  std::shared_ptr<Together> together_ = std::make_shared<Together>();  // the session's start says what it is
  std::unique_ptr<GraphStep> step_;
  std::shared_ptr<Store> store_;
  struct Used {
    LeafPtr leaf;
    bool is_changed;  // by a step
  };
  std::vector<Used> leaves_;
  std::vector<std::string> inputs_;            // those that are given, then those that are captured
  std::vector<std::vector<Tensor>> captured_;  // by size of batches
  std::map<std::string, DType> input_types_;
  std::map<std::string, double> rates_;  // that were set
};

/// {shape, dtype, mesh, map, stage, first_rank, boxes} of what it keeps, by name.
py::dict layouts_of(const Program& program);
/// {mesh, in, stage} of its forward operators, by name.
py::dict operators_of(const Program& program);

}  // namespace shardwright::python

// What is being traced: one at a time in a thread, while a Python function runs on traced values.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "python/core/array.h"
#include "shardwright/autodiff/train_step.h"
#include "shardwright/runtime/boxes.h"

namespace shardwright {
class Session;
}

namespace shardwright::python {

class Program;

/// A tensor that is trained, or kept from step to step. Programs that use it hand it to each other: the newest value is in
/// one place, in memory or on the devices of the program that has changed it last.
class Leaf : public Array, public std::enable_shared_from_this<Leaf> {
 public:
  /// Starts as the initializer says, by the seed of the first program that uses it and its name.
  Leaf(std::string name, Type type, Initializer initializer, bool is_state);
  /// Starts with `value`.
  Leaf(std::string name, Tensor value, bool is_state);

  /// As a trace that runs has it, else its own.
  Type type() const override;
  /// The newest value; brought from the devices if it is there. Throws: Error if this process has not all of it.
  std::shared_ptr<Tensor> elements() const override;
  /// What this process has of it, of which others need not know: of what lies in a stage of others, where it started.
  TensorPart own() const;
  /// The newest value, for which processes that have parts of it all ask at the same time.
  std::shared_ptr<Tensor> gathered() const;
  /// Gives a session that knows the leaf the newest value; all processes do so at the same time.
  void hand_to(Session& session) const;
  Traced in(Tracing& tracing) const override;
  /// As a new leaf of `trace`.
  Traced enter(Trace& trace) const;

  const std::string& name() const { return name_; }
  /// Throws: Error once a program knows it by its name.
  void rename(std::string name);
  /// Throws: Error if the type is another.
  void set(Tensor value);
  /// As its own type has it: programs of another precision have another.
  Tensor in_own_type(Tensor value) const;
  /// The same value, where no program will have it any more.
  void keep(Tensor value) {
    if (!has_elements()) set_elements(in_own_type(std::move(value)));
  }

  bool is_state() const { return is_state_; }
  std::optional<int> comm_fusion = {};
  bool is_full = false;    // whatever products are computed in: weights of norms
  bool is_sparse = false;  // a table whose updates touch the rows of the batch, where the optimizer can
  bool is_frozen = false;  // read and never trained
  Attributes own_settings =
      {};  // of the optimizer's, where they are others for it; `rate_group` (ops/optimizer_settings.h)

  /// `program` has it now, as a program that reads it or changes it.
  void is_in(const std::shared_ptr<Program>& program, bool is_changed);
  /// Whether the memory of `program` has the newest value.
  bool is_newest_in(const Program& program) const;
  /// Null: on devices, or where its initializer says.
  const Tensor* outside() const { return has_elements() ? Array::elements().get() : nullptr; }
  /// No value has been looked at, set or computed: where it starts, its initializer says.
  bool is_fresh() const { return !has_elements() && readers_.empty(); }

 private:
  /// Null: its newest value is not on devices.
  std::shared_ptr<Program> reader() const;
  Tensor initial() const;

  std::string name_;
  Type type_;
  Initializer initializer_;
  bool is_state_ = false;
  mutable std::optional<Parameter> parameter_;  // as traces know it
  mutable std::optional<State> state_;
  std::vector<std::weak_ptr<Program>> readers_;  // whose memory has the newest value
};
using LeafPtr = std::shared_ptr<Leaf>;

class Tracing : public std::enable_shared_from_this<Tracing> {
 public:
  /// `is_training`: dropout drops, and batch norms take the statistics of the batch.
  explicit Tracing(const Precision& precision, bool training = false)
      : trace(precision), is_training(training) {}
  ~Tracing();

  /// Between the two operators are added here, and not computed.
  void begin();
  void end();
  static Tracing* current();
  bool is_running() const { return is_running_; }

  Traced input(const std::string& name, const Type& type) {
    return trace.input(name, {entering(type.dtype), type.shape});
  }
  /// The type of what stands in it for numbers from outside: what is floating takes the trace's own.
  DType entering(DType from) const {
    return is_floating(from) && trace.precision() != DType::f32 ? trace.precision() : from;
  }
  /// Elements from outside: an input that is the same at each run, unless they are lent and somebody writes to them.
  Traced captured(const std::shared_ptr<Tensor>& elements, bool is_lent);
  Traced leaf(const Leaf& leaf);

  std::vector<Traced> call(std::string_view op, const std::vector<Traced>& operands,
                           const Attributes& attributes, std::string_view name);
  /// What was traced, its nodes in the order of their phases. The trace stays as it is.
  Graph graph_of(const std::vector<Traced>& outputs, int micro_batches);

  /// Gradients of `loss` for arrays of this trace; those on which it does not depend are nothing.
  std::vector<std::optional<Traced>> gradients(Traced loss, const std::vector<Traced>& of);
  void update(const std::vector<std::pair<LeafPtr, Traced>>& gradients, const OptimizerChoice& optimizer);

  Trace trace;
  const bool is_training;
  bool calls_back = false;      // functions of Python that are no operators
  std::vector<LeafPtr> leaves;  // in the order of their first use
  std::vector<std::pair<std::shared_ptr<Tensor>, std::string>> outside;  // captured, and the inputs they are

 private:
  std::map<const Leaf*, Traced> known_leaves_;
  std::map<const Tensor*, Traced> known_outside_;
  bool is_running_ = false;
};

}  // namespace shardwright::python

#include "shardwright/frontend/onnx/loops.h"

#include <algorithm>
#include <map>

#include "shardwright/base/error.h"
#include "shardwright/base/tensor.h"
#include "shardwright/frontend/onnx/made_nodes.h"
#include "shardwright/frontend/onnx/tensors.h"

namespace shardwright {
namespace {

using List = std::vector<std::int64_t>;

constexpr std::int64_t most_rounds = 4096;
constexpr std::int64_t most_parts = 500;  // of what is scanned: inputs or outputs of one node

/// What the attributes say; those that nothing asks for are refused.
class Said {
 public:
  explicit Said(const onnx::NodeProto& loop) : loop_(loop) {}

  const onnx::AttributeProto* find(const std::string& name, onnx::AttributeProto::AttributeType type) {
    known_.push_back(name);
    for (const auto& a : loop_.attribute())
      if (a.name() == name && a.type() == type) return &a;
    return nullptr;
  }
  List integers(const std::string& name, std::size_t count) {
    const auto* a = find(name, onnx::AttributeProto::INTS);
    List out = a ? List(a->ints().begin(), a->ints().end()) : List(count, 0);
    if (out.size() != count)
      throw error("attribute '{}' has {} numbers but should have {}", name, out.size(), count);
    return out;
  }
  void check_all_read() const {
    for (const auto& a : loop_.attribute())
      if (std::ranges::find(known_, a.name()) == known_.end())
        throw error("attribute '{}' is not supported", printable(a.name()));
  }

 private:
  const onnx::NodeProto& loop_;
  std::vector<std::string> known_;
};

/// One of the two, in the terms of both: states go from round to round, parts are read, outputs are put together.
class Unrolled {
 public:
  Unrolled(const onnx::NodeProto& loop, const AroundNode& around)
      : loop_(loop), around_(around), name_(name_of(loop)), is_scan_(loop.op_type() == "Scan") {
    Said said(loop);
    const auto* body = said.find("body", onnx::AttributeProto::GRAPH);
    if (!body) throw error("has no attribute 'body'");
    body_ = &body->g();
    const auto* scanned = is_scan_ ? said.find("num_scan_inputs", onnx::AttributeProto::INT) : nullptr;
    const std::int64_t given = loop.input_size() - (is_scan_ ? 0 : 2), parts = scanned ? scanned->i() : 0;
    if (given < 0 || parts < 0 || parts > given || (is_scan_ && parts == 0))
      throw error("has {} inputs, which is not right", loop.input_size());
    parts_ = static_cast<std::size_t>(parts);
    states_ = static_cast<std::size_t>(given - parts);
    const std::int64_t own = is_scan_ ? 0 : 1;  // of results: the condition
    if (body_->input_size() != given + (is_scan_ ? 0 : 2) || body_->output_size() < own + given - parts)
      throw error("its body has {} inputs and {} outputs, which do not fit", body_->input_size(),
                  body_->output_size());
    outputs_ = static_cast<std::size_t>(body_->output_size() - own) - states_;
    if (static_cast<std::size_t>(loop.output_size()) > states_ + outputs_)
      throw error("has {} outputs but its body gives {}", loop.output_size(), states_ + outputs_);
    if (is_scan_) {
      in_axes_ = said.integers("scan_input_axes", parts_);
      in_backwards_ = said.integers("scan_input_directions", parts_);
      out_axes_ = said.integers("scan_output_axes", outputs_);
      out_backwards_ = said.integers("scan_output_directions", outputs_);
    } else {
      out_axes_ = out_backwards_ = List(outputs_, 0);
    }
    said.check_all_read();
    check_body();
  }

  void run() {
    for (std::size_t i = 0; i < states_; ++i)
      state_.push_back(loop_.input(static_cast<int>(i + first_state())));
    collected_.resize(outputs_);
    const std::int64_t rounds = is_scan_ ? rounds_of_parts() : rounds_of_loop();
    for (std::int64_t r = 0; r < rounds; ++r)
      if (!round(r)) break;
    finish();
  }

 private:
  std::size_t first_state() const { return is_scan_ ? 0 : 2; }
  std::string named(const std::string& what) const { return fmt::format("{}.{}", name_, what); }

  void add(const onnx::NodeProto& node) {
    if (--around_.budget < 0) throw error("its rounds are more than {} nodes", limits::nodes);
    around_.add(node);
  }

  void check_body() const {
    if (body_->sparse_initializer_size() > 0)
      throw error("its body has sparse tensors, which are not supported");
    for (const auto& tensor : body_->initializer()) {
      const Type type = checked_type(tensor, {});
      if (is_external(tensor) || (is_floating(type.dtype) && element_count(type.shape) != 1))
        throw error("its body has a tensor '{}' of {}, which is not supported; it should be outside",
                    printable(tensor.name()), to_text(type));
    }
    for (const auto& n : body_->node())
      for (const auto& a : n.attribute())
        if (a.type() == onnx::AttributeProto::GRAPH || a.type() == onnx::AttributeProto::GRAPHS)
          throw error("its body has '{}', which has one itself; that is not supported",
                      printable(n.op_type()));
  }

  // ---- how often ----

  /// Parts of each scanned input, in the order that they are read in.
  std::int64_t rounds_of_parts() {
    std::int64_t rounds = -1;
    for (std::size_t i = 0; i < parts_; ++i) {
      const std::string& input = loop_.input(static_cast<int>(states_ + i));
      const Shape shape = around_.at(input).type.shape;
      const auto rank = std::ssize(shape);
      const std::int64_t axis = in_axes_[i] < 0 ? in_axes_[i] + rank : in_axes_[i];
      if (axis < 0 || axis >= rank) throw error("axis {} does not exist in {}", in_axes_[i], to_text(shape));
      const std::int64_t count = shape[static_cast<std::size_t>(axis)];
      if (rounds >= 0 && rounds != count)
        throw error("scans {} parts of one input but {} of another", rounds, count);
      if (count > most_parts) throw error("scans {} parts, and at most {} are supported", count, most_parts);
      rounds = count;
      parts_of_.push_back(parts_along(input, i, axis, count));
    }
    return rounds;
  }

  std::vector<std::string> parts_along(const std::string& input, std::size_t i, std::int64_t axis,
                                       std::int64_t count) {
    std::vector<std::string> parts;
    for (std::int64_t r = 0; r < count; ++r) parts.push_back(named(fmt::format("part{}_{}", i, r)));
    onnx::NodeProto split = made_node("Split", {input}, parts, named(fmt::format("split{}", i)));
    set_integer(split, "axis", axis);
    add(split);
    for (std::string& part : parts) {
      const std::string whole = std::exchange(part, part + "_");
      add_with_axis("Squeeze", whole, part, axis);
    }
    if (in_backwards_[i] != 0) std::ranges::reverse(parts);
    return parts;
  }

  void add_with_axis(const char* op, const std::string& from, const std::string& to, std::int64_t axis) {
    for (const auto& n : with_axis(op, from, to, axis, around_.opset)) add(n);
  }
  std::string integer(const std::string& name, std::int64_t number) {
    add(constant_node(name, integer_tensor({number}, false)));
    return name;
  }

  std::shared_ptr<const Tensor> known(const std::string& value, const char* what) const {
    const Known& k = around_.at(value);
    if (!k.constant || k.constant->size() != 1)
      throw error("{} '{}' is not known while the model is loaded, which is not supported", what,
                  printable(value));
    return k.constant;
  }
  bool is_true(const std::string& value) const {
    return to_doubles(*known(value, "its condition")).front() != 0;
  }

  std::int64_t rounds_of_loop() const {
    const std::string &count = loop_.input(0), &condition = loop_.input(1);
    if (!condition.empty() && !is_true(condition)) return 0;
    if (count.empty()) return most_rounds + 1;
    const double rounds = to_doubles(*known(count, "its count")).front();
    return rounds > static_cast<double>(most_rounds) ? most_rounds + 1
                                                     : static_cast<std::int64_t>(std::max(rounds, 0.0));
  }

  // ---- a round ----

  /// Whether there is another one.
  bool round(std::int64_t r) {
    if (r == most_rounds) throw error("has more than {} rounds, which is not supported", most_rounds);
    std::map<std::string, std::string> names;
    const auto input = [&](std::size_t i) { return body_->input(static_cast<int>(i)).name(); };
    const std::string prefix = named(std::to_string(r)) + ".";
    if (!is_scan_) {
      names[input(0)] = integer(prefix + "round", r);
      names[input(1)] = prefix + "goes_on";
      onnx::TensorProto yes;
      yes.set_data_type(onnx::TensorProto::BOOL);
      yes.add_int32_data(1);
      add(constant_node(names[input(1)], yes));
    }
    for (std::size_t i = 0; i < states_; ++i) names[input(first_state() + i)] = state_[i];
    for (std::size_t i = 0; i < parts_; ++i)
      names[input(first_state() + states_ + i)] = parts_of_[i][static_cast<std::size_t>(r)];
    for (const auto& tensor : body_->initializer()) {
      names[tensor.name()] = prefix + tensor.name();
      add(constant_node(prefix + tensor.name(), tensor));
    }
    for (const auto& n : body_->node()) add(in_round(n, prefix, names));
    const auto result = [&](std::size_t i) {
      const std::string& name = body_->output(static_cast<int>(i)).name();
      const auto it = names.find(name);
      return it == names.end() ? around_.name(name) : it->second;
    };
    const std::size_t own = is_scan_ ? 0 : 1;
    for (std::size_t i = 0; i < states_; ++i) state_[i] = result(own + i);
    for (std::size_t i = 0; i < outputs_; ++i)
      if (is_wanted(states_ + i)) collect(i, result(own + states_ + i), prefix);
    return is_scan_ || is_true(result(0));
  }

  /// A node of the body with the names of this round; those that the body does not give are of the graph around it.
  onnx::NodeProto in_round(const onnx::NodeProto& n, const std::string& prefix,
                           std::map<std::string, std::string>& names) const {
    onnx::NodeProto out = n;
    out.set_name(prefix + name_of(n));
    for (std::string& input : *out.mutable_input())
      input = names.contains(input) ? names[input] : around_.name(input);
    for (std::string& output : *out.mutable_output())
      if (!output.empty()) output = names[output] = prefix + output;
    around_.settle(out);
    return out;
  }

  bool is_wanted(std::size_t output) const {
    return output < static_cast<std::size_t>(loop_.output_size()) &&
           !loop_.output(static_cast<int>(output)).empty();
  }

  /// The output of a round, with the dim that all of them are put together along.
  void collect(std::size_t i, const std::string& value, const std::string& prefix) {
    if (std::ssize(collected_[i]) == most_parts)
      throw error("puts outputs of more than {} rounds together, which is not supported", most_parts);
    const auto rank = std::ssize(around_.at(value).type.shape) + 1;
    const std::int64_t axis = out_axes_[i] < 0 ? out_axes_[i] + rank : out_axes_[i];
    collected_[i].push_back(fmt::format("{}collected{}", prefix, i));
    add_with_axis("Unsqueeze", value, collected_[i].back(), axis);
  }

  void finish() {
    for (std::size_t i = 0; i < states_; ++i)
      if (is_wanted(i)) {
        const std::string& to = loop_.output(static_cast<int>(i));
        add(made_node("Identity", {state_[i]}, {to}, named(fmt::format("state{}", i))));
      }
    for (std::size_t i = 0; i < outputs_; ++i) {
      if (!is_wanted(states_ + i)) continue;
      if (collected_[i].empty()) throw error("has no rounds, and so no outputs to put together");
      if (out_backwards_[i] != 0) std::ranges::reverse(collected_[i]);
      const std::string& to = loop_.output(static_cast<int>(states_ + i));
      onnx::NodeProto concat = made_node("Concat", collected_[i], {to}, named(fmt::format("outputs{}", i)));
      set_integer(concat, "axis", out_axes_[i]);
      add(concat);
    }
  }

  const onnx::NodeProto& loop_;
  const AroundNode& around_;
  std::string name_;
  bool is_scan_;
  const onnx::GraphProto* body_ = nullptr;
  std::size_t states_ = 0, parts_ = 0, outputs_ = 0;
  List in_axes_, in_backwards_, out_axes_, out_backwards_;
  std::vector<std::string> state_;                   // as it is called now
  std::vector<std::vector<std::string>> parts_of_;   // of each input, by rounds
  std::vector<std::vector<std::string>> collected_;  // of each output, by rounds
};

}  // namespace

bool is_loop(const onnx::NodeProto& node) { return node.op_type() == "Scan" || node.op_type() == "Loop"; }

void unroll(const onnx::NodeProto& loop, const AroundNode& around) try {
  Unrolled(loop, around).run();
} catch (const Error& e) {
  throw with_context(e, loop.op_type());
}

}  // namespace shardwright

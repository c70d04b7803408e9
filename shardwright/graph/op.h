// An operator: one declaration from which shapes, legal strategies, layouts, gradients, costs, text and tests
// all follow. One file in ops/ defines one operator or family; CMake collects them into `all_ops()`.
//
// Only name, rule, kernel and samples are always needed: `infer` defaults to what the rule tells, and without
// `gradient` the operator is not differentiable.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shardwright/graph/graph.h"
#include "shardwright/layout/redistribution.h"

namespace shardwright {

class Builder;
class Gradient;

/// One use of an operator, as its facets see it. Types are global.
struct Call {
  std::span<const Type> operands;
  std::span<const Type> results;  // empty while they are being inferred
  const Attributes& attributes;
};

/// One execution on one rank: local tensors, and which part of each loop dim this rank computes.
struct KernelCall {
  std::span<const TensorView> operands;
  std::span<const TensorView> results;
  const Attributes& attributes;
  const Rule& rule;
  const LoopBox& box;
  std::byte* workspace = nullptr;  // what the operator's facet of that name asks for, aligned to 64 bytes

  /// Offset, extent and global size of the loop dim called `name`.
  const LoopBox::Part& loop(std::string_view name) const {
    const int l = rule.loop(name);
    require(l >= 0, "no loop dim {}", name);
    return box.loops[static_cast<std::size_t>(l)];
  }
};
using Kernel = std::function<void(const KernelCall&)>;

/// Some consecutive elements of a point-wise call. Every operand stands as `count` elements: what is broadcast
/// has been expanded, a scalar too.
struct ElementBlock {
  std::span<std::byte* const> operands;
  std::span<std::byte* const> results;
  std::int64_t count = 0;

  template <class T>
  const T* operand(std::size_t i) const {
    return reinterpret_cast<const T*>(operands[i]);
  }
  template <class T>
  T* result(std::size_t i) const {
    return reinterpret_cast<T*>(results[i]);
  }
};
/// Computes one block; element types and attributes are bound. A result may be an operand's memory.
using BlockKernel = std::function<void(const ElementBlock&)>;

enum class OpKind {
  compute,
  input,        // no operands: a batch
  parameter,    // no operands: kept from step to step, trained
  state,        // no operands: kept from step to step, the optimizer's
  accumulator,  // no operands: kept from micro-batch to micro-batch, zero before the first; may be partial
  receive,      // no operands: comes from another stage
  step          // a redistribution step; the runtime executes it, it has no kernel
};

/// What the optimizer operators declare: operands are weight, gradient, then the states, then the step count
/// (a scalar that starts at 0), then the learning rate if `rate` is an operand; results are the new weight
/// and the new states.
struct OptimizerFacet {
  std::vector<std::string> states;
  bool counts_steps = false;
};
/// The weight itself in full precision, where it is read in a shorter one.
constexpr std::string_view master_state = "master";
/// The states of one call: those of its facet, and behind them `master` where the call has that attribute (see
/// ops/optimizers.cpp).
std::vector<std::string> states_of(const OptimizerFacet& facet, const Attributes& attributes);
/// The operands of an optimizer's node that are its states, in that order.
std::span<const ValueId> state_operands(const Node& node);

/// What takes the place of a value where a network is only asked, not trained.
struct Substitute {
  int operand = -1;        // of the operator, that is replaced; -1: result 0
  std::vector<int> reads;  // operands that it is made of
  ValueId (*make)(Builder&, std::span<const ValueId> reads) = nullptr;
};

/// How a call and the one that follows it are written where PyTorch has both in one.
struct JointForm {
  std::string other;                        // what follows
  std::vector<std::pair<int, int>> shared;  // operands of the two that are one value
  std::string line;  // a tuple of the results of both; {other.0}: a place of what follows
};

/// How a call is written in PyTorch: an expression with places for what it is about (exchange/python/call_line.h fills them).
///
///   {0}, {*}               operand 0, all operands        {epsilon}   an attribute, or one of `numbers`
///   {v.offset}, {v.size}   of the loop dim v              {shape}, {dtype}   of result 0
///   {in_place}             `_in_place` where results are written over the operands of OpDef::overwrites, else nothing
///
/// Attributes are local and have their defaults, shapes are local. Of several results the expression is a tuple.
struct TorchFacet {
  std::string line;
  std::function<std::string(const Call&)> line_for;  // instead of `line`, where types or attributes decide
  std::function<Attributes(const KernelCall&)> numbers;  // what a rank's call needs besides attributes
  std::string functions = {};  // Python's that the line calls, as they stand in a file
  bool may_share = false;      // there a result may be operand 0's memory seen otherwise
  std::vector<JointForm> joint = {};
};

/// How a call is written in JAX, with the same places and numbers. What is not said is as in PyTorch, where that names
/// nothing of PyTorch's: `{0} + {1}`.
struct JaxFacet {
  std::string line = {};
  std::function<std::string(const Call&)> line_for = {};
  std::string functions = {};
};

/// Of an operator whose rows each go through few of many experts, which lie side by side: its loop dims.
struct RoutedFacet {
  std::string experts;                  // each row's few are named by operand `ids`
  std::string inner;                    // features between the products of an expert
  std::size_t rows = 0, ids = 1;        // operands
  std::vector<std::size_t> reads = {};  // operands of which it reads rows of its own experts alone
  std::vector<std::size_t> makes = {};  // results of which it makes these, and zeros for others
};

struct OpDef {
  std::string name;
  std::string doc;                                      // one line: formula and meaning
  std::vector<std::string> attributes = {};             // names of those that it takes
  Attributes defaults = {};                             // of those that a call may leave out
  std::function<Attributes(const Call&)> defaults_for;  // instead of `defaults`, where types decide
  std::string rule;
  std::function<std::string(const Call&)> rule_for;  // instead of `rule`, where shapes or attributes decide
  std::string linear;                                // groups of jointly linear operands: `{0} {1}`
  std::function<std::string(const Call&)> linear_for;
  std::function<std::vector<Type>(const Call&)> infer;  // default: shapes from the rule, dtype of operand 0
  std::function<double(const Rule&)> flops;             // default: one per point of the loop space
  std::function<std::vector<ValueId>(Gradient&)> gradient;  // per operand; an invalid id = none flows there
  /// The same in operators whose loop dims of these names may be split: what lowering puts in place of one whose dims
  /// `k*` are; of a dim that goes round, in so many turns as the attribute `pieces` says. Adds calls with the operands and attributes of the node, returns its results.
  std::function<std::vector<ValueId>(Builder&, std::span<const ValueId> operands, const Attributes&)> expand;
  std::optional<Substitute> outside_training;             // of an operator that training alone has
  std::function<Attributes(const Call& local)> localize;  // attributes of the local call; default: the same
  Kernel kernel;
  /// Bytes that the kernel needs beside its operands and results while it runs, whatever they hold before.
  std::function<std::int64_t(const KernelCall&)> workspace;
  /// Of a point-wise operator, whose operands broadcast (right-aligned) to the shape of its results, instead of
  /// `kernel`: makes the kernel of a block. Backends run chains of such operators block by block, while the
  /// block is in the cache.
  std::function<BlockKernel(const Call&)> block;
  std::vector<std::string> samples;  // `f32[4,8], f32[8,6] (transpose_b=true)`; see tests/support/samples.h
  OpKind kind = OpKind::compute;
  std::optional<OptimizerFacet> optimizer;
  std::optional<StepKind> step;
  Reduction reduction = Reduction::sum;  // of a step
  bool is_alias = false;                 // the result is operand 0's memory seen otherwise (reshape)
  bool reads_scores = false;             // of classes: a loss over them, which takes passes of its own
  /// Its kernel asks where its part of a dim lies in the whole one, of dims that it does not reduce: elements that stand
  /// otherwise become others, unless its attribute `order` says how they stand.
  bool reads_places = false;
  bool is_chain = false;         // products follow on products in it, which its rule does not show
  bool is_made_by_rows = false;  // rows of the result can be computed on their own, in any number
  std::optional<RoutedFacet> routed = {};
  std::vector<int> overwrites;  // per result the operand of equal type whose memory it may take; empty = none
  TorchFacet torch = {};
  JaxFacet jax = {};
};

/// Every operator there is; written by CMake from the files in ops/.
std::span<const OpDef> all_ops();

/// The operator called `name`. Throws: Error with near names.
const OpDef& find_op(std::string_view name);
/// The operator of kind `kind`; for steps, of step kind and reduction.
const OpDef& op_of(OpKind kind);
const OpDef& op_of(StepKind step, Reduction reduction);

/// Throws: Error with near names if a call has an attribute that `op` does not take.
void check_attributes(const OpDef& op, const Attributes& attributes);

/// The call's attributes, and what it leaves out as its kernel takes it.
Attributes with_defaults(const OpDef& op, const Call& call);

/// Rule, result types and flops of a call. Throw: Error, prefixed with the operator's name.
Rule rule_of(const OpDef& op, const Call& call);
std::vector<Type> infer(const OpDef& op, const Call& call);
/// Floating-point operations of the whole call.
double flops_of(const OpDef& op, const Rule& rule);

}  // namespace shardwright

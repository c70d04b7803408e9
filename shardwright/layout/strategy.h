// A strategy: one node's choice, loop dim -> axes, and beside it linear group -> axes.
//
// `{m: dp, n: tp}` splits rows over dp and columns over tp. `{+0: sp}` says that the operands of linear group
// 0 are partial(sum) over sp: the other operands are replicated over it and the results are partial too.
// Two functions are the heart of the planner: `layouts_of` and `legal_strategies`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardwright/layout/layout.h"
#include "shardwright/layout/rule.h"

namespace shardwright {

struct Strategy {
  std::vector<Axes> loops;   // per loop dim of the rule
  std::vector<Axes> linear;  // per linear group, ascending
  int mesh = 0;

  auto operator<=>(const Strategy&) const = default;
};

/// The strategy that splits nothing.
Strategy whole(const Rule& rule);

/// Layouts that a node's operands must have, and that its results come out in.
struct NodeLayouts {
  std::vector<Layout> operands;
  std::vector<Layout> results;
};
NodeLayouts layouts_of(const Rule& rule, const Strategy& strategy);

/// Why `strategy` is not legal for `rule` on `mesh`, as the end of a sentence; nothing if it is.
/// Legal: whole dims unsplit, no axis twice, a minor dim of `(h d)` cut only when all more major ones are cut down to 1,
/// every cut even where uneven.h does not say that it need not be.
std::optional<std::string> violation(const Rule& rule, const Strategy& strategy, const Mesh& mesh);

struct StrategyOptions {
  bool linear = true;       // offer partial operands too
  bool all_orders = false;  // offer `dp.tp` and `tp.dp` for one dim; else only the mesh's order
};

/// As `violation`, of what a plan or an annotation asks for: it may split dims that make lowering expand the operator,
/// though not beside partial operands; a dim that goes round, over the axes of another one that no tensor has beside it.
std::optional<std::string> violation_as_asked(const Rule& rule, const Strategy& strategy, const Mesh& mesh);

/// Whether `strategy` splits such a dim.
bool needs_expansion(const Rule& rule, const Strategy& strategy);

/// Every legal strategy that cuts evenly; the unsplit one comes first. Exponential in the number of axes: (loops + 2)^axes.
std::vector<Strategy> legal_strategies(const Rule& rule, const Mesh& mesh,
                                       const StrategyOptions& options = {});

/// Offset, extent and global size of each loop dim on one rank.
struct LoopBox {
  struct Part {
    std::int64_t offset = 0;
    std::int64_t extent = 1;
    std::int64_t size = 1;
  };
  std::vector<Part> loops;
};
LoopBox loop_box(const Rule& rule, const Strategy& strategy, const Mesh& mesh, int rank);

/// The axes of all loop dims and linear groups, each once.
Axes used_axes(const Strategy& strategy);

/// Number of parts per dim of operand `i`, as the seeds write strategies: `(2, 4)`.
std::vector<std::int64_t> integers_of(const RuleTensor& tensor, const Strategy& strategy, const Mesh& mesh);

/// `{m: dp, n: tp, +0: sp}`; of heads that are cut unevenly `{h: tp/1}`
std::string to_text(const Strategy& strategy, const Rule& rule, const Mesh& mesh);
/// Throws: Error on an unknown loop dim or axis.
Strategy parse_strategy(Scanner& in, const Rule& rule, const Mesh& mesh);

}  // namespace shardwright

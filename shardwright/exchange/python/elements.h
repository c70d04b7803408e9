// What sections do, one after the other, as a package of Python has it: functions of tensors, which are all that is
// computed between two other things, and these. And what each of them reads and makes, so that nothing is kept that
// nobody reads any more.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "shardwright/exchange/python/task_lists.h"

namespace shardwright::python {

struct Element {
  Item item;                       // of a function: Act::compute
  std::vector<NodeId> nodes = {};  // of a function
  std::string name = {};
  std::vector<ValueId> reads = {}, makes = {};  // of the item's stage; of a function only what others read
  std::vector<ValueId> dropped = {};            // nobody reads them behind it
};

struct Elements {
  std::map<std::pair<int, Phase>, std::vector<Element>> sections;  // as in TaskLists
  std::vector<std::vector<bool>> is_of_step;  // by stage and value: one for all micro-batches
};

/// Where redistributions stand that ranks do together.
enum class Steps : std::uint8_t {
  apart,        // their starts and finishes stand between functions
  in_functions  // their finishes are lines of functions
};

Elements elements_of(const Pipeline& pipeline, const TaskLists& lists, Steps steps = Steps::apart);

/// Scalars among the outputs of a stage that `phase` makes, with their names outside.
std::vector<std::pair<ValueId, std::string>> scalars_of(const Pipeline& pipeline, int stage, Phase phase);

bool is_leaf(const Node& node);

}  // namespace shardwright::python

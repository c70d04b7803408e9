// In which order the described system (2.10) decides: it lists a network from its end, what an operator reads last before
// what it reads first, and takes the list backwards. Its data are an operator, too, if they are one tensor: readers that
// come later are compared with how it is cut.
#pragma once

#include <optional>
#include <vector>

#include "shardwright/search/space/cuts.h"

namespace shardwright::recursive {

/// In the place of a part: the data.
constexpr int data_part = -1;

/// The parts `mains`, and `data_part` where `data` is one value.
std::vector<int> reading_order(const space::CutProblem& problem, const std::vector<int>& mains,
                               std::optional<ValueId> data);

/// The network's input if it has one and no more, of at most four dims.
std::optional<ValueId> only_data(const Graph& graph);

/// How the data are cut, axis by axis: of the dims that can be, along that which most of their readers have cut, or the first.
class DataCuts {
 public:
  explicit DataCuts(Shape shape) : left_(std::move(shape)) {}

  /// `readers`: how each that is decided has the data cut along this axis.
  space::Cut cut(const std::vector<space::Cut>& readers, int parts);

 private:
  Shape left_;  // of a device
};

}  // namespace shardwright::recursive

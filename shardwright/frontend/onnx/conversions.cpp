#include "shardwright/frontend/onnx/conversions.h"

#include <algorithm>

#include "shardwright/base/error.h"
#include "shardwright/base/text.h"

namespace shardwright::onnx_operators {

const std::vector<Conversion>& all() {
  static const std::vector<Conversion> table = [] {
    std::vector<Conversion> out;
    for (const auto& family :
         {elementwise(), functions(), shapes(), constants(), reductions(), layers(), losses(), attentions(),
          contractions(), convolutions(), gates(), normalizations(), places(), pools(), rearranged(),
          recurrent(), resizing(), sampling()})
      out.insert(out.end(), family.begin(), family.end());
    std::ranges::sort(out, {}, &Conversion::op);
    if (const auto twice = std::ranges::adjacent_find(out, {}, &Conversion::op); twice != out.end())
      throw std::logic_error(fmt::format("ONNX's {} is converted in two ways", twice->op));
    return out;
  }();
  return table;
}

const Conversion& find(std::string_view op) {
  const auto& table = all();
  const auto it = std::ranges::lower_bound(table, op, {}, &Conversion::op);
  if (it != table.end() && it->op == op) return *it;
  std::vector<std::string> known;
  for (const Conversion& c : table) known.emplace_back(c.op);
  const std::string shown = printable(std::string(op));
  throw error("operator '{}' is not supported{}; docs/onnx.md lists those that are", shown,
              near_names(shown, known));
}

}  // namespace shardwright::onnx_operators

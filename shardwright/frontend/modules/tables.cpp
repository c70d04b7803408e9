#include "shardwright/frontend/modules/tables.h"

#include <cmath>

#include "shardwright/base/error.h"
#include "shardwright/ops/row_updates.h"

namespace shardwright {

Tables::Tables(const std::string& name, const Sizes& sizes, Pooling pooling)
    : lookup("lookup", name, pooling == Pooling::mean ? Attributes{{"mean", true}} : Attributes{}),
      weight{name + ".weight",
             {sizes.count, sizes.rows, sizes.width},
             uniform(1 / std::sqrt(static_cast<double>(sizes.rows)))} {}

Traced Tables::operator()(Traced ids) const {
  const Traced table = ids.trace->parameter(weight);
  mark_sparse(ids.trace->graph(), table.id);
  return lookup(table, ids);
}

Tables::Pooling pooling_called(std::string_view name) {
  if (name == "sum") return Tables::Pooling::sum;
  if (name == "mean") return Tables::Pooling::mean;
  throw error("pooling '{}' does not exist; there are sum, mean", name);
}

}  // namespace shardwright

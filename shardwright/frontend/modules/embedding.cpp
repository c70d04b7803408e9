#include "shardwright/frontend/modules/embedding.h"

namespace shardwright {

Embedding::Embedding(const std::string& name, std::int64_t rows, std::int64_t width)
    : gather(shardwright::gather(name)), weight{name + ".weight", {rows, width}, normal(0.02)} {}

Traced Embedding::operator()(Traced indices) const { return gather(weight, indices); }

}  // namespace shardwright

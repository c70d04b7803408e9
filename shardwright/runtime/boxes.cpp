#include "shardwright/runtime/boxes.h"

#include "shardwright/base/error.h"
#include "shardwright/base/text.h"

namespace shardwright {

Box whole_box(const Shape& shape) { return {Shape(shape.size()), shape}; }

std::string to_text(const Box& box) {
  std::vector<std::string> dims;
  for (std::size_t d = 0; d < box.extent.size(); ++d)
    dims.push_back(fmt::format("{}:{}", box.offset[d], box.offset[d] + box.extent[d]));
  return fmt::format("[{}]", join(dims, ", "));
}

void check_part(std::string_view name, const Type& whole, const Box& where, const Type& part) {
  const bool is_part = where.offset.size() == whole.shape.size() &&
                       where.extent.size() == whole.shape.size() &&
                       intersect(where, whole_box(whole.shape)) == where;
  if (!is_part) throw error("'{}' is {}; {} is no part of it", name, to_text(whole), to_text(where));
  if (const Type own{whole.dtype, where.extent}; part != own)
    throw error("the part {} of '{}' is {} but is given as {}", to_text(where), name, to_text(own),
                to_text(part));
}

}  // namespace shardwright

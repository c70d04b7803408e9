#include "shardwright/runtime/boxes.h"

#include "shardwright/base/error.h"
#include "shardwright/base/text.h"
#include "shardwright/layout/transfer.h"

namespace shardwright {

Box whole_box(const Shape& shape) { return {Shape(shape.size()), shape}; }

void cut_out(std::vector<Box>& boxes, const Box& part) {
  std::vector<Box> left;
  for (Box& box : boxes) {
    const Box common = intersect(box, part);
    if (is_empty(common)) {
      left.push_back(std::move(box));
      continue;
    }
    // What lies before and behind it in one dim after the other; then the box is it.
    for (std::size_t d = 0; d < box.extent.size(); ++d) {
      const std::int64_t begin = common.offset[d], end = begin + common.extent[d];
      Box before = box, behind = box;
      before.extent[d] = begin - box.offset[d];
      behind.offset[d] = end;
      behind.extent[d] = box.offset[d] + box.extent[d] - end;
      for (Box* each : {&before, &behind})
        if (each->extent[d] > 0) left.push_back(std::move(*each));
      box.offset[d] = begin;
      box.extent[d] = common.extent[d];
    }
  }
  boxes = std::move(left);
}

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

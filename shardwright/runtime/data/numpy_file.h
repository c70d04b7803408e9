// What stands in front of the numbers of a `.npy` file: their type, dims and order.
// Source: numpy.lib.format, versions 1 to 3.
#pragma once

#include <cstdint>
#include <string>

#include "shardwright/base/shape.h"
#include "shardwright/runtime/data/open_file.h"

namespace shardwright {

struct NumpyHead {
  std::string type;  // as numpy writes it: `<i4`
  Shape shape = {};
  bool is_fortran = false;  // elements lie column by column
  std::int64_t start = 0;   // of the numbers, in bytes
  std::int64_t width = 0;   // of a number, in bytes
};

/// Throws: Error of kind io if it is no such file, or does not hold as many numbers as it says.
NumpyHead numpy_head(const OpenFile& file);

}  // namespace shardwright

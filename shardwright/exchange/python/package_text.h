// The files of a package that are the same for all plans and engines: those of python/package, as text in the library.
#pragma once

#include <string_view>

namespace shardwright::python {

std::string_view package_text(std::string_view name);

}  // namespace shardwright::python

// The files of a package for PyTorch that are the same for all plans: those of torch/package, as text in the library.
#pragma once

#include <string_view>

namespace shardwright::torch {

std::string_view package_text(std::string_view name);

}  // namespace shardwright::torch

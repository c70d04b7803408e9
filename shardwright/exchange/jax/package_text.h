// The files of a package for JAX that are the same for all plans: those of jax/package, as text in the library.
#pragma once

#include <string_view>

namespace shardwright::jax {

std::string_view package_text(std::string_view name);

}  // namespace shardwright::jax

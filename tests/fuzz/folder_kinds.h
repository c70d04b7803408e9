// Kinds of files that lie in folders of Hugging Face: a network's config, adapters' config, talks for its chat template.
#pragma once

#include <string>

#include "tests/fuzz/commands.h"

namespace shardwright::fuzzing {

bool try_folder(const std::string& path);
bool try_adapters(const std::string& path);
bool try_talks(const std::string& path);

/// Those of the references, and what stands beside changed files, which is copied into `folder`.
void add_folder_seeds(Seeds& seeds, const std::string& folder);

}  // namespace shardwright::fuzzing

// Where the examples find MNIST: DATA_PATH, or digits drawn into the temporary folder.
#pragma once

#include <unistd.h>

#include <fmt/core.h>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "shardwright/runtime/data/digits.h"

inline std::string digits_path() {
  if (const char* path = std::getenv("DATA_PATH")) return path;
  const auto folder = std::filesystem::temp_directory_path() / "shardwright_digits";
  if (!std::filesystem::exists(folder / "t10k-labels-idx1-ubyte")) {
    // Another example may draw them at the same time: whoever is first puts them there as a whole.
    const std::string own = fmt::format("{}.{}", folder.string(), ::getpid());
    shardwright::write_digits(own, {.train = 4000, .test = 500});
    std::error_code is_there;
    std::filesystem::rename(own, folder, is_there);
    if (is_there) std::filesystem::remove_all(own);
  }
  return folder.string();
}

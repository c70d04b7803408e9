// Where the examples find MNIST: DATA_PATH, or digits drawn into the temporary folder.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "shardwright/runtime/digits.h"

inline std::string digits_path() {
  if (const char* path = std::getenv("DATA_PATH")) return path;
  const auto folder = std::filesystem::temp_directory_path() / "shardwright_digits";
  if (!std::filesystem::exists(folder / "t10k-labels-idx1-ubyte")) {
    std::filesystem::remove_all(folder);
    shardwright::write_digits(folder.string(), {.train = 4000, .test = 500});
  }
  return folder.string();
}

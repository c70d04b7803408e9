// Every file tests/golden/FOLDER/NAME.test is the test golden/FOLDER.NAME (README.md, support/golden.h).

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "tests/support/golden.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

namespace fs = std::filesystem;

class GoldenTest : public testing::Test {
 public:
  explicit GoldenTest(std::string path) : path_(std::move(path)) {}

  void TestBody() override {
    ::unsetenv("DATA_PATH");  // NOLINT(concurrency-mt-unsafe): no thread runs yet
    const Golden golden = parse_golden(read_bytes(path_));
    const std::string got = run_golden(golden, scratch_folder(), fs::current_path().string());
    if (got == golden.want) return;
    if (std::getenv("SHARDWRIGHT_UPDATE_GOLDENS")) return write_bytes(path_, golden.head + got);
    FAIL() << path_
           << "  (- wanted, + printed; ONEDNN_MAX_CPU_ISA=AVX2 SHARDWRIGHT_UPDATE_GOLDENS=1 accepts it)\n"
           << diff(golden.want, got);
  }

 private:
  std::string path_;
};

class NoGoldens : public testing::Test {
 public:
  void TestBody() override { FAIL() << "tests/golden is not here: run from the root of the repository"; }
};

bool register_all() {
  std::vector<fs::path> paths;
  if (fs::is_directory("tests/golden"))
    for (const auto& entry : fs::recursive_directory_iterator("tests/golden"))
      if (entry.path().extension() == ".test") paths.push_back(entry.path());
  std::ranges::sort(paths);
  for (const fs::path& path : paths)
    testing::RegisterTest(("golden/" + path.parent_path().filename().string()).c_str(), path.stem().c_str(),
                          nullptr, nullptr, path.c_str(), 1,
                          [name = path.string()]() -> testing::Test* { return new GoldenTest(name); });
  if (paths.empty())
    testing::RegisterTest("golden", "are_found", nullptr, nullptr, __FILE__, __LINE__,
                          []() -> testing::Test* { return new NoGoldens; });
  return true;
}

[[maybe_unused]] const bool is_registered = register_all();

}  // namespace
}  // namespace shardwright

// What saving and loading take beside what the disk does: a save of two ranks beside writing as many bytes and syncing
// them, its pause beside a save that is waited for, a load under another plan beside reading the files.
//
//   bench_checkpoints [--smoke] [FOLDER]      FOLDER: on the disk that is measured

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/base/error.h"
#include "shardwright/frontend/model.h"
#include "shardwright/passes/compile.h"
#include "shardwright/runtime/checkpoint/load.h"
#include "shardwright/runtime/checkpoint/saver.h"
#include "shardwright/runtime/memory_marks.h"
#include "shardwright/search/planning/make_plan.h"

namespace shardwright {
namespace {

namespace fs = std::filesystem;

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// As `dd bs=1M conv=fsync` does, a process for each rank.
double seconds_of_writing(const fs::path& folder, std::int64_t bytes, int files) {
  std::vector<std::byte> block(1 << 20, std::byte{7});
  const auto write_file = [&](int number) {
    const std::string path = folder / fmt::format("plain-{}", number);
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    for (std::int64_t left = bytes / files; left > 0;) {
      const auto size = std::min<std::int64_t>(left, static_cast<std::int64_t>(block.size()));
      if (::write(file, block.data(), static_cast<std::size_t>(size)) != size)
        throw error("{}: disk full", path);
      left -= size;
    }
    ::fsync(file);
    ::close(file);
  };
  return seconds_of([&] {
    std::vector<std::jthread> threads;
    for (int i = 0; i < files; ++i) threads.emplace_back(write_file, i);
  });
}

/// Out of the system's memory: it will be read from the disk.
void forget(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const int file = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    ::close(file);
  }
}

double seconds_of_reading(const fs::path& folder, int threads) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  return seconds_of([&] {
    std::vector<std::jthread> readers;
    for (int t = 0; t < threads; ++t)
      readers.emplace_back([&, t] {
        std::vector<char> block(1 << 20);
        for (std::size_t i = static_cast<std::size_t>(t); i < files.size();
             i += static_cast<std::size_t>(threads)) {
          const int file = ::open(files[i].c_str(), O_RDONLY | O_CLOEXEC);
          while (::read(file, block.data(), block.size()) > 0) {
          }
          ::close(file);
        }
      });
  });
}

Session session_of(const std::string& name, int level) {
  Model model = build_model(name);
  add_train_step(model.graph, model.loss, {"adam", {{"rate", 0.01}}});
  const Plan plan =
      make_plan(model.graph, {.devices = 2,
                              .parallel = Parallel::data_parallel,
                              .constraints = constraints_of({.optimizer_parallel = {level, 0}})});
  return Session(compile_pipeline(model.graph, plan, {.formats = default_devices().formats}),
                 {.only_scalars = true});
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void measure(const fs::path& folder, const std::string& model, int rounds) {
  std::vector<double> written, saved, pauses, read, loaded;
  std::int64_t bytes = 0;
  {
    Session session = session_of(model, 3);
    CheckpointSaver saver(session, {.folder = folder / "run", .keep = 1, .plan = ""});
    for (int i = 0; i < rounds; ++i) {
      saver.save({.model = model, .step = i});
      const Saved done = saver.wait().front();
      if (!done.failure.empty()) throw error("{}", done.failure);
      bytes = done.bytes;
      saved.push_back(done.seconds);
      pauses.push_back(done.pause_seconds);
      fs::create_directories(folder / "plain");
      written.push_back(seconds_of_writing(folder / "plain", bytes, 2));
      fs::remove_all(folder / "plain");
    }
  }
  Session other = session_of(model, 1);
  const std::int64_t before = most_bytes_of_process();
  std::vector<double> read_from_disk, loaded_from_disk;
  const auto load_all = [&] { load(other, open_source(folder / "run"), Restored::all); };
  for (int i = 0; i < rounds; ++i) {
    forget(folder / "run" / "latest");
    read_from_disk.push_back(seconds_of_reading(folder / "run" / "latest", 2));
    forget(folder / "run" / "latest");
    loaded_from_disk.push_back(seconds_of(load_all));
    read.push_back(seconds_of_reading(folder / "run" / "latest", 2));
    loaded.push_back(seconds_of(load_all));
  }
  const std::int64_t grown = most_bytes_of_process() - before;
  const double gigabytes = static_cast<double>(bytes) / 1e9;
  fmt::print("{:.2f} GB of 2 ranks, medians of {} rounds\n", gigabytes, rounds);
  fmt::print("save   {:7.3f} s  {:6.2f} GB/s   plain writing {:6.2f} GB/s   ratio {:.2f}\n", median(saved),
             gigabytes / median(saved), gigabytes / median(written), median(written) / median(saved));
  fmt::print("pause  {:7.3f} s  {:.1f}% of the save\n", median(pauses), 100 * median(pauses) / median(saved));
  const auto print_load = [&](const char* what, double own, double plain) {
    fmt::print("{} {:7.3f} s  {:6.2f} GB/s   plain reading {:6.2f} GB/s   ratio {:.2f}\n", what, own,
               gigabytes / own, gigabytes / plain, plain / own);
  };
  print_load("load, from the disk  ", median(loaded_from_disk), median(read_from_disk));
  print_load("load, from its cache ", median(loaded), median(read));
  fmt::print("        {:.1f} MB of memory beside what the ranks hold\n", static_cast<double>(grown) / 1e6);
}

}  // namespace
}  // namespace shardwright

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const bool is_smoke = std::ranges::find(words, "--smoke") != words.end();
  const bool has_folder = !words.empty() && words.back() != "--smoke";
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(has_folder ? words.back() : fs::temp_directory_path().string()) /
                          fmt::format("bench_checkpoints.{}", ::getpid());
  fs::create_directories(folder);
  shardwright::measure(folder, is_smoke ? "ffn:widths=64-64-8" : "ffn:widths=8192-8192-8192-4096-8,batch=8",
                       is_smoke ? 1 : 5);
  fs::remove_all(folder);
}

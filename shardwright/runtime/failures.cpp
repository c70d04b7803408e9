#include "shardwright/runtime/failures.h"

#include <fmt/format.h>

#include <cerrno>
#include <fstream>

#include "shardwright/base/file.h"

namespace shardwright {
namespace {

namespace fs = std::filesystem;

/// A rank that cannot write has none of this run, and should have none of another.
void remove_earlier(const FailureFolder& folder) {
  for (const auto& entry : fs::directory_iterator(folder.path)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("rank-") && name.ends_with(".txt") && entry.last_write_time() < folder.begun)
      fs::remove(entry.path());
  }
}

/// Without waiting for the disk, which may be slow: who is waited for is still to be said.
void write_at_once(const std::string& path, std::string_view text) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  if (!out.write(text.data(), std::ssize(text)).flush()) throw unwritable(path, errno);
}

/// What to say of it behind the error.
std::string write_records(const FailureFolder& folder, const std::deque<Rank>& ranks,
                          const Pipeline& pipeline, std::string_view why) {
  if (folder.path.empty()) return "";
  try {
    fs::create_directories(folder.path);
    remove_earlier(folder);
    for (const Rank& rank : ranks)
      write_at_once(fmt::format("{}/rank-{}.txt", folder.path, rank.number()),
                    to_text(rank.executor().flight_record(), rank.executor().step(), pipeline, why));
  } catch (const fs::filesystem_error& e) {
    return fmt::format("; what ranks did last is lost ({}: {})", folder.path, e.code().message());
  } catch (const Error& e) {
    return fmt::format("; what ranks did last is lost ({})", e.what());
  }
  return fmt::format("; what each rank did last is in {}", folder.path);
}

}  // namespace

void rethrow_recorded(const FailureFolder& folder, const std::deque<Rank>& ranks, const Pipeline& pipeline) {
  try {
    throw;
  } catch (const Error& e) {
    throw Error(e.what() + write_records(folder, ranks, pipeline, e.what()), e.kind());
  } catch (const InternalError& e) {
    throw InternalError(e.what() + write_records(folder, ranks, pipeline, e.what()));
  }
}

}  // namespace shardwright

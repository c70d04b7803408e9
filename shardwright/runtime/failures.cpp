#include "shardwright/runtime/failures.h"

#include <fmt/format.h>

#include <filesystem>

#include "shardwright/base/file.h"

namespace shardwright {
namespace {

/// What to say of it behind the error.
std::string write_records(const std::string& folder, const std::deque<Rank>& ranks, const Pipeline& pipeline,
                          std::string_view why) {
  if (folder.empty()) return "";
  try {
    std::error_code failure;
    std::filesystem::create_directories(folder, failure);
    if (failure) throw io_error("{}: cannot be made: {}", folder, failure.message());
    for (const Rank& rank : ranks) {
      const Executor& executor = rank.executor();
      write_file(flight_record_file(folder, rank.number()),
                 to_text(executor.flight_record(), executor.step(), pipeline, why));
    }
  } catch (const Error& e) {
    return fmt::format("; what ranks did last is lost ({})", e.what());
  }
  return fmt::format("; what each rank did last is in {}", folder);
}

}  // namespace

std::string flight_record_file(const std::string& folder, int rank) {
  return fmt::format("{}/rank-{}.txt", folder, rank);
}

void rethrow_recorded(const std::string& folder, const std::deque<Rank>& ranks, const Pipeline& pipeline) {
  try {
    throw;
  } catch (const Error& e) {
    throw Error(e.what() + write_records(folder, ranks, pipeline, e.what()), e.kind());
  } catch (const InternalError& e) {
    throw InternalError(e.what() + write_records(folder, ranks, pipeline, e.what()));
  }
}

}  // namespace shardwright

// What is said and kept of a run that fails: whom a rank has waited for in vain, and what each rank did last.
#pragma once

#include <deque>
#include <filesystem>
#include <string>
#include <string_view>

#include "shardwright/runtime/communicator/vigil.h"
#include "shardwright/runtime/rank.h"

namespace shardwright {

/// `work`, of which what waits in vain is called `what()`.
template <class What, class Work>
auto waiting_as(What what, Work work) {
  try {
    return work();
  } catch (const TimedOut& e) {
    throw e.of(what());
  }
}

/// Where what a rank did last is kept, as `rank-3.txt`; without a path nowhere.
struct FailureFolder {
  std::string path;
  std::filesystem::file_time_type begun = std::filesystem::file_time_type::clock::now();  // the run
};

/// In a handler: throws its error again, saying that what `ranks` did last is written to `folder` now. What earlier runs have
/// left there is removed. An error of another kind than ours goes on as it is.
[[noreturn]] void rethrow_recorded(const FailureFolder& folder, const std::deque<Rank>& ranks,
                                   const Pipeline& pipeline);

}  // namespace shardwright

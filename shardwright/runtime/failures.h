// What is said and kept of a run that fails: whom a rank has waited for in vain, and what each rank did last.
#pragma once

#include <deque>
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

/// Where what a rank did last is kept: `FOLDER/rank-3.txt`.
std::string flight_record_file(const std::string& folder, int rank);

/// In a handler: throws its error again, saying that what `ranks` did last is written to `folder` now; if that is empty,
/// nothing is. An error of another kind than ours goes on as it is.
[[noreturn]] void rethrow_recorded(const std::string& folder, const std::deque<Rank>& ranks,
                                   const Pipeline& pipeline);

}  // namespace shardwright

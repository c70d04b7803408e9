// Reads the rows of an epoch ahead of whoever takes them, on a thread of its own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "shardwright/runtime/data/dataset.h"

namespace shardwright {

struct ReadAhead {
  std::int64_t epoch = 0;
  std::int64_t first = 0;  // row
  std::int64_t ahead =
      4;  // rows that wait at most; 0: none are made before they are asked for, and no thread runs
};

/// DataRows come in their order, and an error where its row would have come. Its end waits for the row that is being made,
/// not for more. A data set with a function of Python's in it is read by the thread that asks.
class RowReader {
 public:
  RowReader(Dataset data, const ReadAhead& options);
  RowReader(const RowReader&) = delete;
  RowReader& operator=(const RowReader&) = delete;

  /// The next row; nothing behind the last one. Throws: what making it threw; nothing comes behind that.
  std::optional<DataRow> next();
  /// Whether `next` would not wait; waits for that so long.
  bool wait_for(std::chrono::milliseconds time);

 private:
  /// A row; no row behind the last; or why there is none.
  struct Made {
    std::optional<DataRow> row;
    std::exception_ptr error;
  };
  Made make();
  void run(const std::stop_token& stop);

  Dataset data_;
  std::int64_t epoch_, index_;
  std::size_t ahead_;
  bool has_ended_ = false;

  std::mutex mutex_;  // of what follows
  std::condition_variable_any changed_;
  std::deque<Made> made_;
  std::jthread thread_;  // last: it ends before the rest does
};

}  // namespace shardwright

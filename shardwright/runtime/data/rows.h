// What a pipeline of data is made of: rows by number. Each operation is a function of rows to rows; nothing is made
// before it is asked for, and row `i` of epoch `e` is a pure function of the two, whoever asks, in whatever order.
// So a thread may make rows ahead, and a run that resumes reads on where it ended.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/base/tensor.h"

namespace shardwright {

/// What a column holds in each row; a dim that differs between rows, or is not known yet, is `any_size`.
/// Nothing is known behind a function of the user's.
using SampleType = std::optional<Type>;
constexpr std::int64_t any_size = -1;
/// `u8[?, ?, 3]`
std::string to_text(const SampleType& type);
bool has_any_size(const Shape& shape);

struct Column {
  std::string name;
  SampleType type;
};

/// A sample, or a batch of samples.
struct DataRow {
  std::vector<Tensor> values;  // as the columns
  // Where its first sample came from. What is random about a sample follows from these, and so is the same in
  // whatever order and shard it is read.
  std::int64_t epoch = 0;
  std::int64_t sample = 0;
};

struct DataRows {
  std::vector<Column> columns;
  /// Of an epoch; of one pass if the rows are repeated without end.
  std::function<std::int64_t()> count;
  /// Nothing behind the last row. A stream may be asked for any row, but is fast in order.
  std::function<std::optional<DataRow>(std::int64_t epoch, std::int64_t index)> row;
  bool is_endless = false;
  bool is_stream = false;    // counting reads a whole epoch
  bool is_threaded = true;   // rows may be made on another thread: there is no function of Python's in it
  std::int64_t batch = 0;    // samples of a row, if they are batched
  std::int64_t repeats = 1;  // of the samples in an epoch; 0: without end
};

enum class Remainder { dropped, kept };

/// `i` of the new rows is row `order(epoch, i)` of the old.
DataRows shuffled_rows(DataRows rows, std::uint64_t seed);
/// In the order in which they leave a buffer of that many rows, which is always full.
DataRows buffer_shuffled_rows(DataRows rows, std::uint64_t seed, std::int64_t buffer);
/// Every `count`-th row, from `index` on; as many in each shard, for which the first rows are read again at the end.
DataRows shard_rows(DataRows rows, std::int64_t count, std::int64_t index);
DataRows batch_rows(DataRows rows, std::int64_t size, Remainder remainder);
/// Without `times`, without end.
DataRows repeated_rows(DataRows rows, std::optional<std::int64_t> times);
/// `count` rows behind the first `skipped`; without `count`, all of them.
DataRows part_of_rows(DataRows rows, std::int64_t skipped, std::optional<std::int64_t> count);
DataRows projected_rows(DataRows rows, const std::vector<std::string>& columns);
DataRows renamed_rows(DataRows rows, const std::vector<std::string>& from,
                      const std::vector<std::string>& to);
/// Columns of all, side by side; as many rows as the shortest has.
DataRows zipped_rows(std::vector<DataRows> all);
/// One behind the other; their columns must be the same.
DataRows joined_rows(DataRows first, DataRows second);

/// Throws: Error with near names if there is no such column.
std::size_t place_of(const std::vector<Column>& columns, std::string_view name);

/// The place of `index` in a random order of 0..count-1, in O(1) and without memory.
/// A Feistel network is a permutation of 2^k numbers whatever its round function; walking on from results
/// that are not below `count` makes it one of `count` numbers (Black and Rogaway 2002).
std::int64_t shuffled(std::int64_t index, std::int64_t count, std::uint64_t seed, std::int64_t epoch);

}  // namespace shardwright

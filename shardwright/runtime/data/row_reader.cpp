#include "shardwright/runtime/data/row_reader.h"

#include <utility>

namespace shardwright {

RowReader::RowReader(Dataset data, const ReadAhead& options)
    : data_(std::move(data)),
      epoch_(options.epoch),
      index_(options.first),
      ahead_(data_.rows().is_threaded ? static_cast<std::size_t>(options.ahead) : 0) {
  if (ahead_ > 0) thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

RowReader::Made RowReader::make() {
  try {
    return {data_.rows().row(epoch_, index_++), nullptr};
  } catch (...) {
    return {std::nullopt, std::current_exception()};
  }
}

void RowReader::run(const std::stop_token& stop) {
  for (bool is_last = false; !is_last && !stop.stop_requested();) {
    Made made = make();
    is_last = !made.row;
    std::unique_lock lock(mutex_);
    if (!changed_.wait(lock, stop, [this] { return made_.size() < ahead_; })) return;
    made_.push_back(std::move(made));
    changed_.notify_all();
  }
}

std::optional<DataRow> RowReader::next() {
  if (has_ended_) return std::nullopt;
  Made made;
  if (ahead_ == 0) {
    made = make();
  } else {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !made_.empty(); });
    made = std::move(made_.front());
    made_.pop_front();
    changed_.notify_all();
  }
  has_ended_ = !made.row;
  if (made.error) std::rethrow_exception(made.error);
  return std::move(made.row);
}

bool RowReader::wait_for(std::chrono::milliseconds time) {
  if (ahead_ == 0 || has_ended_) return true;
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, time, [this] { return !made_.empty(); });
}

}  // namespace shardwright

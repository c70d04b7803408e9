#include "shardwright/base/progress.h"

namespace shardwright {

std::vector<WorkPart> Progress::parts() const {
  const std::lock_guard lock(mutex_);
  return parts_;
}

Doing::Doing(Progress* progress, std::string what, std::int64_t all, std::int64_t first)
    : progress_(progress) {
  if (!progress_) return;
  const std::lock_guard lock(progress_->mutex_);
  depth_ = progress_->parts_.size();
  progress_->parts_.push_back({.what = std::move(what), .done = first, .all = all, .first = first});
}

Doing::~Doing() {
  if (!progress_) return;
  const std::lock_guard lock(progress_->mutex_);
  progress_->parts_.resize(depth_);
}

void Doing::set(std::int64_t done, std::string note) {
  const std::lock_guard lock(progress_->mutex_);
  WorkPart& part = progress_->parts_[depth_];
  part.done = done;
  part.note = std::move(note);
}

}  // namespace shardwright

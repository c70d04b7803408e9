// Result<T>: a value, or the reason why there is none. For questions to which "no" is an answer.
//
// Member names are those of std::expected, which GCC 12 offers only with -std=c++23.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "shardwright/base/error.h"

namespace shardwright {

/// Why there is no value; converts to any Result.
struct Unexpected {
  std::string reason;
};

template <class T>
class Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Unexpected no) : reason_(std::move(no.reason)) {}

  bool has_value() const { return value_.has_value(); }
  explicit operator bool() const { return has_value(); }
  const T& operator*() const { return *value_; }
  T& operator*() { return *value_; }
  const T* operator->() const { return &*value_; }
  const std::string& error() const { return reason_; }

  /// The value. Throws: Error with the reason if there is none.
  const T& value() const& {
    if (!value_) throw Error(reason_);
    return *value_;
  }
  T&& value() && {
    if (!value_) throw Error(reason_);
    return std::move(*value_);
  }

 private:
  std::optional<T> value_;
  std::string reason_;
};

}  // namespace shardwright

// An optional value that takes no room where it is not there: for members of values that are copied and compared often and
// that hardly ever have it.
#pragma once

#include <compare>
#include <memory>
#include <utility>

namespace shardwright {

template <class T>
class Rare {
 public:
  Rare() = default;
  Rare(T value)  // NOLINT(google-explicit-constructor): as std::optional
      : value_(std::make_unique<T>(std::move(value))) {}
  Rare(const Rare& other) : value_(other.value_ ? std::make_unique<T>(*other.value_) : nullptr) {}
  Rare(Rare&&) noexcept = default;
  Rare& operator=(const Rare& other) {
    value_ = other.value_ ? std::make_unique<T>(*other.value_) : nullptr;
    return *this;
  }
  Rare& operator=(Rare&&) noexcept = default;
  ~Rare() = default;

  explicit operator bool() const { return value_ != nullptr; }
  const T& operator*() const { return *value_; }
  T& operator*() { return *value_; }
  const T* operator->() const { return value_.get(); }
  T* operator->() { return value_.get(); }
  T value_or(T otherwise) const { return value_ ? *value_ : std::move(otherwise); }
  void reset() { value_.reset(); }

  /// What is not there comes first.
  friend std::strong_ordering operator<=>(const Rare& a, const Rare& b) {
    if (!a.value_ || !b.value_) return (a.value_ != nullptr) <=> (b.value_ != nullptr);
    return *a.value_ <=> *b.value_;
  }
  friend bool operator==(const Rare& a, const Rare& b) { return (a <=> b) == 0; }

 private:
  std::unique_ptr<T> value_;
};

}  // namespace shardwright

// Errors: what a user can get wrong, what the outside did wrong, and what we did wrong.
//
// `throw error("matmul: dim k is {} in operand 0 but {} in operand 1", a, b)` for the user's mistakes and
// `throw io_error(...)` for files; contexts ("while lowering %12 = matmul") are added on the way up by
// `with_context`. `require(condition, ...)` is for our own bugs: a function, not a macro, that captures the
// place of the call and checks the format string at compile time.
#pragma once

#include <fmt/core.h>

#include <optional>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace shardwright {

enum class ErrorKind { user, io, peer, timeout, memory };

/// What cannot both hold, beside the message, so that nobody has to read it out of the text.
struct Conflict {
  std::string operation;      // the operator that it is of; empty: of the whole
  std::string key;            // of what there are two values: "devices", "stage", "m"
  std::string wanted, given;  // what is asked for, and what there is
};

/// Somebody else's mistake: one line that names the thing as the user wrote it and says what would be right.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, ErrorKind kind = ErrorKind::user)
      : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }
  const std::optional<Conflict>& conflict() const { return conflict_; }

  /// The same error, of these two sides.
  Error between(Conflict sides) && {
    conflict_ = std::move(sides);
    return std::move(*this);
  }

 private:
  ErrorKind kind_;
  std::optional<Conflict> conflict_;
};

/// Our mistake: the message starts with the file and line of the broken expectation.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

template <class... A>
Error error(fmt::format_string<A...> text, A&&... a) {
  return Error(fmt::format(text, std::forward<A>(a)...));
}

template <class... A>
Error io_error(fmt::format_string<A...> text, A&&... a) {
  return Error(fmt::format(text, std::forward<A>(a)...), ErrorKind::io);
}

/// The same error with `context: ` in front; of `operation`, if it is of an operator that nobody has named yet.
inline Error with_context(const Error& e, std::string_view context, std::string_view operation = {}) {
  Error out(fmt::format("{}: {}", context, e.what()), e.kind());
  if (!e.conflict()) return out;
  Conflict sides = *e.conflict();
  if (sides.operation.empty()) sides.operation = operation;
  return std::move(out).between(std::move(sides));
}

template <class... A>
struct Message {
  fmt::format_string<A...> text;
  std::source_location where;
  template <class S>
  requires std::convertible_to<const S&, fmt::format_string<A...>>
  consteval Message(const S& s, std::source_location w = std::source_location::current())
      : text(s), where(w) {}
};

/// Throws InternalError unless `ok`. For what cannot happen unless this code base is wrong.
template <class... A>
void require(bool ok, Message<std::type_identity_t<A>...> m, A&&... a) {
  if (!ok) [[unlikely]]
    throw InternalError(fmt::format("{}:{}: {}", m.where.file_name(), m.where.line(),
                                    fmt::format(m.text, std::forward<A>(a)...)));
}

}  // namespace shardwright

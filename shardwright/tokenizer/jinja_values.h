// What expressions are worth: Python's ways with texts, numbers, lists and mappings, as far as templates ask for them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/tokenizer/jinja.h"

namespace shardwright::jinja {

using Values = std::vector<Value>;

Value undefined();
bool is_undefined(const Value& v);
bool is_true(const Value& v);
/// Throws: Error that says that `what` is none.
const std::string& text_in(const Value& v, std::string_view what);
std::int64_t whole(const Value& v);
/// As `{{ }}` prints it.
std::string printed(const Value& v);

/// What a filter or a method makes of a value; nothing if there is none of that name.
std::optional<Value> applied(const std::string& name, const Value& v, const Values& more);
/// Of `is`.
bool passes(const std::string& test, const Value& v);
/// Of an operator between two.
Value computed(const std::string& op, const Value& a, const Value& b);
Value item_of(const Value& of, const Value& at);
Value slice_of(const Value& of, const Value& from, const Value& to, const Value& step);

}  // namespace shardwright::jinja

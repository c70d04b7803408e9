#include "shardwright/tokenizer/jinja_values.h"

#include <algorithm>

#include "shardwright/base/error.h"
#include "shardwright/base/text.h"
#include "shardwright/tokenizer/unicode.h"

namespace shardwright::jinja {

Value undefined() { return Value(Value::value_t::discarded); }
bool is_undefined(const Value& v) { return v.is_discarded(); }

bool is_true(const Value& v) {
  if (is_undefined(v) || v.is_null()) return false;
  if (v.is_boolean()) return v.get<bool>();
  if (v.is_number()) return v.get<double>() != 0;
  if (v.is_string()) return !v.get_ref<const std::string&>().empty();
  return !v.empty();
}

const std::string& text_in(const Value& v, std::string_view what) {
  if (!v.is_string()) throw error("{} is no text", what);
  return v.get_ref<const std::string&>();
}

namespace {

/// As Python's json.dumps writes it.
std::string json_text(const Value& v) {
  if (!v.is_structured()) return v.dump();
  std::string out;
  for (const auto& [key, part] : v.items()) {
    if (!out.empty()) out += ", ";
    if (v.is_object()) out += Value(key).dump() + ": ";
    out += json_text(part);
  }
  return v.is_object() ? "{" + out + "}" : "[" + out + "]";
}

}  // namespace

/// As `{{ }}` prints it.
std::string printed(const Value& v) {
  if (is_undefined(v)) return "";
  if (v.is_string()) return v.get<std::string>();
  if (v.is_boolean()) return v.get<bool>() ? "True" : "False";
  if (v.is_null()) return "None";
  if (v.is_number()) return v.dump();
  throw error("a list or a mapping is printed; tojson makes text of it");
}

namespace {

std::string stripped(const std::string& text, bool left, bool right, const std::string& chars) {
  const auto is_one = [&](const Char& c) {
    return chars.empty() ? is_space(c.code) : chars.find(utf8_of(c.code)) != std::string::npos;
  };
  std::string_view rest = text;
  while (left && !rest.empty() && is_one(char_at(rest, 0))) rest.remove_prefix(char_at(rest, 0).bytes);
  while (right && !rest.empty() && is_one(last_char(rest))) rest.remove_suffix(last_char(rest).bytes);
  return std::string(rest);
}

std::string in_case(const std::string& text, bool is_upper) {
  std::string out = text;
  for (char& c : out)
    if (is_upper ? c >= 'a' && c <= 'z' : c >= 'A' && c <= 'Z') c = static_cast<char>(c ^ 0x20);
  return out;
}

Value split_text(const std::string& text, const Values& more) {
  Value out = Value::array();
  if (more.empty()) {
    for (const std::string_view word : split(text, ' '))
      if (!trim(word).empty()) out.push_back(std::string(trim(word)));
    return out;
  }
  const std::string& by = text_in(more[0], "the separator of split");
  if (by.empty()) throw error("the separator of split is empty");
  std::size_t at = 0;
  for (std::size_t next = text.find(by); next != std::string::npos; next = text.find(by, at)) {
    out.push_back(text.substr(at, next - at));
    at = next + by.size();
  }
  out.push_back(text.substr(at));
  return out;
}

std::string replaced_text(const std::string& text, const Values& more) {
  if (more.size() < 2) throw error("replace needs what, and by what");
  const std::string &from = text_in(more[0], "what is replaced"), &to = text_in(more[1], "what replaces it");
  if (from.empty()) throw error("replace finds an empty text");
  std::string out;
  std::size_t at = 0;
  for (std::size_t next = text.find(from); next != std::string::npos; next = text.find(from, at)) {
    out += text.substr(at, next - at) + to;
    at = next + from.size();
  }
  return out + text.substr(at);
}

std::int64_t length_of(const Value& v) {
  if (v.is_string()) return std::ssize(chars_of(v.get_ref<const std::string&>()));
  if (v.is_structured()) return std::ssize(v);
  throw error("length is asked of what has none");
}

Value joined(const Value& v, const Values& more) {
  std::string out;
  const std::string by = more.empty() ? "" : text_in(more[0], "the separator of join");
  for (std::size_t i = 0; i < v.size(); ++i) out += (i > 0 ? by : "") + printed(v[i]);
  return out;
}

Value keys_and_values(const Value& v) {
  Value out = Value::array();
  for (const auto& [key, part] : v.items()) out.push_back(Value::array({key, part}));
  return out;
}

}  // namespace

/// What a filter or a method makes of a value; nothing if there is none of that name.
std::optional<Value> applied(const std::string& name, const Value& v, const Values& more) {
  const auto text = [&]() -> const std::string& {
    return text_in(v, fmt::format("what {} is asked of", name));
  };
  const std::string chars = !more.empty() && more[0].is_string() ? more[0].get<std::string>() : "";
  if (name == "trim" || name == "strip") return stripped(text(), true, true, chars);
  if (name == "lstrip") return stripped(text(), true, false, chars);
  if (name == "rstrip") return stripped(text(), false, true, chars);
  if (name == "upper") return in_case(text(), true);
  if (name == "lower") return in_case(text(), false);
  if (name == "startswith") return text().starts_with(chars);
  if (name == "endswith") return text().ends_with(chars);
  if (name == "split") return split_text(text(), more);
  if (name == "replace") return replaced_text(text(), more);
  if (name == "length" || name == "count") return length_of(v);
  if (name == "tojson") return json_text(v);
  if (name == "string") return printed(v);
  if (name == "join") return joined(v, more);
  if (name == "items") return keys_and_values(v);
  if (name == "list") return v;
  if (name == "first") return v.empty() ? undefined() : v.front();
  if (name == "last") return v.empty() ? undefined() : v.back();
  if (name == "default" || name == "d") return is_undefined(v) && !more.empty() ? more[0] : v;
  if (name == "int" && v.is_string()) return to_integer(text()).value_or(0);
  if (name == "int" && v.is_number()) return v.get<std::int64_t>();
  if (name == "get" && v.is_object() && !more.empty()) {
    const auto found = v.find(text_in(more[0], "a key"));
    return found != v.end() ? *found : more.size() > 1 ? more[1] : Value(nullptr);
  }
  return std::nullopt;
}

bool passes(const std::string& test, const Value& v) {
  if (test == "defined") return !is_undefined(v);
  if (test == "undefined") return is_undefined(v);
  if (test == "none") return v.is_null();
  if (test == "string") return v.is_string();
  if (test == "number") return v.is_number();
  if (test == "boolean") return v.is_boolean();
  if (test == "mapping") return v.is_object();
  if (test == "true") return v.is_boolean() && v.get<bool>();
  if (test == "false") return v.is_boolean() && !v.get<bool>();
  if (test == "iterable" || test == "sequence") return v.is_array() || v.is_string() || v.is_object();
  throw error("the test '{}' is not understood", test);
}

std::int64_t whole(const Value& v) {
  if (!v.is_number_integer()) throw error("a number without fraction is needed");
  return v.get<std::int64_t>();
}

namespace {

bool holds(const Value& row, const Value& what) {
  if (row.is_string())
    return row.get_ref<const std::string&>().find(text_in(what, "what is looked for")) != std::string::npos;
  if (row.is_object()) return row.contains(text_in(what, "a key"));
  return std::ranges::find(row, what) != row.end();
}

}  // namespace

Value computed(const std::string& op, const Value& a, const Value& b) {
  if (op == "==" || op == "!=")
    return ((is_undefined(a) || is_undefined(b)) ? is_undefined(a) && is_undefined(b) : a == b) ==
           (op == "==");
  if (op == "in") return holds(b, a);
  if (op == "~") return printed(a) + printed(b);
  if (is_undefined(a) || is_undefined(b)) throw error("what is not defined stands beside {}", op);
  if (op == "+" && a.is_string() && b.is_string()) return a.get<std::string>() + b.get<std::string>();
  if (op == "+" && a.is_array() && b.is_array()) {
    Value out = a;
    out.insert(out.end(), b.begin(), b.end());
    return out;
  }
  if (a.is_string() && b.is_string() && (op == "<" || op == ">" || op == "<=" || op == ">="))
    return op == "<" ? a < b : op == ">" ? b < a : op == "<=" ? !(b < a) : !(a < b);
  if (!a.is_number() || !b.is_number()) throw error("{} does not go between these", op);
  const double x = a.get<double>(), y = b.get<double>();
  if (op == "<") return x < y;
  if (op == ">") return x > y;
  if (op == "<=") return x <= y;
  if (op == ">=") return x >= y;
  if (op == "/" && y != 0) return x / y;
  std::int64_t out = 0;
  const std::int64_t m = whole(a), n = whole(b);
  if ((op == "%" || op == "//" || op == "/") && (n == 0 || n == -1)) throw error("{} by {}", op, n);
  if (op == "%") return (m % n + n) % n;
  if (op == "//") return (m - (m % n + n) % n) / n;
  const bool is_over = op == "+"   ? __builtin_add_overflow(m, n, &out)
                       : op == "-" ? __builtin_sub_overflow(m, n, &out)
                                   : __builtin_mul_overflow(m, n, &out);
  if (is_over) throw error("a number is too large");
  return out;
}

Value item_of(const Value& of, const Value& at) {
  if (is_undefined(of)) throw error("an item is asked of what is not defined");
  if (of.is_object() && at.is_string()) {
    const auto found = of.find(at.get_ref<const std::string&>());
    return found == of.end() ? undefined() : *found;
  }
  if (!at.is_number_integer() || !(of.is_array() || of.is_string())) return undefined();
  const std::int64_t size = length_of(of), asked = at.get<std::int64_t>(),
                     place = asked < 0 ? asked + size : asked;
  if (place < 0 || place >= size) return undefined();
  if (of.is_array()) return of[static_cast<std::size_t>(place)];
  return utf8_of(chars_of(of.get_ref<const std::string&>())[static_cast<std::size_t>(place)]);
}

Value slice_of(const Value& of, const Value& from, const Value& to, const Value& step) {
  if (!of.is_array() && !of.is_string()) throw error("a part is asked of what has none");
  const bool is_reversed = step.is_number() && step == -1 && from.is_null() && to.is_null();
  if (!step.is_null() && step != 1 && !is_reversed)
    throw error("steps of a part are not understood, but for ::-1");
  const std::int64_t size = length_of(of);
  const auto place = [&](const Value& v, std::int64_t otherwise) {
    if (v.is_null()) return otherwise;
    const std::int64_t asked = whole(v);
    return std::clamp<std::int64_t>(asked < 0 ? asked + size : asked, 0, size);
  };
  Value out = Value::array();
  std::string text;
  const std::vector<char32_t> chars =
      of.is_string() ? chars_of(of.get_ref<const std::string&>()) : std::vector<char32_t>();
  for (std::int64_t i = place(from, 0); i < place(to, size); ++i) {
    const auto at = static_cast<std::size_t>(is_reversed ? size - 1 - i : i);
    if (of.is_string())
      append_char(text, chars[at]);
    else
      out.push_back(of[at]);
  }
  return of.is_string() ? Value(text) : out;
}

}  // namespace shardwright::jinja

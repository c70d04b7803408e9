#include "shardwright/plan/tensor_split.h"

#include <algorithm>
#include <tuple>

namespace shardwright {
namespace {

constexpr std::string_view form = "should be {in: ((2, 4), (4, 1)), out: ((2, 1),), on: mesh [dp=2]}";

bool opens(Scanner& in) { return in.accept("(") || in.accept("["); }
bool closes(Scanner& in) { return in.accept(")") || in.accept("]"); }

/// `dp`, `None`, `(sp, dp)`
std::vector<std::string> parse_dim(Scanner& in) {
  std::vector<std::string> out;
  if (!opens(in)) {
    out.push_back(in.name("a number of parts"));
    if (out.front() == "None") out.clear();
    return out;
  }
  while (!closes(in)) {
    out.push_back(in.name("an axis name"));
    in.accept(",");
  }
  return out;
}

/// Behind its bracket.
TensorSplit parse_split(Scanner& in) {
  TensorSplit out;
  while (!closes(in)) {
    std::vector<std::string> dim = parse_dim(in);
    const auto parts = dim.size() == 1 ? to_integer(dim.front()) : std::nullopt;
    if (parts)
      out.parts.push_back(*parts);
    else
      out.axes.push_back(std::move(dim));
    in.accept(",");
  }
  out.is_by_axes = !out.axes.empty();
  if (out.is_by_axes && !out.parts.empty()) throw error("mixes integers and axis names; use one kind");
  return out;
}

}  // namespace

std::strong_ordering Annotation::operator<=>(const Annotation& other) const {
  const auto order = std::tie(in, out, said_in) <=> std::tie(other.in, other.out, other.said_in);
  if (order != 0) return order;
  const auto matrix = [](const Annotation& a) {
    return a.device_matrix ? to_text(*a.device_matrix) : std::string();
  };
  return matrix(*this) <=> matrix(other);
}

std::string to_text(const TensorSplit& split) {
  std::string out = "(";
  const std::size_t count = split.is_by_axes ? split.axes.size() : split.parts.size();
  for (std::size_t d = 0; d < count; ++d) {
    if (d) out += ", ";
    if (!split.is_by_axes)
      out += fmt::format("{}", split.parts[d]);
    else if (split.axes[d].empty())
      out += "None";
    else if (split.axes[d].size() == 1)
      out += split.axes[d][0];
    else
      out += "(" + join(split.axes[d], ", ") + ")";
  }
  return out + (count == 1 ? ",)" : ")");
}

std::string to_text(const std::vector<TensorSplit>& splits) {
  std::string out = "(";
  for (std::size_t i = 0; i < splits.size(); ++i) out += (i ? ", " : "") + to_text(splits[i]);
  return out + (splits.size() == 1 ? ",)" : ")");
}

std::string to_text(const Annotation& annotation) {
  std::vector<std::string> out;
  if (!annotation.in.empty()) out.push_back("in: " + to_text(annotation.in));
  if (!annotation.out.empty()) out.push_back("out: " + to_text(annotation.out));
  if (annotation.device_matrix) out.push_back("on: " + to_text(*annotation.device_matrix));
  return fmt::format("{{{}}}", join(out, ", "));
}

std::vector<TensorSplit> parse_splits(Scanner& in) {
  std::vector<TensorSplit> out;
  if (!opens(in)) in.fail("'('");
  while (!closes(in)) {
    if (!opens(in)) in.fail("'(' of one input's split");
    out.push_back(parse_split(in));
    in.accept(",");
  }
  return out;
}

bool is_of_tensors(std::string_view text) {
  if (!text.starts_with('{')) return false;
  const std::size_t colon = text.find(':');
  if (colon == text.npos) return false;
  const std::string_view value = trim(text.substr(colon + 1));
  return value.starts_with('(') || value.starts_with('[') || value.starts_with("mesh ");
}

Annotation parse_annotation(const Given& given) try {
  Annotation out;
  Scanner in(given.text, given.called);
  in.expect("{");
  do {
    const std::string key = in.name("in, out or on");
    in.expect(":");
    if (key == "on")
      out.device_matrix = parse_mesh(in);
    else if (key == "in" || key == "out")
      (key == "in" ? out.in : out.out) = parse_splits(in);
    else
      throw given.wrong(form);
  } while (in.accept(","));
  in.expect("}");
  if (!in.at_end() || (out.in.empty() && out.out.empty())) throw given.wrong(form);
  check_one_kind(out);
  return out;
} catch (const Error& e) {
  const std::string_view what = e.what();
  if (what.starts_with(given.called)) throw;
  throw given.wrong(what);
}

DataSplit parse_dataset(const std::string& text) {
  if (text == "full_batch" || text == "data_parallel") return {.word = text};
  if (!text.starts_with('(') && !text.starts_with('['))
    throw error("dataset strategy '{}' should be full_batch, data_parallel or splits such as ((4,1),(4,))",
                text);
  Scanner in(text, "dataset strategy");
  DataSplit out{.splits = {.in = parse_splits(in)}};
  if (!in.at_end()) in.fail("the end of the dataset strategy");
  if (uses_axes(out.splits)) throw error("dataset strategy '{}': should be numbers of parts, not axes", text);
  return out;
}

bool uses_axes(const Annotation& annotation) {
  const auto is_by_axes = [](const TensorSplit& s) { return s.is_by_axes; };
  return std::ranges::any_of(annotation.in, is_by_axes) || std::ranges::any_of(annotation.out, is_by_axes);
}

void check_one_kind(const Annotation& annotation) {
  const auto has = [&](bool by_axes) {
    const auto is_kind = [&](const TensorSplit& s) {
      return s.is_by_axes == by_axes && !(s.axes.empty() && s.parts.empty());
    };
    return std::ranges::any_of(annotation.in, is_kind) || std::ranges::any_of(annotation.out, is_kind);
  };
  if (has(true) && has(false)) throw error("mixes integers and axis names; use one kind");
  if (has(true) && !annotation.device_matrix)
    throw error("axis names need a \"device_matrix\" with \"names\"");
  if (has(false) && annotation.device_matrix)
    throw error("a \"device_matrix\" needs axis names, not integers; leave it out or use its names");
}

}  // namespace shardwright

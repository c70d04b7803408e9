#include "shardwright/plan/comm_fusion.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "shardwright/base/name_pattern.h"
#include "shardwright/base/text.h"
#include "shardwright/graph/op.h"

namespace shardwright {
namespace {

using Mode = BucketLimit::Mode;

constexpr std::int64_t most_megabytes = 1 << 20;

constexpr std::array<std::pair<std::string_view, BucketLimit CommFusion::*>, 3> kinds{
    {{"all_reduce", &CommFusion::all_reduce},
     {"all_gather", &CommFusion::all_gather},
     {"reduce_scatter", &CommFusion::reduce_scatter}}};

BucketLimit size_limit(std::string_view text) {
  const auto megabytes = to_integer(text);
  if (!megabytes || *megabytes < 0 || *megabytes > most_megabytes)
    throw error("communication fusion: size '{}' should be a number of megabytes from 0 to {}", text,
                most_megabytes);
  return {.mode = Mode::size, .megabytes = *megabytes};
}

BucketLimit parsed_indices(std::string_view text) {
  std::vector<std::int64_t> indices;
  for (std::string_view part : split(text, ',')) {
    const auto index = to_integer(trim(part));
    if (!index) throw error("communication fusion: index '{}' should be integers such as index:3,7", text);
    indices.push_back(*index);
  }
  return index_limit(std::move(indices));
}

}  // namespace

double full_at(int k) {
  constexpr std::array<double, 4> growing = {0.5, 2, 8, 10};
  return growing[std::min<std::size_t>(static_cast<std::size_t>(k), growing.size() - 1)];
}

std::int64_t most_bucket_bytes(std::int64_t memory_bytes) {
  constexpr std::int64_t buckets_of_memory = 32;
  if (memory_bytes <= 0) return std::numeric_limits<std::int64_t>::max();
  return std::max(BucketLimit().bytes(), memory_bytes / buckets_of_memory);
}

double filled_buckets(double moving, double starting, double bytes, double full_ones) {
  const double most = std::max(most_times_starting * starting,
                               bytes > 0 ? moving * static_cast<double>(BucketLimit().bytes()) / bytes : 0);
  for (int k = 0;; ++k) {
    const double full = std::min(most, starting * full_at(k));
    if (moving <= full) return std::max(k + 1.0, full_ones);
    if (full_at(k) == full_at(k + 1)) return std::max(k + moving / full, full_ones);
    moving -= full;
  }
}

std::string to_text(const BucketLimit& limit) {
  switch (limit.mode) {
    case Mode::automatic: return "auto";
    case Mode::none: return "none";
    case Mode::size: return fmt::format("size:{}", limit.megabytes);
    case Mode::index: break;
  }
  return fmt::format("index:{}", fmt::join(limit.indices, ","));
}

std::string to_text(const CommFusion& fusion) {
  if (fusion.all_reduce == fusion.all_gather && fusion.all_reduce == fusion.reduce_scatter)
    return to_text(fusion.all_reduce);
  std::string out;
  for (const auto& [kind, limit] : kinds)
    out += fmt::format("{}{}={}", out.empty() ? "" : ";", kind, to_text(fusion.*limit));
  return out;
}

BucketLimit index_limit(std::vector<std::int64_t> indices) {
  for (std::size_t i = 0; i < indices.size(); ++i)
    if (indices[i] < 0 || (i > 0 && indices[i] <= indices[i - 1]))
      throw error("communication fusion: indices {} should increase from 0 on, each only once",
                  fmt::join(indices, ","));
  if (indices.empty()) throw error("communication fusion: index needs integers, such as index:3,7");
  return {.mode = Mode::index, .indices = std::move(indices)};
}

CommFusion with_parameters(CommFusion fusion, const Graph& graph, const std::map<std::string, int>& numbers) {
  std::vector<std::string> parameters;
  for (const Node& node : graph.nodes)
    if (node.op->kind == OpKind::parameter) parameters.push_back(graph.value(node.results.front()).name);
  for (const auto& [name, number] :
       numbers) {  // patterns and modules come before what they hold: `*` < `.` < letters
    if (number < 0 || number > most_fusion_number)
      throw error("{}: comm_fusion {} should be an integer from 0 to {}; 0 is never with others", name,
                  number, most_fusion_number);
    bool is_found = false;
    for (const std::string& parameter : parameters)
      if (matches(name, parameter) || parameter.starts_with(name + ".")) {
        fusion.parameters[parameter] = number;
        is_found = true;
      }
    if (!is_found)
      throw error("{}: comm_fusion is of a parameter or module, and there is none of that name{}", name,
                  near_names(name, parameters));
  }
  return fusion;
}

BucketLimit parse_bucket_limit(std::string_view text) {
  const std::string_view word = trim(text);
  if (word == "auto") return {};
  if (word == "none") return {.mode = Mode::none};
  if (word.starts_with("size:")) return size_limit(word.substr(5));
  if (word.starts_with("index:")) return parsed_indices(word.substr(6));
  throw error("communication fusion: '{}' should be auto, none, size:MB or index:I,J,...", word);
}

void set_limit(CommFusion& fusion, std::string_view kind, BucketLimit limit) {
  for (const auto& [name, member] : kinds) {
    if (name != kind) continue;
    if (limit.mode == Mode::index && member != &CommFusion::all_reduce)
      throw error("communication fusion: {}={}: index is for all_reduce; use auto, none or size:MB", kind,
                  to_text(limit));
    fusion.*member = std::move(limit);
    return;
  }
  throw error("communication fusion: '{}' is no collective; there are all_reduce, all_gather, reduce_scatter",
              kind);
}

CommFusion parse_comm_fusion(std::string_view text) {
  CommFusion out;
  if (text.find('=') == std::string_view::npos) {
    out.all_reduce = parse_bucket_limit(text);
    if (out.all_reduce.mode != Mode::index) out.all_gather = out.reduce_scatter = out.all_reduce;
    return out;
  }
  std::map<std::string, int> seen;
  for (std::string_view part : split(text, ';')) {
    const std::size_t mark = part.find('=');
    if (mark == std::string_view::npos)
      throw error("communication fusion: '{}' should be COLLECTIVE=auto, none, size:MB or index:I,J,...",
                  trim(part));
    const std::string kind(trim(part.substr(0, mark)));
    if (seen[kind]++ > 0) throw error("communication fusion: {} is given twice", kind);
    set_limit(out, kind, parse_bucket_limit(part.substr(mark + 1)));
  }
  return out;
}

}  // namespace shardwright

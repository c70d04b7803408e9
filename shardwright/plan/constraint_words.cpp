// The words of the text form of constraints: a row is how its value is read, written and taken over.

#include <algorithm>
#include <array>
#include <concepts>

#include "shardwright/base/quantity.h"
#include "shardwright/cost/cluster.h"
#include "shardwright/cost/framework.h"
#include "shardwright/layout/mesh.h"
#include "shardwright/plan/constraints.h"

namespace shardwright {
namespace {

using Rows = std::vector<ConstraintWord>;

// ---- degrees ----

void read_degree(Constraints& c, std::string_view name, const Given& value) {
  const int degree = static_cast<int>(value.integer(1, most_devices));
  const auto kind = std::ranges::find(degree_kinds, name, &DegreeKind::name);
  const std::string_view missing = kind->missing;
  if (!missing.empty() && degree != 1)
    throw value.wrong(fmt::format("there is no {} parallelism yet; leave {} at 1", missing, name));
  c.degrees.set(name, degree);
}

std::string print_degree(const Constraints& c, std::string_view name) {
  const auto degree = c.degrees.said(name);
  return degree ? fmt::format("{}", *degree) : "";
}

void copy_degree(Constraints& to, const Constraints& from, std::string_view name) {
  to.degrees.set(name, from.degrees.said(name));
}

// ---- all else ----

constexpr std::array<std::string_view, 2> switch_words{"0", "1"};
constexpr std::array<std::string_view, 3> context_ways{"gather", "exchange", "ring"};
constexpr std::array<std::string_view, 5> again_words{"none", "selected", "full", "layers",
                                                      "selected+layers"};
constexpr std::array<Again, 5> agains{Again{RecomputeMode::none}, Again{RecomputeMode::selected},
                                      Again{RecomputeMode::full}, Again{RecomputeMode::none, true},
                                      Again{RecomputeMode::selected, true}};

template <std::integral T>
std::string text_of(T n) {
  return fmt::format("{}", n);
}
template <>
std::string text_of(bool on) {
  return std::string(switch_words[on]);
}
/// In braces where it has commas.
std::string text_of(const Schedule& schedule) {
  const std::string text = to_text(schedule);
  return schedule.rows.empty() ? text : "{" + text + "}";
}
std::string text_of(Again again) {
  return std::string(
      again_words[static_cast<std::size_t>(std::ranges::find(agains, again) - agains.begin())]);
}
std::string text_of(const ContextWays& ways) {
  const std::string_view way = context_ways[static_cast<std::size_t>(ways.way)];
  return ways.exchanged == 1 ? std::string(way) : fmt::format("exchange:{}+{}", ways.exchanged, way);
}
std::string text_of(const std::string& word) { return word; }
std::string text_of(const std::vector<int>& shares) { return shares.empty() ? "speed" : shares_text(shares); }
/// In braces where it has commas.
std::string text_of(const CommFusion& fusion) {
  const std::string text = to_text(fusion);
  return text.find(',') == text.npos ? text : "{" + text + "}";
}
/// In braces where it has commas.
std::string text_of(const Offload& offload) {
  const std::string text = to_text(offload);
  return text.find(',') == text.npos ? text : "{" + text + "}";
}
std::string text_of(const DataSplit& data) { return data.word.empty() ? to_text(data.splits) : data.word; }

/// A word for a member of its own.
template <auto member>
ConstraintWord word(std::string_view name, void (*read)(Constraints&, std::string_view, const Given&)) {
  return {
      .name = name,
      .read = read,
      .print = [](const Constraints& c,
                  std::string_view) { return c.*member ? text_of(*(c.*member)) : std::string(); },
      .copy = [](Constraints& to, const Constraints& from, std::string_view) { to.*member = from.*member; }};
}
template <auto member>
ConstraintWord switched(std::string_view name) {
  return word<member>(name, [](Constraints& c, std::string_view, const Given& value) {
    c.*member = value.word(switch_words) == 1;
  });
}
/// That no search chooses.
ConstraintWord kept(ConstraintWord word) {
  word.is_chosen = false;
  return word;
}

void read_threshold(Constraints& c, std::string_view, const Given& value) {
  c.zero_threshold = value.text == "0" ? std::optional<std::int64_t>(0) : to_bytes(value.text);
  if (!c.zero_threshold) throw value.wrong("should be bytes, such as 64KiB or 0");
}

void read_comm_fusion(Constraints& c, std::string_view, const Given& value) {
  const bool has_braces = value.text.starts_with('{') && value.text.ends_with('}');
  c.comm_fusion = parse_comm_fusion(has_braces ? value.text.substr(1, value.text.size() - 2) : value.text);
}

/// A way, or `exchange:N+WAY`.
void read_context(Constraints& c, std::string_view, const Given& value) {
  constexpr std::string_view prefix = "exchange:";
  ContextWays out;
  std::string_view rest = value.text;
  if (const std::size_t plus = rest.find('+'); rest.starts_with(prefix)) {
    if (plus == rest.npos)
      throw value.wrong("should say how the rest goes, as in exchange:2+ring; of all of cp it is exchange");
    const std::string number(rest.substr(prefix.size(), plus - prefix.size()));
    out.exchanged = static_cast<int>(Given{value.called, number}.integer(2, most_devices));
    rest.remove_prefix(plus + 1);
  }
  const auto word = std::ranges::find(context_ways, rest);
  out.way = static_cast<ContextWay>(word - context_ways.begin());
  if (word == context_ways.end() || (out.exchanged > 1 && out.way == ContextWay::exchange))
    throw value.wrong("there are gather, exchange, ring, exchange:N+ring and exchange:N+gather");
  c.context = out;
}

/// `speed`, or a number for each of dp.
void read_batch_shares(Constraints& c, std::string_view, const Given& value) {
  if (value.text == "speed")
    c.batch_shares = std::vector<int>{};
  else
    try {
      c.batch_shares = shares_of(value.text);
    } catch (const Error&) {
      throw value.wrong(fmt::format("should be speed, or a share from 1 to {} for each of dp, such as 3:1",
                                    Axis::most_share));
    }
}

/// Operators are said by their names.
void read_offload(Constraints& c, std::string_view, const Given& value) {
  const bool has_braces = value.text.starts_with('{') && value.text.ends_with('}');
  Offload said = parse_offload(has_braces ? value.text.substr(1, value.text.size() - 2) : value.text);
  for (std::string& name : std::exchange(said.operators, {})) c.hosted.insert(std::move(name));
  if (said.is_on() || c.hosted.empty()) c.offload = std::move(said);
}

void read_dataset(Constraints& c, std::string_view, const Given& value) {
  c.dataset =
      is_of_tensors(value.text) ? DataSplit{.splits = parse_annotation(value)} : parse_dataset(value.text);
}

Rows of_batch() {
  return {word<&Constraints::micro_batch>(
              "micro_batch",
              [](Constraints& c, std::string_view, const Given& value) { c.micro_batch = value.integer(); }),
          word<&Constraints::micro_batches>("micro_batches",
                                            [](Constraints& c, std::string_view, const Given& value) {
                                              c.micro_batches =
                                                  static_cast<int>(value.integer(1, most_micro_batches));
                                            }),
          kept(word<&Constraints::interleave>("micro_batch_interleave",
                                              [](Constraints& c, std::string_view, const Given& value) {
                                                c.interleave =
                                                    static_cast<int>(value.integer(1, most_micro_batches));
                                              })),
          kept(word<&Constraints::global_batch>("global_batch",
                                                [](Constraints& c, std::string_view, const Given& value) {
                                                  c.global_batch = value.integer();
                                                }))};
}

Rows of_step() {
  return {word<&Constraints::zero>("zero",
                                   [](Constraints& c, std::string_view, const Given& value) {
                                     c.zero = static_cast<int>(value.integer(0, 3));
                                   }),
          kept(word<&Constraints::zero_threshold>("zero_threshold", read_threshold)),
          kept(word<&Constraints::zero_group>("zero_group",
                                              [](Constraints& c, std::string_view, const Given& value) {
                                                c.zero_group =
                                                    static_cast<int>(value.integer(1, most_devices));
                                              })),
          word<&Constraints::recompute>("recompute",
                                        [](Constraints& c, std::string_view, const Given& value) {
                                          c.recompute = agains[value.word(again_words)];
                                        }),
          kept(switched<&Constraints::recompute_communication>("recompute_communication")),
          kept(switched<&Constraints::recompute_shard_kept>("recompute_shard_kept")),
          word<&Constraints::schedule>(
              "schedule",
              [](Constraints& c, std::string_view, const Given& value) {
                const bool has_braces = value.text.starts_with('{') && value.text.ends_with('}');
                c.schedule =
                    schedule_given(has_braces ? value.text.substr(1, value.text.size() - 2) : value.text);
              }),
          switched<&Constraints::sequence_parallel>("sequence_parallel"),
          switched<&Constraints::overlap_tensor>("overlap_tensor"),
          kept(word<&Constraints::context>("context", read_context)),
          kept(word<&Constraints::batch_shares>("batch_shares", read_batch_shares)),
          kept(word<&Constraints::offload>("offload", read_offload)),
          kept(word<&Constraints::comm_fusion>("comm_fusion", read_comm_fusion)),
          kept(word<&Constraints::framework>("framework",
                                             [](Constraints& c, std::string_view, const Given& value) {
                                               c.framework = framework_called(value.text).name;
                                             })),
          kept(word<&Constraints::dataset>("dataset", read_dataset))};
}

Rows made_words() {
  Rows out;
  for (const DegreeKind& kind : degree_kinds)
    out.push_back({kind.name, read_degree, print_degree, copy_degree});
  for (const Rows& part : {of_batch(), of_step()}) out.insert(out.end(), part.begin(), part.end());
  return out;
}

}  // namespace

std::span<const ConstraintWord> constraint_words() {
  static const Rows words = made_words();
  return words;
}

const ConstraintWord& constraint_word(std::string_view name) {
  const auto words = constraint_words();
  const auto word = std::ranges::find(words, name, &ConstraintWord::name);
  require(word != words.end(), "there is no word {}", name);
  return *word;
}

}  // namespace shardwright

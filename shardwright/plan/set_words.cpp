#include "shardwright/plan/set_words.h"

#include <algorithm>
#include <array>

#include "shardwright/base/text.h"
#include "shardwright/cost/cluster.h"
#include "shardwright/plan/constraint_names.h"

namespace shardwright {
namespace {

constexpr int most_layers_said = 1 << 16;

std::vector<int> layers_said(const Given& value) {
  std::vector<int> out;
  for (const std::string_view part : split(value.text, '-')) {
    const auto n = to_integer(part);
    if (!n || *n < 0 || *n > most_layers_said)
      throw value.wrong("should be numbers of layers, such as 4, or 9-10-10-9 of a stage each");
    out.push_back(static_cast<int>(*n));
  }
  return out;
}

/// Which replicas share a state, by how many groups of them there are.
void say_instances(PlanWords& out, const Given& value) {
  const auto instances = static_cast<int>(value.integer(1, most_devices));
  const int data = out.said.degrees.of("dp");
  if (out.said.zero_group)
    throw value.wrong(fmt::format("zero_group={} says the same; leave one out", *out.said.zero_group));
  if (data % instances)
    throw value.wrong(fmt::format("should divide dp={}, the replicas that have states between them", data));
  if (out.said.zero.value_or(0) == 0 && instances > 1)
    throw value.wrong("there is no zero, so that every replica has a state of its own; say zero=1, too");
  if (instances > 1) out.said.zero_group = data / instances;
}

struct SetWord {
  std::string_view name;
  void (*read)(PlanWords&, const Given& value);
};
/// Read behind all constraints.
constexpr std::array<SetWord, 4> set_word_rows{
    {{"stage_layers", [](PlanWords& out, const Given& value) { out.stage_layers = layers_said(value); }},
     {"recompute_layers", [](PlanWords& out, const Given& value) { out.again.first = layers_said(value); }},
     {"recompute_together",
      [](PlanWords& out, const Given& value) {
        out.again.together = static_cast<int>(value.integer(1, most_layers_said));
      }},
     {"optimizer_instances", say_instances}}};

const SetWord* set_word_called(std::string_view name) {
  const auto* const word = std::ranges::find(set_word_rows, name, &SetWord::name);
  return word == set_word_rows.end() ? nullptr : word;
}

}  // namespace

PlanWords parse_set(const Given& given) {
  std::vector<std::string> rest;
  std::vector<std::pair<const SetWord*, Given>> own;
  for (const std::string_view part : parts_of_constraints(given.text)) {
    const std::size_t equals = part.find('=');
    const std::string_view name = trim(part.substr(0, equals));
    const SetWord* const word = equals == part.npos ? nullptr : set_word_called(name);
    if (!word) {
      rest.emplace_back(part);
      continue;
    }
    if (std::ranges::any_of(own, [&](const auto& other) { return other.first == word; }))
      throw error("{}: '{}' is given twice", given.called, name);
    own.emplace_back(
        word, Given{fmt::format("{} {}", given.called, name), std::string(trim(part.substr(equals + 1)))});
  }
  PlanWords out{.said = own.empty() || !rest.empty() ? parse_constraints({given.called, join(rest, ",")})
                                                     : Constraints{}};
  for (const auto& [word, value] : own) word->read(out, value);
  return out;
}

std::vector<std::string> set_word_names() {
  std::vector<std::string> out;
  for (const SetWord& word : set_word_rows) out.emplace_back(word.name);
  return out;
}

std::string numbers_text(const std::vector<int>& numbers) {
  std::vector<std::string> out;
  for (const int n : numbers) out.push_back(std::to_string(n));
  return join(out, "-");
}

}  // namespace shardwright

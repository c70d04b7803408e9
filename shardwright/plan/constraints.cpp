#include "shardwright/plan/constraints.h"

#include <algorithm>
#include <concepts>
#include <set>

#include "shardwright/base/text.h"
#include "shardwright/cost/cluster.h"

namespace shardwright {
namespace {

std::size_t index_of(std::string_view name) {
  const auto kind = std::ranges::find(degree_kinds, name, &DegreeKind::name);
  require(kind != degree_kinds.end(), "there is no degree {}", name);
  return static_cast<std::size_t>(kind - degree_kinds.begin());
}

// ---- degrees ----

void read_degree(Constraints& c, std::string_view name, const Given& value) {
  const int degree = static_cast<int>(value.integer(1, most_devices));
  const std::string_view missing = degree_kinds[index_of(name)].missing;
  if (!missing.empty() && degree != 1)
    throw value.wrong(fmt::format("there is no {} parallelism yet; leave {} at 1", missing, name));
  c.degrees.set(name, degree);
}

std::string print_degree(const Constraints& c, std::string_view name) {
  const auto degree = c.degrees.said(name);
  return degree ? fmt::format("{}", *degree) : "";
}

void open_degree(Constraints& c, std::string_view name) { c.degrees.set(name, std::nullopt); }

// ---- all else ----

constexpr std::array<std::string_view, 2> switch_words{"0", "1"};
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
std::string text_of(const Schedule& schedule) { return name_of(schedule); }
std::string text_of(Again again) {
  return std::string(
      again_words[static_cast<std::size_t>(std::ranges::find(agains, again) - agains.begin())]);
}

/// A word for a member of its own.
template <auto member>
ConstraintWord word(std::string_view name, void (*read)(Constraints&, std::string_view, const Given&)) {
  return {.name = name,
          .read = read,
          .print = [](const Constraints& c,
                      std::string_view) { return c.*member ? text_of(*(c.*member)) : std::string(); },
          .open = [](Constraints& c, std::string_view) { (c.*member).reset(); }};
}

std::vector<ConstraintWord> made_words() {
  std::vector<ConstraintWord> out;
  for (const DegreeKind& kind : degree_kinds)
    out.push_back({kind.name, read_degree, print_degree, open_degree});
  const auto add = [&](const ConstraintWord& word) { out.push_back(word); };
  add(word<&Constraints::micro_batch>(
      "micro_batch",
      [](Constraints& c, std::string_view, const Given& value) { c.micro_batch = value.integer(); }));
  add(word<&Constraints::micro_batches>(
      "micro_batches", [](Constraints& c, std::string_view, const Given& value) {
        c.micro_batches = static_cast<int>(value.integer(1, most_micro_batches));
      }));
  add(word<&Constraints::global_batch>(
      "global_batch",
      [](Constraints& c, std::string_view, const Given& value) { c.global_batch = value.integer(); }));
  add(word<&Constraints::zero>("zero", [](Constraints& c, std::string_view, const Given& value) {
    c.zero = static_cast<int>(value.integer(0, 3));
  }));
  add(word<&Constraints::recompute>("recompute", [](Constraints& c, std::string_view, const Given& value) {
    c.recompute = agains[value.word(again_words)];
  }));
  add(word<&Constraints::schedule>("schedule", [](Constraints& c, std::string_view, const Given& value) {
    c.schedule = schedule_called(value.text);
  }));
  add(word<&Constraints::sequence_parallel>("sequence_parallel",
                                            [](Constraints& c, std::string_view, const Given& value) {
                                              c.sequence_parallel = value.word(switch_words) == 1;
                                            }));
  return out;
}

// ---- operators and modules by name ----

/// At the commas that stand in no braces.
std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> out;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    depth += text[i] == '{' ? 1 : text[i] == '}' ? -1 : 0;
    if (text[i] != ',' || depth > 0) continue;
    out.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  out.push_back(text.substr(begin));
  return out;
}

/// `{m: dp, n: dp.tp}`
LoopSplit parse_split(const Given& value) {
  constexpr std::string_view form = "should be {LOOP DIM: DEGREE, ...}";
  std::string_view text = value.text;
  if (text.size() < 2 || text.back() != '}') throw value.wrong(form);
  text = trim(text.substr(1, text.size() - 2));
  LoopSplit out;
  if (text.empty()) return out;
  std::set<std::string_view> used;
  for (std::string_view part : split(text, ',')) {
    const std::size_t colon = part.find(':');
    if (colon == part.npos) throw value.wrong(form);
    const auto [it, is_new] = out.try_emplace(std::string(trim(part.substr(0, colon))));
    if (!is_new) throw value.wrong(fmt::format("'{}' is split twice", it->first));
    for (std::string_view axis : split(part.substr(colon + 1), '.')) {
      const std::string_view name = trim(axis);
      const auto kind = std::ranges::find(degree_kinds, name, &DegreeKind::name);
      if (kind == degree_kinds.end() || kind->of == Sharing::stages || !kind->missing.empty())
        throw value.wrong(fmt::format("'{}' splits no operator; dp and tp do", name));
      if (!used.insert(kind->name).second) throw value.wrong(fmt::format("{} splits two dims", name));
      it->second.emplace_back(name);
    }
  }
  return out;
}

constexpr std::string_view of_stage = "stage ";

/// Whether `value` is one of an operator or module, which is then read.
bool read_named(Constraints& c, const std::string& name, const Given& value) {
  if (value.text.starts_with('{')) return c.operators[name] = parse_split(value), true;
  if (!value.text.starts_with(of_stage)) return false;
  const Given number{value.called, std::string(trim(std::string_view(value.text).substr(of_stage.size())))};
  c.stages[name] = static_cast<int>(number.integer(0, most_devices));
  return true;
}

}  // namespace

std::string to_text(const LoopSplit& split) {
  std::vector<std::string> out;
  for (const auto& [loop, axes] : split) out.push_back(fmt::format("{}: {}", loop, join(axes, ".")));
  return fmt::format("{{{}}}", join(out, ", "));
}

Degrees::Degrees(std::initializer_list<std::pair<std::string_view, int>> said) {
  for (const auto& [name, degree] : said) set(name, degree);
}

std::optional<int> Degrees::said(std::string_view name) const {
  const int degree = said_[index_of(name)];
  return degree ? std::optional(degree) : std::nullopt;
}

void Degrees::set(std::string_view name, std::optional<int> degree) {
  said_[index_of(name)] = degree.value_or(0);
}

int Degrees::sharing(Sharing what) const {
  int out = 1;
  for (std::size_t k = 0; k < said_.size(); ++k)
    if (degree_kinds[k].of == what) out *= std::max(1, said_[k]);
  return out;
}

void Degrees::share(Sharing what, std::optional<int> degree) {
  for (const DegreeKind& kind : degree_kinds)
    if (kind.of == what && kind.missing.empty()) set(kind.name, degree);
}

std::int64_t Degrees::devices() const {
  std::int64_t out = 1;
  for (int degree : said_) out *= std::max(1, degree);
  return out;
}

std::span<const ConstraintWord> constraint_words() {
  static const std::vector<ConstraintWord> words = made_words();
  return words;
}

const ConstraintWord& constraint_word(std::string_view name) {
  const auto words = constraint_words();
  const auto word = std::ranges::find(words, name, &ConstraintWord::name);
  require(word != words.end(), "there is no word {}", name);
  return *word;
}

std::string to_text(const Constraints& constraints, std::string_view between) {
  std::vector<std::string> out;
  for (const ConstraintWord& word : constraint_words())
    if (const std::string value = word.print(constraints, word.name); !value.empty())
      out.push_back(fmt::format("{}={}", word.name, value));
  for (const auto& [name, split] : constraints.operators)
    out.push_back(fmt::format("{}={}", name, to_text(split)));
  for (const auto& [name, stage] : constraints.stages)
    out.push_back(fmt::format("{}={}{}", name, of_stage, stage));
  return join(out, between);
}

Constraints parse_constraints(const Given& given) {
  Constraints out;
  std::set<std::string_view> seen;
  std::vector<std::string> known;
  for (const ConstraintWord& word : constraint_words()) known.emplace_back(word.name);
  for (std::string_view part : parts_of(given.text)) {
    const std::size_t equals = part.find('=');
    const std::string_view key = trim(part.substr(0, equals));
    if (equals == part.npos) throw error("{} '{}': should be KEY=VALUE,...", given.called, part);
    const Given value{fmt::format("{} {}", given.called, key), std::string(trim(part.substr(equals + 1)))};
    if (!seen.insert(key).second) throw error("{}: '{}' is given twice", given.called, key);
    if (read_named(out, std::string(key), value)) continue;
    const auto word = std::ranges::find(constraint_words(), key, &ConstraintWord::name);
    if (word == constraint_words().end())
      throw error("{}: '{}' is unknown{}; there are {}, and NAME={{LOOP DIM: DEGREE}}, NAME=stage N",
                  given.called, key, near_names(key, known), join(known, ", "));
    word->read(out, key, value);
  }
  return out;
}

std::optional<Conflict> conflict_of(const Constraints& a, const Constraints& b) {
  for (const ConstraintWord& word : constraint_words()) {
    const std::string of_a = word.print(a, word.name), of_b = word.print(b, word.name);
    if (!of_a.empty() && !of_b.empty() && of_a != of_b)
      return Conflict{{}, std::string(word.name), of_b, of_a};
  }
  for (const auto& [name, split] : a.operators)
    if (const auto other = b.operators.find(name); other != b.operators.end() && other->second != split)
      return Conflict{name, name, to_text(other->second), to_text(split)};
  for (const auto& [name, stage] : a.stages)
    if (const auto other = b.stages.find(name); other != b.stages.end() && other->second != stage)
      return Conflict{name, name, fmt::format("stage {}", other->second), fmt::format("stage {}", stage)};
  return std::nullopt;
}

Constraints merged(Constraints weaker, const Constraints& stronger) {
  for (const ConstraintWord& word : constraint_words())
    if (const std::string value = word.print(stronger, word.name); !value.empty())
      word.read(weaker, word.name, {std::string(word.name), value});
  for (const auto& [name, split] : stronger.operators) weaker.operators[name] = split;
  for (const auto& [name, stage] : stronger.stages) weaker.stages[name] = stage;
  return weaker;
}

RecomputeOptions recompute_options(RecomputeMode mode, bool by_sequence) {
  RecomputeOptions out = default_options(mode);
  if (mode == RecomputeMode::selected && by_sequence) out.communication = true;
  return out;
}

}  // namespace shardwright

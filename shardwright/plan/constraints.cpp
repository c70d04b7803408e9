#include "shardwright/plan/constraints.h"

#include <algorithm>
#include <set>

#include "shardwright/base/text.h"
#include "shardwright/plan/constraint_names.h"
#include "shardwright/plan/set_words.h"

namespace shardwright {
namespace {

std::size_t index_of(std::string_view name) {
  const auto kind = std::ranges::find(degree_kinds, name, &DegreeKind::name);
  require(kind != degree_kinds.end(), "there is no degree {}", name);
  return static_cast<std::size_t>(kind - degree_kinds.begin());
}

/// Whether some row has read it. Throws: Error if it had been read before.
bool read_named(Constraints& c, std::set<std::pair<std::string, const void*>>& seen, const std::string& name,
                const Given& value, const Given& given) {
  for (const NamedRow& row : named_rows()) {
    if (!row.read(c, name, value)) continue;
    if (!seen.emplace(name, &row).second) throw error("{}: '{}' is given twice", given.called, name);
    return true;
  }
  return false;
}

}  // namespace

std::vector<std::string_view> parts_of_constraints(std::string_view text) {
  std::vector<std::string_view> out;
  constexpr std::string_view opening = "{([", closing = "})]";
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    depth += opening.find(text[i]) != opening.npos ? 1 : closing.find(text[i]) != closing.npos ? -1 : 0;
    if (text[i] != ',' || depth > 0) continue;
    out.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  out.push_back(text.substr(begin));
  return out;
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
    if (kind.of == what && kind.missing.empty())
      set(kind.name, kind.is_rare && degree == 1 ? std::nullopt : degree);
}

std::int64_t Degrees::devices() const {
  std::int64_t out = 1;
  for (std::size_t k = 0; k < said_.size(); ++k)
    if (degree_kinds[k].of != Sharing::experts) out *= std::max(1, said_[k]);
  return out;
}

int Degrees::of_experts_features() const {
  if (const auto etp = said("etp")) return *etp;
  const int work = sharing(Sharing::work);
  return sharing(Sharing::batch) % of("ep") == 0 ? work : 1;
}

std::string to_text(const Constraints& constraints, std::string_view between) {
  std::vector<std::string> out;
  for (const ConstraintWord& word : constraint_words())
    if (const std::string value = word.print(constraints, word.name); !value.empty())
      out.push_back(fmt::format("{}={}", word.name, value));
  for (const NamedRow& row : named_rows())
    for (const auto& [name, text] : row.said(constraints)) out.push_back(fmt::format("{}={}", name, text));
  return join(out, between);
}

Constraints parse_constraints(const Given& given) {
  Constraints out;
  std::set<std::pair<std::string, const void*>> seen;
  std::vector<std::string> known;
  for (const ConstraintWord& word : constraint_words()) known.emplace_back(word.name);
  const std::vector<std::string> of_set = set_word_names();
  known.insert(known.end(), of_set.begin(), of_set.end());
  for (std::string_view part : parts_of_constraints(given.text)) {
    const std::size_t equals = part.find('=');
    const std::string key(trim(part.substr(0, equals)));
    if (equals == part.npos) throw error("{} '{}': should be KEY=VALUE,...", given.called, part);
    const Given value{fmt::format("{} {}", given.called, key), std::string(trim(part.substr(equals + 1)))};
    const auto word = std::ranges::find(constraint_words(), key, &ConstraintWord::name);
    if (word == constraint_words().end()) {
      if (std::ranges::find(of_set, key) != of_set.end())
        throw error("{}={}: is for --set alone, which says the whole plan; leave it out", value.called,
                    value.text);
      if (read_named(out, seen, key, value, given)) continue;
      throw error(
          "{}: '{}' is unknown{}; there are {}, and NAME={{LOOP DIM: DEGREE}}, NAME=stage N, "
          "NAME=recompute, NAME=fusion N, NAME=host",
          given.called, key, near_names(key, known), join(known, ", "));
    }
    if (!seen.emplace(key, nullptr).second) throw error("{}: '{}' is given twice", given.called, key);
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
  for (const NamedRow& row : named_rows()) {
    const auto of_b = row.said(b);
    const std::map<std::string, std::string> others(of_b.begin(), of_b.end());
    for (const auto& [name, text] : row.said(a))
      if (const auto other = others.find(name); other != others.end() && other->second != text)
        return Conflict{name, name, other->second, text};
  }
  return std::nullopt;
}

Constraints merged(Constraints weaker, const Constraints& stronger) {
  for (const ConstraintWord& word : constraint_words())
    if (word.is_said(stronger)) word.copy(weaker, stronger, word.name);
  for (const NamedRow& row : named_rows())
    for (const auto& [name, text] : row.said(stronger)) row.take(weaker, stronger, name);
  return weaker;
}

bool splits_tensors(const Constraints& c) { return !c.tensors.empty() || c.dataset; }

RecomputeOptions recompute_options(RecomputeMode mode, bool by_sequence) {
  RecomputeOptions out = default_options(mode);
  if (mode == RecomputeMode::selected && by_sequence) out.communication = true;
  return out;
}

}  // namespace shardwright

#include "shardwright/plan/constraint_names.h"

#include <algorithm>
#include <array>
#include <set>

#include "shardwright/base/text.h"
#include "shardwright/cost/cluster.h"

namespace shardwright {
namespace {

using Texts = std::vector<std::pair<std::string, std::string>>;

// ---- how operators and parameters are split ----

/// `{m: dp, n: dp.tp}`
LoopSplit parse_loop_split(const Given& value) {
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
      if (kind == degree_kinds.end() || kind->of == Sharing::stages || kind->of == Sharing::experts ||
          !kind->missing.empty())
        throw value.wrong(fmt::format("'{}' splits no operator; dp, tp and cp do", name));
      if (!used.insert(kind->name).second) throw value.wrong(fmt::format("{} splits two dims", name));
      it->second.emplace_back(name);
    }
  }
  return out;
}

bool read_split(Constraints& c, const std::string& name, const Given& value) {
  if (!value.text.starts_with('{')) return false;
  if (is_of_tensors(value.text))
    c.tensors[name] = parse_annotation(value);
  else
    c.operators[name] = parse_loop_split(value);
  return true;
}

Texts splits_of(const Constraints& c) {
  Texts out;
  for (const auto& [name, split] : c.operators) out.emplace_back(name, to_text(split));
  for (const auto& [name, split] : c.tensors) out.emplace_back(name, to_text(split));
  return out;
}

void take_split(Constraints& to, const Constraints& from, const std::string& name) {
  to.operators.erase(name);
  to.tensors.erase(name);
  if (const auto it = from.operators.find(name); it != from.operators.end()) to.operators.insert(*it);
  if (const auto it = from.tensors.find(name); it != from.tensors.end()) to.tensors.insert(*it);
}

// ---- numbers ----

/// `stage 2`, a number behind its word.
struct NumberOf {
  std::string_view word;
  std::map<std::string, int> Constraints::*member;
  int most;
};
constexpr NumberOf of_stage{"stage ", &Constraints::stages, most_devices};
constexpr NumberOf of_fusion{"fusion ", &Constraints::fusion_numbers, most_fusion_number};

template <const NumberOf& of>
constexpr NamedRow numbered{
    .read =
        [](Constraints& c, const std::string& name, const Given& value) {
          if (!value.text.starts_with(of.word)) return false;
          const Given number{value.called,
                             std::string(trim(std::string_view(value.text).substr(of.word.size())))};
          (c.*of.member)[name] = static_cast<int>(number.integer(0, of.most));
          return true;
        },
    .said =
        [](const Constraints& c) {
          Texts out;
          for (const auto& [name, number] : c.*of.member)
            out.emplace_back(name, fmt::format("{}{}", of.word, number));
          return out;
        },
    .take = [](Constraints& to, const Constraints& from,
               const std::string& name) { (to.*of.member)[name] = (from.*of.member).at(name); }};

// ---- what is computed again ----

constexpr std::array<std::string_view, 2> recompute_words{"keep", "recompute"};

/// `recompute {communication: 0, nodes: a b}`
std::string text_of(const RecomputedModule& module) {
  const RecomputeOptions usual;
  std::vector<std::string> more;
  if (module.options.communication != usual.communication)
    more.push_back(fmt::format("communication: {:d}", module.options.communication));
  if (module.options.shard_kept != usual.shard_kept)
    more.push_back(fmt::format("shard_kept: {:d}", module.options.shard_kept));
  if (!module.nodes.empty()) more.push_back("nodes: " + join(module.nodes, " "));
  const std::string_view word = recompute_words[module.is_on];
  return more.empty() ? std::string(word) : fmt::format("{} {{{}}}", word, join(more, ", "));
}

void set_module(Constraints& c, const RecomputedModule& module) {
  c.recomputed = with_modules({.modules = std::move(c.recomputed)}, {module}).modules;
}

bool read_recompute(Constraints& c, const std::string& name, const Given& value) {
  const std::size_t end = value.text.find_first_of(" {");
  const auto word = std::ranges::find(recompute_words, std::string_view(value.text).substr(0, end));
  if (word == recompute_words.end()) return false;
  RecomputedModule out{.module = name, .nodes = {}, .is_on = word != recompute_words.begin()};
  Scanner in(value.text, value.called);
  in.name("recompute or keep");
  for (bool is_first = true; is_first ? in.accept("{") : in.accept(","); is_first = false) {
    const std::string key = in.name("communication, shard_kept or nodes");
    in.expect(":");
    if (key == "communication" || key == "shard_kept") {
      const std::int64_t on = in.integer("0 or 1");
      if (on != 0 && on != 1) throw value.wrong(fmt::format("{} should be 0 or 1", key));
      (key == "communication" ? out.options.communication : out.options.shard_kept) = on == 1;
    } else if (key == "nodes") {
      while (in.peek_name()) out.nodes.push_back(in.name("an operator"));
    } else {
      throw value.wrong(fmt::format("'{}' is unknown; there are communication, shard_kept and nodes", key));
    }
  }
  if (!in.at_end()) in.expect("}");
  if (!in.at_end()) in.fail("the end");
  set_module(c, out);
  return true;
}

Texts recomputed_of(const Constraints& c) {
  Texts out;
  for (const RecomputedModule& module : c.recomputed) out.emplace_back(module.module, text_of(module));
  return out;
}

void take_recompute(Constraints& to, const Constraints& from, const std::string& name) {
  set_module(to, *std::ranges::find(from.recomputed, name, &RecomputedModule::module));
}

// ---- what runs on the host ----

bool read_hosted(Constraints& c, const std::string& name, const Given& value) {
  if (value.text != "host") return false;
  c.hosted.insert(name);
  return true;
}

Texts hosted_of(const Constraints& c) {
  Texts out;
  for (const std::string& name : c.hosted) out.emplace_back(name, "host");
  return out;
}

void take_hosted(Constraints& to, const Constraints&, const std::string& name) { to.hosted.insert(name); }

constexpr std::array<NamedRow, 5> rows{{{read_split, splits_of, take_split},
                                        numbered<of_stage>,
                                        numbered<of_fusion>,
                                        {read_recompute, recomputed_of, take_recompute},
                                        {read_hosted, hosted_of, take_hosted}}};

}  // namespace

std::span<const NamedRow> named_rows() { return rows; }

std::string to_text(const LoopSplit& split) {
  std::vector<std::string> out;
  for (const auto& [loop, axes] : split) out.push_back(fmt::format("{}: {}", loop, join(axes, ".")));
  return fmt::format("{{{}}}", join(out, ", "));
}

}  // namespace shardwright

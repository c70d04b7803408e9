#include "shardwright/frontend/plan_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "shardwright/base/index.h"
#include "shardwright/base/text.h"
#include "shardwright/frontend/report.h"
#include "shardwright/frontend/table.h"
#include "shardwright/plan/decided.h"
#include "shardwright/search/planning/settings.h"

namespace shardwright {
namespace {

/// What is said of each name, in the order of the plan; of what several stages make the first says it.
class Texts {
 public:
  void add(const std::string& name, std::string text) {
    if (places_.emplace(name, all_.size()).second) all_.emplace_back(name, std::move(text));
  }
  const std::vector<std::pair<std::string, std::string>>& all() const { return all_; }
  const std::string* of(const std::string& name) const {
    const auto it = places_.find(name);
    return it == places_.end() ? nullptr : &all_[it->second].second;
  }

 private:
  std::vector<std::pair<std::string, std::string>> all_;
  std::map<std::string, std::size_t> places_;
};

/// The strategies of operators, as far as they are obeyed.
Texts operators_of_plan(const Plan& plan) {
  Texts out;
  for (const StagePlan& stage : plan.stages)
    for (const PlannedOperator& op : stage.operators)
      out.add(op.name, fmt::format("{}{}{}", strategy_text(op),
                                   op.mesh > 0 ? " of " + to_text(stage.meshes[at(op.mesh)]) : "",
                                   op.out.empty() ? "" : ", result " + op.out));
  return out;
}

/// How inputs, parameters and states lie.
Texts values_of_plan(const Plan& plan) {
  Texts out;
  for (const StagePlan& stage : plan.stages)
    for (const auto& [name, layout] : stage.layouts) out.add(name, layout);
  return out;
}

class Comparison {
 public:
  Comparison(const Plan& a, const Plan& b) : a_(a), b_(b) {}

  std::vector<PlanDifference> run() {
    if (!is_same_network() && a_.model != b_.model) out_.push_back({"model", a_.model, b_.model});
    add_settings({SettingPart::network});
    const bool is_told = !out_.empty() || is_same_network() ||
                         a_.settings.pipelining.batch_parts() != b_.settings.pipelining.batch_parts();
    if (!is_told) add("fingerprint", a_.fingerprint, b_.fingerprint);
    add_cluster();
    add_settings({SettingPart::update});
    add_meshes();
    add_settings({SettingPart::order, SettingPart::split, SettingPart::step});
    add_stages();
    add_strategies();
    return std::move(out_);
  }

 private:
  bool add(std::string what, std::string a, std::string b) {
    if (a == b) return false;
    for (std::string* text : {&a, &b})
      if (text->empty()) *text = "-";
    out_.push_back({std::move(what), std::move(a), std::move(b)});
    return true;
  }

  /// Of a micro-batch, whatever it is called.
  bool is_same_network() const { return a_.fingerprint == b_.fingerprint; }

  /// A file may have changed under its name.
  void add_cluster() {
    if (a_.cluster == b_.cluster) return;
    if (!add("cluster", a_.cluster.name, b_.cluster.name))
      out_.push_back({"cluster", a_.cluster.name, b_.cluster.name + " with other figures"});
    add("devices", fmt::format("{}", a_.devices()), fmt::format("{}", b_.devices()));
  }

  void add_settings(std::initializer_list<SettingPart> parts) {
    const PlanRequest a = request_of(a_), b = request_of(b_);
    for (const SettingRow& row : all_settings()) {
      // The mode and the search say who found it, stages are told of beside meshes, and a loss may be the model's own.
      const bool is_told = row.flag == "--parallel" || row.flag == "--search" || row.flag == "--stages" ||
                           (row.flag == "--loss" && is_same_network());
      if (std::ranges::find(parts, row.part) == parts.end() || !row.print || row.member.empty() || is_told)
        continue;
      const std::string what = row.member.substr(0, row.member.find(','));
      add(what, text_of(row, a), text_of(row, b));
    }
    // Files say more of these than flags do.
    const auto add_rest = [&](const char* what, bool is_same) {
      const bool is_there = std::ranges::find(out_, what, &PlanDifference::what) != out_.end();
      if (!is_same && !is_there) out_.push_back({what, "as the first file says", "as the second does"});
    };
    if (std::ranges::find(parts, SettingPart::step) == parts.end()) return;
    add_rest("recompute", a_.settings.recompute == b_.settings.recompute);
    add_rest("offload", a_.settings.offload == b_.settings.offload);
    add_rest("comm_fusion", a_.settings.comm_fusion == b_.settings.comm_fusion);
  }

  static std::string text_of(const SettingRow& row, const PlanRequest& r) {
    const Settings settings = settings_of(r);
    if (row.flag == "--schedule" && settings.pipelining.stages == 1) return "";
    if (row.flag == "--recompute" && settings.recompute.is_on()) return words_of(settings.recompute);
    return row.print(r);
  }

  void add_meshes() {
    const Degrees a = decided_by(a_, 0).degrees, b = decided_by(b_, 0).degrees;
    bool is_told = true;  // by degrees
    for (const DegreeKind& kind : degree_kinds) {
      if (!kind.missing.empty() || (kind.is_rare && !a.said(kind.name) && !b.said(kind.name))) continue;
      const auto of = [&](const Degrees& degrees) {
        return kind.is_rare ? std::optional(degrees.of(kind.name)) : degrees.said(kind.name);
      };
      const auto of_a = of(a), of_b = of(b);
      is_told = is_told && of_a && of_b;
      if (of_a && of_b) add(std::string(kind.name), fmt::format("{}", *of_a), fmt::format("{}", *of_b));
    }
    if (!is_told || a == b) add("mesh", meshes_text(a_), meshes_text(b_));
  }

  /// Of each stage, or of all if they have the same.
  static std::string meshes_text(const Plan& plan) {
    std::vector<std::string> out;
    for (const StagePlan& stage : plan.stages) {
      constexpr std::string_view word = "mesh ";
      std::vector<std::string> meshes;
      for (const Mesh& mesh : stage.meshes) meshes.push_back(to_text(mesh).substr(word.size()));
      out.push_back(join(meshes, " and "));
    }
    const bool is_one =
        std::ranges::all_of(out, [&](const std::string& text) { return text == out.front(); });
    return is_one ? out.front() : join(out, ", ");
  }

  /// Which operators lie where: `61 operators, embedding to layers.1.add2`.
  void add_stages() {
    const std::size_t count = std::max(a_.stages.size(), b_.stages.size());
    for (std::size_t s = 0; s < count && count > 1; ++s) {
      const std::set<std::string> a = names_of(a_, s), b = names_of(b_, s);
      if (a == b) continue;
      if (add(fmt::format("stage {}", s), stage_text(a_, s), stage_text(b_, s))) continue;
      std::vector<std::string> only_a, only_b;
      std::ranges::set_difference(a, b, std::back_inserter(only_a));
      std::ranges::set_difference(b, a, std::back_inserter(only_b));
      add(fmt::format("stage {}", s), "with " + folded_text(only_a), "with " + folded_text(only_b));
    }
  }

  static std::set<std::string> names_of(const Plan& plan, std::size_t stage) {
    std::set<std::string> out;
    if (stage < plan.stages.size())
      for (const PlannedOperator& op : plan.stages[stage].operators) out.insert(op.name);
    return out;
  }
  static std::string stage_text(const Plan& plan, std::size_t stage) {
    if (stage >= plan.stages.size()) return "";
    const std::vector<PlannedOperator>& ops = plan.stages[stage].operators;
    if (ops.empty()) return "no operator";
    return fmt::format("{} operator{}, {} to {}", ops.size(), ops.size() == 1 ? "" : "s", ops.front().name,
                       ops.back().name);
  }
  static std::string folded_text(const std::vector<std::string>& names) {
    std::vector<std::string> out;
    for (const FoldedName& f : folded(names)) out.push_back(f.name);
    return join(out, ", ");
  }

  void add_strategies() {
    add_texts("operators", operators_of_plan(a_), operators_of_plan(b_));
    const bool is_told = !out_.empty();  // what stages send each other is such a value, too
    add_texts(is_told ? "" : "values", values_of_plan(a_), values_of_plan(b_));
  }

  /// Of names that both have what differs, alike ones in a row; of others how many there are of `kind`, if it has a name.
  void add_texts(std::string kind, const Texts& a, const Texts& b) {
    std::map<std::pair<std::string, std::string>, std::vector<std::size_t>> alike;
    std::size_t common = 0;
    for (std::size_t i = 0; i < a.all().size(); ++i) {
      const auto& [name, text] = a.all()[i];
      const std::string* other = b.of(name);
      common += other != nullptr;
      if (other && *other != text) alike[{text, *other}].push_back(i);
    }
    if (!kind.empty() && (common < a.all().size() || common < b.all().size()))
      add(std::move(kind), fmt::format("{}, {} of its own", a.all().size(), a.all().size() - common),
          fmt::format("{}, {} of its own", b.all().size(), b.all().size() - common));
    std::map<std::size_t, PlanDifference> rows;  // by the first of them
    for (const auto& [texts, members] : alike) {
      std::vector<std::string> names;
      for (std::size_t i : members) names.push_back(a.all()[i].first);
      for (const FoldedName& row : folded(names))
        rows[members[row.members.front()]] = {row.name, texts.first, texts.second};
    }
    for (auto& [place, row] : rows) out_.push_back(std::move(row));
  }

  const Plan& a_;
  const Plan& b_;
  std::vector<PlanDifference> out_;
};

}  // namespace

std::vector<PlanDifference> differences(const Plan& a, const Plan& b) { return Comparison(a, b).run(); }

std::string to_text(const std::vector<PlanDifference>& differences, const std::string& a,
                    const std::string& b, std::size_t most) {
  Rows rows{{"what", a, b}};
  for (const PlanDifference& d : differences)
    if (rows.size() <= most) rows.push_back({d.what, d.a, d.b});
  std::string out = aligned(rows, {});
  if (differences.size() > most) out += fmt::format("  and {} more\n", differences.size() - most);
  return out;
}

}  // namespace shardwright

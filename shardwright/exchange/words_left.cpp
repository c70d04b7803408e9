#include "shardwright/exchange/words_left.h"

#include <utility>

#include "shardwright/base/text.h"
#include "shardwright/plan/settings.h"

namespace shardwright {

WordsLeft::WordsLeft(const WrittenPlan& plan) : framework_(plan.plan.settings.framework) {
  add_step(plan);
  add_network(plan.plan.origin);
  add_parameters("frozen parameters", plan, &PlacedTensor::is_frozen);
  add_parameters("settings of parameters", plan, &PlacedTensor::has_own_settings);
  if (!plan.grid) return;
  for (const std::string_view degree : {"dp", "tp", "cp", "ep", "etp"})
    if (plan.grid->of(degree) > 1) words_.emplace(degree, std::to_string(plan.grid->of(degree)));
  if (plan.grid->by_sequence()) words_.emplace("sequence_parallel", "1");
  if (plan.grid->said.context)
    words_.emplace("context", constraint_word("context").print(plan.grid->said, "context"));
  if (!plan.grid->said.stages.empty()) words_.emplace("layers by stage", "not shared out evenly");
  const Recompute& recompute = plan.plan.settings.recompute;
  if (recompute.options == recompute_options(recompute.mode, plan.grid->by_sequence()))
    take({"recompute_communication", "recompute_shard_kept"});  // as it follows
  if (!plan.grid->split_otherwise.empty())
    words_.emplace("operators split otherwise", some_of(plan.grid->split_otherwise));
  if (!plan.grid->cut_otherwise.empty()) words_.emplace("layers cut", some_of(plan.grid->cut_otherwise));
}

void WordsLeft::add_step(const WrittenPlan& plan) {
  Constraints unusual = constraints_of(plan.plan.settings);
  for (const RecomputedModule& m : std::exchange(unusual.recomputed, {}))
    words_.emplace("recompute of " + m.module, m.is_on ? "on" : "off");
  for (const std::string& name : std::exchange(unusual.hosted, {}))
    words_.emplace(name + " on the host", "on");
  if (!unusual.fusion_numbers.empty())
    words_.emplace("fusion numbers", fmt::format("of {} parameters", unusual.fusion_numbers.size()));
  for (const ConstraintWord& word : constraint_words())
    if (std::string text = word.print(unusual, word.name); !text.empty()) words_.emplace(word.name, text);
  if (plan.plan.settings.pipelining.micro_batches > 1)
    words_.emplace("micro_batches", std::to_string(plan.plan.settings.pipelining.micro_batches));
  if (plan.batch() > 0) words_.emplace("global_batch", std::to_string(plan.batch()));
}

void WordsLeft::add_network(const Origin& origin) {
  if (origin.precision != Precision()) words_.emplace("precision", to_text(origin.precision));
  words_.emplace("optimizer", origin.optimizer.name + to_text(origin.optimizer.attributes));
  if (origin.optimizer.clip_norm > 0)
    words_.emplace("clip_norm", fmt::format("{}", origin.optimizer.clip_norm));
  if (origin.optimizer.reduces_short) words_.emplace("reduce_precision", "short");
  if (origin.optimizer.loss_scale.is_on()) words_.emplace("loss_scale", to_text(origin.optimizer.loss_scale));
  if (origin.attention != Attention::flash) words_.emplace("attention", "explicit");
  if (!origin.loss.empty()) words_.emplace("loss", origin.loss);
}

void WordsLeft::add_parameters(std::string word, const WrittenPlan& plan, bool PlacedTensor::*are_such) {
  std::vector<std::string> names;
  for (const PlacedPart& part : plan.parts)
    for (const PlacedTensor& parameter : part.parameters)
      if (parameter.*are_such) names.push_back(parameter.name);
  if (!names.empty()) words_.emplace(std::move(word), some_of(names));
}

void WordsLeft::take(std::initializer_list<std::string_view> words) {
  for (const std::string_view word : words)
    if (const auto it = words_.find(word); it != words_.end()) words_.erase(it);
}

void WordsLeft::leave(std::initializer_list<std::string_view> words, std::string why) {
  for (const std::string_view word : words)
    if (has(word)) whys_.emplace(word, why);
}

void WordsLeft::read_as(std::string_view framework) {
  take({"framework"});
  if (framework_ != framework)
    add(fmt::format("framework={}: read back, memory is counted as {} takes it", framework_, framework));
}

std::vector<std::string> WordsLeft::lines() const {
  std::vector<std::string> out;
  for (const auto& [word, text] : words_) {
    const bool is_sentence = word.find(' ') != word.npos;
    std::string line = word + (is_sentence ? ": " : "=") + text;
    if (const auto why = whys_.find(word); why != whys_.end()) line += ": " + why->second;
    out.push_back(std::move(line));
  }
  out.insert(out.end(), lines_.begin(), lines_.end());
  return out;
}

std::string comments(const std::vector<std::string>& lines, std::string_view mark) {
  std::string out;
  for (const std::string& line : lines) out += fmt::format("{} {}\n", mark, line);
  return out;
}

std::string head_text(const WrittenPlan& plan, std::string_view format, const std::vector<std::string>& left,
                      std::string_view mark) {
  const int devices = plan.plan.devices();
  std::vector<std::string> lines{fmt::format("{} on {} device{}, for {}, by shardwright.", plan.what.model,
                                             devices, devices == 1 ? "" : "s", format)};
  for (const std::string& line : left) lines.push_back("not carried: " + line);
  return comments(lines, mark);
}

}  // namespace shardwright

#include "shardwright/exchange/python/package.h"

#include "shardwright/base/index.h"
#include "shardwright/base/text.h"
#include "shardwright/exchange/python/data.h"
#include "shardwright/exchange/python/package_text.h"

namespace shardwright::python {

void add_fixed_files(Files& files, PackageText engine, std::span<const char* const> names,
                     const std::map<std::string, std::string>& functions) {
  for (const char* name : {"data.py", "run.py", "tensors.py"}) files[name] = std::string(package_text(name));
  for (const char* name : {"arrays.py", "train.py"}) files[name] = std::string(engine(name));
  for (const char* name : names) files[name] = std::string(engine(name));
  std::string operators(engine("operators.py"));
  for (const auto& [name, text] : functions) operators += "\n\n" + text;
  files["operators.py"] = std::move(operators);
}

std::string program_head(const Pipeline& pipeline, const EmittedPlan& plan) {
  const Json nothing{{"synthetic", nullptr}, {"names", Json::object()}, {"label_weights", ""}};
  return fmt::format(
      "\"\"\"{}: the step as data, by shardwright.\n\n{}\n\"\"\"\n\nMODEL = {}\nRANKS = {}\nMICRO_BATCHES = "
      "{}\n"
      "# What data it takes: what they are made from where there are none, what files call inputs, what is "
      "made of labels.\n"
      "DATA = {}\n",
      plan.model, plan.summary, Json(plan.model).dump(), pipeline.rank_count(), pipeline.micro_batches(),
      python_lines(plan.data.empty() ? nothing : parse_json(plan.data), 2));
}

void check_turns(const Pipeline& pipeline) {
  for (const Program& program : pipeline.stages)
    for (const Value& value : program.graph.values)
      for (const Window& window : layout_of(value).windows)
        if (window.goes_round)
          throw error(
              "the plan lets keys go round for attention (cp with context=ring), which packages do not do; "
              "make it "
              "with --fix context=gather, or exchange or exchange:N+gather where heads divide");
}

PackageWriter::PackageWriter(const Pipeline& pipeline, const EmittedPlan& plan, Steps steps)
    : pipeline_(pipeline), plan_(plan), steps_(steps_of(pipeline)), lists_(task_lists(pipeline, steps_)) {
  elements_ = elements_of(pipeline, lists_, steps);
  for (const Program& program : pipeline.stages) names_.push_back(python_names(program.graph));
}

Files PackageWriter::stage_files() {
  Files out;
  for (int s = 0; s < pipeline_.stage_count(); ++s) {
    const StageText& text = texts_.emplace_back(text_of(s));
    out[module_of(s) + ".py"] = model_head(s, text) + text.text;
    functions_.insert(text.functions.begin(), text.functions.end());
  }
  out["program.py"] = program_text();
  return out;
}

Json PackageWriter::stage_json(int stage) const {
  Json out{{"module", module_of(stage)}};
  out.update(stage_data(pipeline_, stage, elements_, names_[at(stage)]));
  return out;
}

Json PackageWriter::call_of(const Element& e) const {
  const Item& item = e.item;
  const auto phase = [&] { return name_of(static_cast<Phase>(item.what)); };
  switch (item.act) {
    case Act::compute:
      return {"call", e.name, names(item.stage, e.reads), names(item.stage, e.makes),
              names(item.stage, e.dropped)};
    case Act::start: return start_of(e);
    case Act::finish: return finish_of(item);
    case Act::hand_out: return {"hand_out", phase()};
    case Act::replace: return {"replace", phase()};
    case Act::fill: return Json::array({"fill"});
    default: break;
  }
  return Json::array({"clear"});
}

std::string PackageWriter::module_of(int stage) const {
  return pipeline_.stage_count() == 1 ? "model" : fmt::format("model_{}", stage);
}

std::string PackageWriter::stage_suffix(int stage) const {
  return pipeline_.stage_count() == 1 ? "" : fmt::format(", stage {}", stage);
}

const std::string& PackageWriter::name(int stage, ValueId v) const { return names_[at(stage)][at(v.index)]; }

Json PackageWriter::names(int stage, const std::vector<ValueId>& values) const {
  Json out = Json::array();
  for (ValueId v : values) out.push_back(name(stage, v));
  return out;
}

Json PackageWriter::sections_json() const {
  Json out = Json::object();
  for (const auto& [key, list] : elements_.sections) {
    Json& section = out[section_name(pipeline_, key.first, key.second)] = Json::array();
    for (const Element& e : list) {
      Json call = call_of(e);
      if (call.is_null()) continue;
      call.push_back(e.item.stage);
      if (e.item.is_last) call.insert(call.begin(), "last");
      section.push_back(std::move(call));
    }
  }
  return out;
}

Json PackageWriter::tasks_json() const {
  Json out = Json::array();
  for (const std::vector<Item>& tasks : lists_.tasks) {
    Json group = Json::array();
    for (const Item& item : tasks) {
      const auto section = [&] { return section_name(pipeline_, item.stage, static_cast<Phase>(item.what)); };
      Json task = item.act == Act::run ? Json{"run", section(), item.is_last} : call_of({.item = item});
      if (task.is_null()) continue;
      task.push_back(item.stage);
      task.push_back(item.micro_batch);
      group.push_back(std::move(task));
    }
    out.push_back(std::move(group));
  }
  return out;
}

std::string PackageWriter::program_text() const {
  Json stages = Json::array();
  for (int s = 0; s < pipeline_.stage_count(); ++s) stages.push_back(stage_json(s));
  return fmt::format(
      "{}\n# What stages hold: leaves from step to step, inputs; scalars that come out; which leaf takes "
      "which value "
      "when.\nSTAGES = {}\n\n{}\n"
      "# Functions: name, what they read, what they make, what nobody reads behind them; the stage. `last`: "
      "of the "
      "last\n# micro-batch alone.\nSECTIONS = {}\n\n"
      "# By ranks on the same stages; behind each task its stage and micro-batch.\nTASKS = {}\n",
      program_head(pipeline_, plan_), python_lines(stages, 3), links_text(), python_lines(sections_json(), 2),
      python_lines(tasks_json(), 2));
}

}  // namespace shardwright::python

// A planned program as a package of Python, whatever engine runs it: its stages as modules, the step as data. What an engine
// does in its own way (lines, transfers) is the derived writer's.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shardwright/cost/cluster.h"
#include "shardwright/exchange/python/elements.h"
#include "shardwright/exchange/python/names.h"
#include "shardwright/plan/json_text.h"

namespace shardwright {

/// What a package says of itself.
struct EmittedPlan {
  std::string model;    // as it was called
  std::string summary;  // of the plan, a line
  std::string data;     // what it takes, as JSON; empty: inputs by their names, which must be given
  std::optional<Cluster> cluster = {};  // that it is planned for: traces tell the work of kernels by it
};

namespace python {

/// Texts by file name.
using Files = std::map<std::string, std::string>;
using PackageText = std::string_view (*)(std::string_view name);

/// Adds what is the same for all plans, and of `engine` its own `names`; operators.py with the functions that lines call.
void add_fixed_files(Files& files, PackageText engine, std::span<const char* const> names,
                     const std::map<std::string, std::string>& functions);

/// What program.py begins with: `"""...""" MODEL, RANKS, MICRO_BATCHES, DATA`.
std::string program_head(const Pipeline& pipeline, const EmittedPlan& plan);

/// Throws: Error if keys go round for some attention, which packages do not do.
void check_turns(const Pipeline& pipeline);

class PackageWriter {
 public:
  PackageWriter(const Pipeline& pipeline, const EmittedPlan& plan, Steps steps);
  virtual ~PackageWriter() = default;
  PackageWriter(const PackageWriter&) = delete;
  PackageWriter& operator=(const PackageWriter&) = delete;

 protected:
  /// All but the fixed files.
  Files stage_files();

  virtual StageText text_of(int stage) const = 0;
  /// A model's docstring, imports and what else stands before its functions.
  virtual std::string model_head(int stage, const StageText& text) const = 0;
  /// What a stage holds; with `module`.
  virtual Json stage_json(int stage) const;
  /// As a method of parallel.py and its arguments, without stage and micro-batch; null: nothing is done there.
  virtual Json call_of(const Element& e) const;
  virtual Json start_of(const Element& e) const = 0;
  virtual Json finish_of(const Item& item) const = 0;
  /// What goes between ranks, as program.py has it.
  virtual std::string links_text() const = 0;

  std::string module_of(int stage) const;
  /// `, stage 1` of several.
  std::string stage_suffix(int stage) const;
  const std::string& name(int stage, ValueId v) const;
  Json names(int stage, const std::vector<ValueId>& values) const;

  const Pipeline& pipeline_;
  const EmittedPlan& plan_;
  std::vector<RankStep> steps_;
  Elements elements_;
  TaskLists lists_;
  std::vector<std::vector<std::string>> names_;  // by stage and value
  std::map<std::string, std::string> functions_;
  std::vector<StageText> texts_;  // by stage

 private:
  Json sections_json() const;
  Json tasks_json() const;
  std::string program_text() const;
};

}  // namespace python
}  // namespace shardwright

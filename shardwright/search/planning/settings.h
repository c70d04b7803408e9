// Every setting there is, once: how a user says it, what it means, how it is read and written, and what it is about.
//
// All doors lead here. Flags, configuration files and saved plans give names and texts; these become a PlanRequest, and
// what a plan has decided is one, too, so that both can be compared. Help, the errors of flags, what is told of settings
// without effect and the table of docs/configuration.md are made of the rows of this table.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "shardwright/base/given.h"
#include "shardwright/search/planning/make_plan.h"

namespace shardwright {

/// What a setting is about: that says who heeds it, and whether a saved plan has decided it.
enum class SettingPart {
  machine,  // how many devices, and which
  order,    // in what mode, stages and micro-batches
  split,    // how operators, data and states are split: a planned graph says so itself
  step,     // how a step that is split so runs
  search,   // how a search works; only searches heed it
  memory,   // how much there is
  network,  // what the network is made of
  update    // how it is trained
};

struct SettingRow {
  std::string flag;   // `--devices`
  std::string value;  // what stands behind it in the help: `N`; empty: a switch
  std::string doc;
  SettingPart part = SettingPart::machine;
  std::string alias = {};   // another flag, or empty
  std::string key = {};     // of configuration files, with its section, where its value is that of the flag
  std::string keys = {};    // or those that say it together, as docs/configuration.md shows them
  std::string member = {};  // of plan files
  /// Has nothing to do where each stage has one device.
  bool is_of_many = false;
  std::optional<Setting> search = {};  // by which searches say that they have no use for it
  /// Throws: Error that says what it should be.
  std::function<void(PlanRequest&, const Given&)> parse;
  /// As the flag takes it; empty: it is not said. Without it, a plan does not keep the setting.
  std::function<std::string(const PlanRequest&)> print = {};
};

/// Rows of one part stand together, in the order of the parts; a row may rely on those before it.
std::span<const SettingRow> all_settings();
/// Nothing if no setting has this flag.
const SettingRow* setting_of(std::string_view flag);

/// What is said, one setting after the other: where two contradict each other, the error names both.
class SaidSettings {
 public:
  /// As `row.parse`.
  void parse(PlanRequest& request, const SettingRow& row, const Given& given);
  /// What `request` has of a file before.
  void add(const std::string& called, const Constraints& said);

 private:
  struct Said {
    std::string called;
    std::function<void(PlanRequest&)> parse;
  };
  std::vector<Said> said_;
};

/// What a plan is the answer to, as far as it keeps it.
PlanRequest request_of(const Plan& plan);

/// As --recompute takes it: the mode with what is unusual of its options, or without a mode the modules' names.
std::string to_text(const Recompute& recompute);

/// Why a setting has no effect on a plan for `request`; empty if it has one. `request` needs its machine and order.
std::string idle_reason(const SettingRow& row, const PlanRequest& request);

/// Adds what `given` says to what is said already. Throws: Error where both say it, and otherwise.
void add_said(PlanRequest& request, const Constraints& said, const Given& given);

/// Another precision. Without a word about it, the loss is scaled where gradients are fp16.
void set_precision(Origin& origin, const Precision& precision);

/// Rows that stand in files of their own (search_settings.cpp, memory_settings.cpp, training_settings.cpp).
std::vector<SettingRow> search_settings();
std::vector<SettingRow> memory_settings();
std::vector<SettingRow> network_settings();
std::vector<SettingRow> update_settings();

}  // namespace shardwright

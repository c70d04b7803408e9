// What a command line asks of planning: its flags, the keys of --config and what the plan of --plan has decided become
// one request. What was proven and estimated for a plan is what runs, so a flag may repeat what a plan says of its
// network but not say otherwise.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "shardwright/cli/verb.h"
#include "shardwright/frontend/assumed.h"
#include "shardwright/frontend/model.h"
#include "shardwright/frontend/planned_model.h"
#include "shardwright/search/planning/settings.h"

namespace shardwright {

/// A flag for each setting.
std::vector<Flag> setting_flags();

/// The plan that --plan names, read once for a command: another process may replace the file meanwhile.
/// Throws: Error as load_plan does.
const Plan& saved_plan(const Arguments& arguments);

/// What is asked, typed; annotations are those of the file, with patterns. Heeds no flag: who uses a part of it does.
/// Throws: Error if a value is none, or flags contradict each other.
PlanRequest asked_of(const Arguments& arguments);

/// Until when a command may search that --search-time gives so many seconds: one clock for all that it searches, and what
/// it tells of them.
Deadline deadline_of(const Arguments& arguments, std::optional<double> most_seconds);

/// These settings have their effect.
void heed(const Arguments& arguments, std::initializer_list<SettingPart> parts);

/// Tells which of the settings that are given have nothing to do in `request`.
/// Throws: Error if a flag is a setting of other searches, or of a search where there is none.
void tell_idle(const Arguments& arguments, const PlanRequest& request);

/// The settings that a saved plan has decided, by flag; of those, the ones that a planned graph says itself.
std::vector<std::string> decided_flags();
std::vector<std::string> splitting_flags();

/// What the network of MODEL is made of. Heeds no flag.
/// Throws: Error if a value is none, or a flag says otherwise than the plan.
Origin origin_of(const Arguments& arguments);

/// What `model`, made of `origin_of`, really is made of: a graph as text has its own sizes and types.
/// Throws: Error if a flag says otherwise.
Origin origin_of(const Arguments& arguments, const Model& model);

/// The optimizer of it. Throws: Error on a flag that the optimizer does not have.
OptimizerChoice optimizer_of(const Arguments& arguments, const Model& model);

/// A plan that is a file has been asked for as it is.
bool is_given_plan(const Arguments& arguments);

/// What nobody said of the network of `model`; of a saved plan nothing is assumed.
Assumed assumed_in(const Arguments& arguments, const Model& model);
/// For a verb that shows no report: what is assumed as on accelerators, a line.
void tell_assumed(const Arguments& arguments, const Model& model, bool is_trained = true);
void tell_assumed(const Arguments& arguments, const Assumed& assumed, const Origin& origin);

/// How much of each device's memory a plan may use.
struct MemoryCap {
  std::string flag;  // that says so
  std::int64_t bytes = 0;
};

/// The smaller of --memory-cap and --device-memory, or nothing without them.
std::optional<MemoryCap> memory_cap_of(const Arguments& arguments);

/// Gives the cluster of a saved plan what --memory-margin and --routing-imbalance say, if they are said.
void set_what_is_known(const Arguments& arguments, Cluster& cluster);

}  // namespace shardwright

#include "shardwright/cli/search_settings.h"

#include <algorithm>
#include <array>

#include "shardwright/base/quantity.h"
#include "shardwright/base/text.h"

namespace shardwright {
namespace {

struct SettingFlag {
  Setting setting;
  Flag flag;
};

const std::vector<SettingFlag>& settings() {
  static const std::vector<SettingFlag> table{
      {Setting::mem_coeff,
       {"--mem-coeff", "X", "above 0: higher shards weights, lower shards the batch (default 0.1)", ""}},
      {Setting::costs, {"--costs", "BY", "rank by seconds (default), or by symbolic costs", ""}},
      {Setting::order,
       {"--search-order", "ORDER", "of symbolic costs: topology, last to first; weight, heaviest first", ""}},
      {Setting::fold_layers, {"--fold-layers", "0|1", "plan repeated layers once (default 1)", ""}},
      {Setting::described, {"--described", "", "with the limits of the system that the seeds describe", ""}},
      {Setting::fully_use_devices,
       {"--fully-use-devices", "0|1", "strategies use all devices or none (default 0)", ""}},
      {Setting::elementwise_follow,
       {"--elementwise-follow", "0|1",
        "what reads a point-wise operator's result takes its split (default 0)", ""}},
      {Setting::log, {"--log-search", "", "each choice with its costs, on stderr", ""}}};
  return table;
}

/// One of `words`, by index; the first without the flag.
std::size_t word_of(const Arguments& arguments, const std::string& flag,
                    const std::vector<std::string>& words) {
  const auto it = std::find(words.begin(), words.end(), arguments.text(flag, words.front()));
  if (it == words.end()) throw error("{} {}: there are {}", flag, arguments.text(flag), join(words, ", "));
  return static_cast<std::size_t>(it - words.begin());
}

std::vector<std::string> searches_that_heed(Setting setting) {
  std::vector<std::string> out;
  for (const Searcher& search : all_search())
    if (heeds(search, setting)) out.push_back(search.name);
  return out;
}

/// A setting that would do nothing is the user's mistake. On one device there is nothing to search anyway.
void check_settings(const Arguments& arguments, const Searcher& search, Parallel mode) {
  if (mode == Parallel::stand_alone) return;
  for (const auto& [setting, flag] : settings()) {
    if (!arguments.has(flag.name)) continue;
    if (mode != Parallel::auto_parallel)
      throw error("{} is a setting of searches, but {} does not search", flag.name, name_of(mode));
    if (heeds(search, setting)) continue;
    const std::vector<std::string> others = searches_that_heed(setting);
    if (others.empty()) throw error("{} is no setting of search {}", flag.name, search.name);
    throw error("{} is of search {}, not {}", flag.name, join(others, ", "), search.name);
  }
}

}  // namespace

std::vector<Flag> search_flags() {
  std::vector<Flag> out;
  for (const SettingFlag& s : settings()) out.push_back(s.flag);
  out.push_back({"--memory-cap", "BYTES", "of each device that a plan may use, such as 60GB or 512MiB", ""});
  out.push_back({"--device-memory", "BYTES", "that each device has; as --memory-cap", ""});
  return out;
}

std::vector<std::string> setting_flags() {
  std::vector<std::string> out;
  for (const SettingFlag& s : settings()) out.push_back(s.flag.name);
  return out;
}

std::optional<MemoryCap> memory_cap_of(const Arguments& arguments) {
  std::optional<MemoryCap> least;
  for (const char* flag : {"--memory-cap", "--device-memory"}) {
    if (!arguments.has(flag)) continue;
    const auto bytes = to_bytes(arguments.text(flag));
    if (!bytes)
      throw error("{} {}: should be a number of bytes, such as 60GB, 512MiB or 4096", flag,
                  arguments.text(flag));
    if (!least || *bytes < least->bytes) least = {flag, *bytes};
  }
  return least;
}

SearchOptions search_options_of(const Arguments& arguments, const Searcher& search, Parallel mode) {
  SearchOptions out;
  if (const auto cap = memory_cap_of(arguments)) out.memory_cap = cap->bytes;
  check_settings(arguments, search, mode);
  out.mem_coeff = arguments.number("--mem-coeff", out.mem_coeff);
  if (out.mem_coeff <= 0)
    throw error("--mem-coeff {}: should be a number above 0", arguments.text("--mem-coeff"));
  constexpr std::array costs{Costs::seconds, Costs::symbolic};
  out.costs = costs[word_of(arguments, "--costs", {"seconds", "symbolic"})];
  if (arguments.has("--search-order")) {
    constexpr std::array orders{SearchOrder::topology, SearchOrder::weight};
    out.order = orders[word_of(arguments, "--search-order", {"topology", "weight"})];
  }
  out.fold_layers = word_of(arguments, "--fold-layers", {"1", "0"}) == 0;
  out.is_described = arguments.is_on("--described");
  out.fully_use_devices = word_of(arguments, "--fully-use-devices", {"0", "1"}) == 1;
  out.elementwise_follow = word_of(arguments, "--elementwise-follow", {"0", "1"}) == 1;
  out.writes_log = arguments.is_on("--log-search");
  return out;
}

}  // namespace shardwright

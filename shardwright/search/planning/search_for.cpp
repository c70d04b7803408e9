#include "shardwright/search/planning/search_for.h"

#include <algorithm>

#include "shardwright/search/planning/settings.h"

namespace shardwright {
namespace {

/// A setting that was said, or is not as it would be anyway.
bool is_asked(const SearchOptions& o, Setting setting) {
  const SearchOptions usual;
  const auto differs = [&](auto SearchOptions::*member) { return o.*member != usual.*member; };
  if (o.said.test(static_cast<std::size_t>(setting))) return true;
  switch (setting) {
    case Setting::costs: return differs(&SearchOptions::costs);
    case Setting::order: return differs(&SearchOptions::order);
    case Setting::mem_coeff: return differs(&SearchOptions::mem_coeff);
    case Setting::fold_layers: return differs(&SearchOptions::fold_layers);
    case Setting::described: return differs(&SearchOptions::is_described);
    case Setting::fully_use_devices: return differs(&SearchOptions::fully_use_devices);
    case Setting::elementwise_follow: return differs(&SearchOptions::elementwise_follow);
    case Setting::approximate: return differs(&SearchOptions::approximates);
    case Setting::approximation: return differs(&SearchOptions::approximation);
    case Setting::align_slices: return differs(&SearchOptions::aligns_slices);
    case Setting::slice_size: return differs(&SearchOptions::slice_size);
    case Setting::log: return differs(&SearchOptions::writes_log);
    case Setting::search_time: return o.most_seconds.has_value();
    case Setting::fix:
    case Setting::auto_pipeline: break;  // without a member
  }
  return false;
}

/// The settings that are asked for and `search` has no use for, by flag: `--costs, --mem-coeff`.
std::string ignored_by(const Searcher& search, const SearchOptions& options) {
  std::vector<std::string> out;
  for (const SettingRow& row : all_settings())
    if (row.search && !heeds(search, *row.search) && is_asked(options, *row.search)) out.push_back(row.flag);
  return join(out, ", ");
}

/// The first that splits operators only, with all settings that are asked for.
const Searcher* splitting(const SearchOptions& options) {
  for (const Searcher* s : searches_by_preference())
    if (!s->plan && ignored_by(*s, options).empty()) return s;
  return nullptr;
}

}  // namespace

std::string_view fixed_singly(const Constraints& c) {
  if (!c.tensors.empty()) return "annotations fix single operators";
  if (c.dataset) return "a dataset strategy fixes how data are split";
  return c.stages.empty() ? "" : "annotations say which operators a stage has";
}

SearchChoice search_for(const PlanRequest& request) {
  if (!request.search.empty()) return {&find_search(request.search), ""};
  if (request.devices == 1 || request.is_set) return {&splitting_search(), ""};  // there is nothing to split
  const Searcher& usual = usual_search();
  std::string why = ignored_by(usual, request.options);
  if (!why.empty()) why = fmt::format("search {} has no use for {}", usual.name, why);
  if (why.empty()) why = fixed_singly(request.constraints);
  const Searcher* other = why.empty() ? nullptr : splitting(request.options);
  if (!other) return {&usual, ""};  // or no search takes it all, which whoever reads settings says
  return {other, std::move(why)};
}

std::optional<PlanRequest> instead_of_auto(const PlanRequest& request) {
  const Searcher* other = request.search.empty() ? splitting(request.options) : nullptr;
  const bool orders_stages = request.constraints.schedule && !request.constraints.degrees.said("pp");
  if (!other || orders_stages) return std::nullopt;
  PlanRequest out = request;
  out.search = other->name;
  return out;
}

Constraints fixed_by(const PlanRequest& request) {
  Constraints out = request.constraints;
  if (request.auto_pipeline == false) out.degrees.set("pp", stage_count(out));
  if (request.auto_pipeline == true) out.degrees.set("pp", std::nullopt);  // they are the most
  if (out.degrees.said("pp") == 1) out.schedule.reset();                   // it would order nothing
  if (!out.recomputed.empty() && !out.recompute) out.recompute = RecomputeMode::none;  // beside the modules
  return out;
}

std::string notice_of(std::string_view why, const Searcher& search) {
  return fmt::format("{}; search {} plans instead", why, search.name);
}

}  // namespace shardwright

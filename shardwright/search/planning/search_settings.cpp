// How a search works: rows of the table of settings, by which searches say what they heed.

#include <array>

#include "shardwright/search/planning/settings.h"

namespace shardwright {
namespace {

SettingRow of_search(Setting setting, std::string flag, std::string value, std::string doc,
                     std::function<void(SearchOptions&, const Given&)> parse, std::string key = "") {
  return {.flag = std::move(flag),
          .value = std::move(value),
          .doc = std::move(doc),
          .part = SettingPart::search,
          .key = std::move(key),
          .is_of_many = true,
          .search = setting,
          .parse = [parse = std::move(parse), setting](PlanRequest& r, const Given& given) {
            parse(r.options, given);
            r.options.said.set(static_cast<std::size_t>(setting));
          }};
}

/// By `0` or `1`.
std::function<void(SearchOptions&, const Given&)> switched(bool SearchOptions::*member) {
  return [member](SearchOptions& o, const Given& given) {
    constexpr std::array<std::string_view, 2> words{"0", "1"};
    o.*member = given.word(words) == 1;
  };
}

/// By a flag without a value.
std::function<void(SearchOptions&, const Given&)> turned_on(bool SearchOptions::*member) {
  return [member](SearchOptions& o, const Given&) { o.*member = true; };
}

/// Adds what --fix says to what flags of its own have fixed.
void fix(PlanRequest& r, const Given& given) {
  const Constraints said = parse_constraints(given);
  if (said.global_batch) throw given.wrong("global_batch is not searched; give --global-batch");
  r.options.said.set(static_cast<std::size_t>(Setting::fix));
  if (r.is_set || r.parallel != Parallel::auto_parallel) return;  // nothing is searched, which others say
  add_said(r, said, given);
  // Which leaves --auto-pipeline none to choose.
  if (said.degrees.said("pp")) r.options.said.set(static_cast<std::size_t>(Setting::auto_pipeline));
}

/// 1 takes what --stages says as the most.
void set_auto_pipeline(PlanRequest& r, const Given& given) {
  constexpr std::array<std::string_view, 2> words{"0", "1"};
  r.auto_pipeline = given.word(words) == 1;
  const auto fixed = r.constraints.degrees.said("pp");
  const bool is_exact = r.options.said.test(static_cast<std::size_t>(Setting::auto_pipeline));
  if (*r.auto_pipeline && fixed && (is_exact || fixed == 1))
    throw given.wrong(fmt::format("there should be {}, as --stages or --fix pp says; leave one out",
                                  fixed == 1 ? "1 stage" : fmt::format("{} stages", *fixed)));
}

}  // namespace

std::vector<SettingRow> search_settings() {
  return {SettingRow{.flag = "--fix",
                     .value = "KEY=VALUE,...",
                     .doc = "fixes some of a plan, search auto chooses the rest: dp, tp, pp, micro_batch, "
                            "micro_batches, zero, recompute, schedule, sequence_parallel, overlap_tensor",
                     .part = SettingPart::search,
                     .is_of_many = true,
                     .search = Setting::fix,
                     .parse = fix},
          SettingRow{.flag = "--auto-pipeline",
                     .value = "0|1",
                     .doc = "1: search auto chooses stages, at most --stages; 0: it keeps these (default 1) "
                            "and suggests others (default: 1 without --stages, 0 in files)",
                     .part = SettingPart::search,
                     .key = "parallel.auto_pipeline",
                     .is_of_many = true,
                     .search = Setting::auto_pipeline,
                     .parse = set_auto_pipeline},
          of_search(Setting::search_time, "--search-time", "SECONDS",
                    "after so long auto, dynamic and integer end with the best plan so far; 0: with the "
                    "first",
                    [](SearchOptions& o, const Given& given) {
                      o.most_seconds = given.number();
                      if (!(*o.most_seconds >= 0)) throw given.wrong("should be a number of seconds");
                    }),
          of_search(
              Setting::mem_coeff, "--mem-coeff", "X",
              "above 0: higher shards weights, lower shards the batch (default 0.1)",
              [](SearchOptions& o, const Given& given) {
                o.mem_coeff = given.number();
                if (o.mem_coeff <= 0) throw given.wrong("should be a number above 0");
              },
              "parallel_config.mem_coeff"),
          of_search(Setting::costs, "--costs", "BY", "rank by seconds (default), or by symbolic costs",
                    [](SearchOptions& o, const Given& given) {
                      constexpr std::array<std::string_view, 2> words{"seconds", "symbolic"};
                      o.costs = std::array{Costs::seconds, Costs::symbolic}[given.word(words)];
                    }),
          of_search(Setting::order, "--search-order", "ORDER",
                    "of symbolic costs: topology, last to first; weight, heaviest first",
                    [](SearchOptions& o, const Given& given) {
                      constexpr std::array<std::string_view, 2> words{"topology", "weight"};
                      o.order = std::array{SearchOrder::topology, SearchOrder::weight}[given.word(words)];
                    }),
          of_search(Setting::fold_layers, "--fold-layers", "0|1", "plan repeated layers once (default 1)",
                    switched(&SearchOptions::fold_layers)),
          of_search(Setting::described, "--described", "",
                    "keep to the limits of MindSpore's search (recursive, and dynamic with "
                    "--costs symbolic)",
                    turned_on(&SearchOptions::is_described)),
          of_search(Setting::fully_use_devices, "--fully-use-devices", "0|1",
                    "strategies use all devices or none (default 0)",
                    switched(&SearchOptions::fully_use_devices), "parallel.fully_use_devices"),
          of_search(Setting::elementwise_follow, "--elementwise-follow", "0|1",
                    "what reads a point-wise operator's result takes its split (default 0)",
                    switched(&SearchOptions::elementwise_follow), "parallel.elementwise_op_strategy_follow"),
          of_search(Setting::approximate, "--approximate", "0|1",
                    "look at only some strategies of each operator, the cheapest by themselves (default 0)",
                    switched(&SearchOptions::approximates), "parallel.enable_algo_approxi"),
          of_search(
              Setting::approximation, "--approximation", "X",
              "of --approximate 1, in (0, 1]: 1 / X strategies of an operator (default 0.1)",
              [](SearchOptions& o, const Given& given) {
                o.approximation = given.number();
                if (o.approximation <= 0 || o.approximation > 1)
                  throw given.wrong("should be a number above 0, and 1 at most");
              },
              "parallel.algo_approxi_epsilon"),
          of_search(Setting::align_slices, "--align-slices", "0|1",
                    "of each part of a tensor the last two dims are multiples of --slice-size (default 0)",
                    switched(&SearchOptions::aligns_slices), "parallel.tensor_slice_align_enable"),
          of_search(
              Setting::slice_size, "--slice-size", "N", "of --align-slices 1 (default 16)",
              [](SearchOptions& o, const Given& given) { o.slice_size = given.integer(); },
              "parallel.tensor_slice_align_size"),
          of_search(Setting::log, "--log-search", "", "each choice with its costs, on stderr",
                    turned_on(&SearchOptions::writes_log))};
}

}  // namespace shardwright

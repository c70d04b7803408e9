#include "shardwright/search/planning/settings.h"

#include <algorithm>
#include <array>
#include <utility>

#include "shardwright/base/quantity.h"
#include "shardwright/base/text.h"
#include "shardwright/plan/optimizer_parallel.h"
#include "shardwright/plan/set_words.h"
#include "shardwright/search/planning/search_for.h"

namespace shardwright {
namespace {

using Rows = std::vector<SettingRow>;

std::string number(std::int64_t n) { return fmt::format("{}", n); }

std::string names_of_searches() {
  std::vector<std::string> out;
  for (const Searcher& search : all_search()) out.push_back(search.name);
  return join(out, ", ");
}

std::string names_of_frameworks() {
  std::vector<std::string> out;
  for (const Framework& framework : frameworks()) out.push_back(framework.name);
  return join(out, ", ");
}

Rows of_machine() {
  return {
      {.flag = "--cluster",
       .value = "C",
       .doc =
           "the machine: PRESET:N, PRESET:NODESxPER_NODE or a YAML file (see clusters; default: cpu:DEVICES)",
       .member = "cluster",
       .parse =
           [](PlanRequest& r, const Given& given) {
             r.cluster = cluster_called(given.text);
             r.devices = r.cluster->devices();
           }},
      {.flag = "--devices",
       .value = "N",
       .doc = "number of devices",
       .key = "parallel.device_num",
       .member = "devices",
       .parse = [](PlanRequest& r,
                   const Given& given) { r.devices = static_cast<int>(given.integer(1, most_devices)); },
       .print = [](const PlanRequest& r) { return number(r.devices); }}};
}

Rows of_order() {
  return {
      {.flag = "--parallel",
       .value = "MODE",
       .doc = "stand_alone, data_parallel, semi_auto_parallel or auto_parallel",
       .part = SettingPart::order,
       .keys = "`parallel.parallel_mode`: 0 data_parallel, 1 semi_auto_parallel, 2 auto_parallel, or the "
               "name; `use_parallel: False` is stand_alone",
       .member = "parallel",
       .parse = [](PlanRequest& r, const Given& given) { r.parallel = parallel_called(given.text); },
       .print = [](const PlanRequest& r) { return std::string(name_of(r.parallel)); }},
      {.flag = "--stages",
       .value = "N",
       .doc = "pipeline stages, each on its part of the devices",
       .part = SettingPart::order,
       .keys = "`parallel_config.pipeline_stage`, `parallel.pipeline_stages`",
       .member = "stage_plans",
       .parse =
           [](PlanRequest& r, const Given& given) {
             r.constraints.degrees.set("pp", static_cast<int>(given.integer(1, most_devices)));
           },
       .print = [](const PlanRequest& r) { return number(stage_count(r.constraints)); }},
      {.flag = "--micro-batches",
       .value = "COUNT",
       .doc = "parts of the batch that run through the stages, or on one stage one after the other, "
              "their gradients added up (default: as many as stages)",
       .part = SettingPart::order,
       .alias = "--accumulate",
       .keys = "of stages `parallel_config.micro_batch_num`; of one `gradient_accumulation_steps` of the "
               "file, of `runner_config` or `parallel_config`",
       .member = "micro_batches",
       .parse =
           [](PlanRequest& r, const Given& given) {
             r.constraints.micro_batches = static_cast<int>(given.integer(1, most_micro_batches));
           },
       .print = [](const PlanRequest& r) { return number(settings_of(r).pipelining.micro_batches); }},
      {.flag = "--micro-batch-interleave",
       .value = "N",
       .doc = "parts of each micro-batch that run side by side: the communication of one beside the "
              "computation of another (default 1)",
       .part = SettingPart::order,
       .keys = "`micro_batch_interleave_num` of the file, of `runner_config` or `parallel_config`",
       .member = "micro_batch_interleave",
       .parse =
           [](PlanRequest& r, const Given& given) {
             r.constraints.interleave = static_cast<int>(given.integer(1, most_micro_batches));
           },
       .print = [](const PlanRequest& r) { return number(settings_of(r).pipelining.interleave); }},
      {.flag = "--overlap-tensor",
       .value = "",
       .doc = "cut products whose operand is gathered, or whose result is added up, by rows: what one piece "
              "sends goes on beside the product of another (`auto` does so where it is faster)",
       .part = SettingPart::order,
       .member = "overlap_tensor",
       .is_of_many = true,
       .parse = [](PlanRequest& r, const Given&) { r.constraints.overlap_tensor = true; },
       .print = [](const PlanRequest& r) { return settings_of(r).overlap_tensor ? "1" : ""; }},
      {.flag = "--schedule",
       .value = "NAME",
       .doc = "order of micro-batches in stages: gpipe, 1f1b (default), interleaved:V (V chunks per stage), "
              "zero-bubble[:2], zb-v, v-half, v-min, dualpipe-v, or FILE.csv, a table of tasks as PyTorch's "
              "pipelining has them",
       .part = SettingPart::order,
       .keys = "of several stages `parallel.pipeline_config.pipeline_scheduler`; with `pipeline_interleave` "
               "there, "
               "`model.model_config.pp_interleave_num` chunks",
       .member = "schedule",
       .parse = [](PlanRequest& r,
                   const Given& given) { r.constraints.schedule = schedule_given(given.text); },
       .print = [](const PlanRequest& r) { return to_text(settings_of(r).pipelining.schedule); }}};
}

Error disagreement(const Given& given, const Conflict& c, std::string_view other) {
  return given
      .wrong(fmt::format("{}={} is said, but {} says {}={}; leave one out", c.key, c.wanted, other, c.key,
                         c.given))
      .between(c);
}

void check_agrees(const PlanRequest& r, const Constraints& said, const Given& given) {
  if (const auto c = conflict_of(r.constraints, said)) throw disagreement(given, *c, "something else");
}

/// Of degrees that are left out there is 1. Samples and devices are for flags to say (cli/set_flags.h).
void set_all(PlanRequest& r, const Given& given) {
  PlanWords words = parse_set(given);
  Constraints& said = words.said;
  if (said.recompute.value_or(Again{}).layers)
    throw error(
        "{} recompute={}: a search chooses how many layers, so that is for --fix; --set takes none, selected "
        "or full",
        given.called, constraint_word("recompute").print(said, "recompute"));
  check_agrees(r, said, given);
  for (const auto& [name, split] : said.operators)
    if (r.constraints.tensors.contains(name))
      throw given.wrong(fmt::format("{}={} is said, but an annotation splits it, too; leave one out", name,
                                    to_text(split)));
  for (const DegreeKind& kind : degree_kinds)
    if (kind.of != Sharing::stages && kind.missing.empty() && !kind.is_rare)
      said.degrees.set(kind.name, said.degrees.of(kind.name));
  said.sequence_parallel = said.sequence_parallel.value_or(false);
  if (said.degrees.of("pp") == 1) said.schedule.reset();  // it would order nothing
  said.micro_batch.reset();
  said.global_batch.reset();
  r.constraints = merged(std::move(r.constraints), said);
  r.stage_layers = std::move(words.stage_layers);
  r.layers_again = std::move(words.again);
  r.is_set = true;
}

void set_optimizer_parallel(PlanRequest& r, const Given& given) {
  const OptimizerParallel asked = parse_optimizer_parallel(given);
  Constraints said = constraints_of({.optimizer_parallel = asked});
  said.zero.reset();  // the level of a flag counts
  if (given.text.find("threshold=") != given.text.npos)
    said.zero_threshold = asked.threshold;  // usual or not
  if (given.text.find("group=") != given.text.npos) said.zero_group = asked.group;
  check_agrees(r, said, given);
  said.zero = asked.level;
  r.constraints = merged(std::move(r.constraints), said);
}

/// What annotations say of modules counts for these.
void set_recompute(PlanRequest& r, const Given& given) {
  const Recompute asked = parse_recompute(given.text);
  for (const RecomputedModule& m : asked.modules)
    if (std::ranges::count(asked.modules, m.module, &RecomputedModule::module) > 1)
      throw error("recompute of '{}' is said twice", m.module);
  Constraints& c = r.constraints;
  c = merged(constraints_of({.recompute = asked}), c);
  c.recompute = asked.mode;
  const auto says = [&](std::string_view option) { return given.text.find(option) != given.text.npos; };
  if (says(":communication=") || says(",communication="))
    c.recompute_communication = asked.options.communication;
  if (says(":shard_kept=") || says(",shard_kept=")) c.recompute_shard_kept = asked.options.shard_kept;
}

Rows of_split() {
  return {
      {.flag = "--set",
       .value = "KEY=VALUE,...",
       .doc =
           "fixes the whole plan: dp, tp, pp, stage_layers, micro_batch, micro_batches, global_batch, zero, "
           "optimizer_instances, recompute, recompute_layers, recompute_together, schedule, and more",
       .part = SettingPart::split,
       .parse = set_all},
      {.flag = "--search",
       .value = "NAME",
       .doc = "search of auto_parallel: " + names_of_searches() + " (default auto, where it can)",
       .part = SettingPart::split,
       .key = "parallel.search_mode",
       .member = "search",
       .is_of_many = true,
       .parse = [](PlanRequest& r, const Given& given) { r.search = find_search(given.text).name; },
       .print = [](const PlanRequest& r) { return r.search; }},
      {.flag = "--dataset-strategy",
       .value = "S",
       .doc = "full_batch, data_parallel or splits such as ((4,1),(4,))",
       .part = SettingPart::split,
       .keys = "`parallel.dataset_strategy`: a word, or `[[4, 1], [4]]`; `parallel.full_batch: True` is "
               "full_batch, `False` data_parallel",
       .is_of_many = true,
       .parse = [](PlanRequest& r,
                   const Given& given) { r.constraints.dataset = parse_dataset(given.text); }},
      {.flag = "--optimizer-parallel",
       .value = "LEVEL[:threshold=BYTES,group=G]",
       .doc =
           "shard over replicas, or G of them: 1 state, 2 + gradients, 3 + weights; not what is below 64KiB",
       .part = SettingPart::split,
       .keys = "`parallel.enable_parallel_optimizer`, `parallel_config.optimizer_shard`: level 1; of "
               "`parallel.parallel_optimizer_config` `optimizer_level: level1`, `level2`, `level3`, "
               "`gradient_accumulation_shard`: level 2, `parallel_optimizer_threshold` in KiB, "
               "`optimizer_weight_shard_size`: G (-1 is what there is without the key)",
       .member = "zero, zero_threshold, zero_group",
       .is_of_many = true,
       .parse = set_optimizer_parallel,
       .print = [](const PlanRequest& r) { return to_text(settings_of(r).optimizer_parallel); }}};
}

Rows of_step() {
  return {
      {.flag = "--comm-fusion",
       .value = "WHICH",
       .doc = "collectives that run as one: auto, none, size:MB, index:I,J,... or COLLECTIVE=...;...",
       .part = SettingPart::step,
       .keys = "`parallel.comm_fusion`: `allreduce`, `allgather`, `reducescatter` with `mode` and `config`, "
               "`openstate: False` is none; `parallel.all_reduce_fusion_config: [20, 35]` is index:20,35",
       .member = "comm_fusion",
       .is_of_many = true,
       .parse = [](PlanRequest& r,
                   const Given& given) { r.constraints.comm_fusion = parse_comm_fusion(given.text); },
       .print = [](const PlanRequest& r) { return to_text(settings_of(r).comm_fusion); }},
      {.flag = "--recompute",
       .value = "WHAT",
       .doc = "compute again in the backward: none, selected, full, MODULE,... or selected+MODULE,...",
       .part = SettingPart::step,
       .keys = "`recompute`, `select_recompute` of `recompute_config` or `parallel_config`: full, selected "
               "(a list of layers counts as none, and is told); of `recompute_config` `mp_comm_recompute` "
               "(of full) and `select_comm_recompute`: "
               "communication=, `recompute_slice_activation`: shard_kept=",
       .member = "recompute",
       .parse = set_recompute,
       .print = [](const PlanRequest& r) { return to_text(settings_of(r).recompute); }},
      {.flag = "--offload",
       .value = "WHAT,...",
       .doc = "keep in memory of the host: optimizer[:R], parameters[:R], activations[:R], a share R of them "
              "(default 1) or one for each stage (1/0.5/0), or OPERATOR, which then runs there; none",
       .part = SettingPart::step,
       .member = "offload",
       .parse =
           [](PlanRequest& r, const Given& given) {
             const Given value{given.called, "{" + given.text + "}"};
             constraint_word("offload").read(r.constraints, "offload", value);
           },
       .print = [](const PlanRequest& r) { return to_text(settings_of(r).offload); }},
      {.flag = "--framework",
       .value = "NAME",
       .doc =
           "count memory as this framework takes it: " + names_of_frameworks() + " (default ours: the arena)",
       .part = SettingPart::step,
       .member = "framework",
       .parse = [](PlanRequest& r,
                   const Given& given) { r.constraints.framework = framework_called(given.text).name; },
       .print = [](const PlanRequest& r) { return settings_of(r).framework; }}};
}

/// What of `request` contradicts what is given.
std::optional<Conflict> conflict_in(const SettingRow& row, PlanRequest request, const Given& given) {
  try {
    row.parse(request, given);
  } catch (const Error& e) {
    return e.conflict();
  }
  return std::nullopt;
}

}  // namespace

void SaidSettings::parse(PlanRequest& request, const SettingRow& row, const Given& given) {
  const PlanRequest before = request;
  try {
    row.parse(request, given);
  } catch (const Error& e) {
    if (!e.conflict()) throw;
    for (const Said& other : said_) {  // by itself
      PlanRequest alone = before;
      alone.constraints = {};
      other.parse(alone);
      if (const auto c = conflict_in(row, alone, given); c && c->key == e.conflict()->key)
        throw disagreement(given, *c, other.called);
    }
    throw;
  }
  said_.push_back({given.called, [&row, given](PlanRequest& r) { row.parse(r, given); }});
}

void SaidSettings::add(const std::string& called, const Constraints& said) {
  said_.push_back(
      {called, [said](PlanRequest& r) { r.constraints = merged(std::move(r.constraints), said); }});
}

void add_said(PlanRequest& request, const Constraints& said, const Given& given) {
  check_agrees(request, said, given);
  request.constraints = merged(std::move(request.constraints), said);
}

std::string to_text(const Recompute& recompute) {
  std::vector<std::string> modules;
  for (const RecomputedModule& m : recompute.modules) modules.push_back(m.module);
  if (recompute.mode == RecomputeMode::none && !modules.empty()) return join(modules, ",");
  std::string out(name_of(recompute.mode));
  if (!modules.empty()) out += "+" + join(modules, ",");
  const RecomputeOptions usual = default_options(recompute.mode);
  char separator = ':';
  for (const auto& [name, member] : {std::pair("communication", &RecomputeOptions::communication),
                                     {"shard_kept", &RecomputeOptions::shard_kept}})
    if (recompute.options.*member != usual.*member)
      out += fmt::format("{}{}={}", std::exchange(separator, ','), name, recompute.options.*member);
  return out;
}

std::span<const SettingRow> all_settings() {
  static const Rows table = [] {
    Rows out;
    for (const Rows& part : {of_machine(), of_order(), of_split(), of_step(), search_settings(),
                             memory_settings(), network_settings(), update_settings()})
      out.insert(out.end(), part.begin(), part.end());
    return out;
  }();
  return table;
}

const SettingRow* setting_of(std::string_view flag) {
  for (const SettingRow& row : all_settings())
    if (row.flag == flag) return &row;
  return nullptr;
}

PlanRequest request_of(const Plan& plan) {
  return {.model = plan.model,
          .origin = plan.origin,
          .devices = plan.devices(),
          .cluster = plan.cluster,
          .parallel = parallel_called(plan.parallel),
          .search = plan.search,
          .constraints = constraints_of(plan.settings)};
}

std::string idle_reason(const SettingRow& row, const PlanRequest& request) {
  const bool is_open = chooses_structure(request);
  const int stages =
      is_open ? fixed_by(request).degrees.said("pp").value_or(0) : stage_count(request.constraints);
  // A search of whole plans has more to choose than how devices share a stage.
  const bool is_of_search = is_open && (row.part == SettingPart::search || row.flag == "--search");
  if (row.is_of_many && !is_of_search && (request.devices == 1 || request.devices == stages))
    return request.devices == 1 ? "there is 1 device" : "each stage has 1 device";
  if (row.flag == "--dataset-strategy" && request.is_set) return "--set says how the data are split";
  if (row.flag == "--schedule" && stages == 1) return "there is one stage";
  if (row.flag == "--memory-margin" && request.options.memory_cap) return "a cap says what a plan may use";
  if (row.part != SettingPart::search && row.flag != "--search") return "";
  if (request.parallel != Parallel::auto_parallel)
    return fmt::format("{} does not search", name_of(request.parallel));
  const Searcher& search = *search_for(request).search;
  if (row.search && !heeds(search, *row.search))
    return fmt::format("search {} has no use for it", search.name);
  if (row.search == Setting::order && request.options.costs != Costs::symbolic &&
      !request.options.is_described)
    return "--costs is not symbolic";
  if (row.search == Setting::approximation && !request.options.approximates) return "--approximate is not 1";
  if (row.search == Setting::slice_size && !request.options.aligns_slices) return "--align-slices is not 1";
  return "";
}

}  // namespace shardwright

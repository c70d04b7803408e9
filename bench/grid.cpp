// Whether `--search auto` is as good as everything that `--set` takes: of a model, a cluster and the samples of a step the
// plan of `auto` beside the best of
//
//   what is usual, structures drawn at random, and the neighbours of the best ones (tests/support/structures.h): best first, until
//   time is up, but at least to where no neighbour is better
//
// each made into a program and simulated. What by `Least` is no better than the best needs no program, whatever auto
// thinks of it; that this is so is checked by every program that is made.
//
//   scripts/bench.sh grid [all | MODEL [CLUSTER [BATCH]] | drawn [N]] [--random N] [--seconds S] [--loss NAME] [--seed S]
//
// Without a word two rows, with `all` those of seed 003's nine models on 8, 64 and 512 devices of three kinds, and some more:
// an hour.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <ranges>
#include <set>

#include "bench/harness/drawn_case.h"
#include "bench/harness/measure.h"
#include "shardwright/autodiff/train_step.h"
#include "shardwright/base/given.h"
#include "shardwright/base/text.h"
#include "shardwright/frontend/model.h"
#include "shardwright/graph/op.h"
#include "shardwright/passes/compile.h"
#include "shardwright/runtime/backend/backend.h"
#include "shardwright/search/automatic/candidates.h"
#include "shardwright/search/automatic/structure.h"
#include "shardwright/simulate/evaluate.h"
#include "tests/support/structures.h"

namespace shardwright {
namespace {

using namespace automatic;

struct Effort {
  int random = 20;
  double seconds = 30;  // but neighbours of the best are all looked at
  bool tells_forecasts = false;
};

PlanRequest request_for(const PlanCase& c) {
  PlanRequest out{.model = c.model, .cluster = c.cluster, .search = "auto"};
  out.devices = out.cluster->devices();
  out.formats = default_devices().formats;
  if (!c.framework.empty()) out.constraints = parse_constraints({"grid", "framework=" + c.framework});
  if (c.keeps_batch) out.kept_micro_batches = 1;
  out.options.writes_log = true;
  out.verifies = false;  // as in commands
  return out;
}

/// What no program undercuts, whatever its structure: products at the devices' peak with the bubble of a pipeline, and
/// bytes that last in as many parts as there can be.
struct Least {
  double seconds = 0;  // of a step's products, all devices at their peak
  double parameters = 0, states = 0;

  /// A stage s computes M t_s, after the first passes of those in front of it and before their last: T = M t_s + sum of
  /// t_i, i < s, is least where all are equal, and then all of it / (1 - (1 - 1/M)^S) / M. Of chunks the first may be tiny.
  double step_seconds(const Constraints& s) const {
    const Pipelining p = pipelining_of(s);
    const double all = seconds * p.stages, count = p.micro_batches;
    return p.schedule.chunks > 1 ? seconds : all / count / (1 - std::pow(1 - 1 / count, p.stages));
  }
  double bytes(const Constraints& s) const {
    const double parts = shards_of(s) * stages_of(s), data = replicas_of(s);
    return (parameters / (level_of(s) > 2 ? data : 1) + states / (level_of(s) > 0 ? data : 1)) / parts;
  }
};

/// A structure as a program.
struct Made {
  Constraints structure;
  Evaluation evaluation;

  double seconds() const { return evaluation.estimate.step_seconds(); }
  double bytes() const { return static_cast<double>(evaluation.estimate.arena_bytes); }
};

struct Outcome {
  bool is_behind = false, is_bound_broken = false;
  double ratio = 1;  // of auto's seconds to the best
};

class Grid {
 public:
  Grid(const PlanCase& c, const Effort& effort) : case_(c), effort_(effort), request_(request_for(c)) {}

  Outcome run(const Table& table) {
    const Plan plan = make_plan([this](int m) { return step(m); }, request_);
    auto_ = judged(plan);
    set_least();
    collect(plan);
    const double start = seconds_now();
    look_at(space_.usual(), start + effort_.seconds / 3);
    look_at(drawn(), start + effort_.seconds / 2);
    expand(start + effort_.seconds);
    return tell(table, plan);
  }

 private:
  Graph step(int micro_batches) const {
    Model m = build_model(case_.model, {.global_batch = case_.batch,
                                        .precision = *precision_called(case_.precision),
                                        .loss = case_.loss,
                                        .micro_batches = micro_batches});
    add_train_step(m.graph, m.loss, {.name = "adamw"});
    return std::move(m.graph);
  }

  const Graph& graph(int micro_batches) {
    const auto [it, is_new] = graphs_.try_emplace(micro_batches);
    if (is_new) it->second = step(micro_batches);
    return it->second;
  }

  Evaluation judged(const Plan& plan) {
    const CompileOptions options{.formats = request_.formats, .verifies = false};
    return evaluate(compile_pipeline(graph(plan.settings.pipelining.micro_batches), plan, options),
                    *request_.cluster, {.framework = plan.settings.framework});
  }

  void set_least() {
    const Graph& whole = graph(1);
    PlanRequest alone{.cluster = request_.cluster->part(0, 1), .parallel = Parallel::stand_alone};
    alone.formats = request_.formats;
    const Plan plan = make_plan(whole, alone);
    const Estimate e = estimate(
        compile_pipeline(whole, plan, {.formats = request_.formats, .verifies = false}), *alone.cluster);
    least_ = {.seconds = e.peak_seconds / request_.devices,
              .parameters = static_cast<double>(e.parameter_bytes),
              .states = static_cast<double>(e.state_bytes)};
  }

  /// All structures that auto may choose.
  void collect(const Plan& plan) {
    space_ = {request_.devices, case_.batch};
    for (int m = 1; m <= (case_.keeps_batch ? 1 : std::min<std::int64_t>(case_.batch, most_micro_batches));
         ++m)
      if (case_.batch % m == 0) space_.counts.push_back(m);
    structures_ = automatic::structures_of(request_, {case_.batch, space_.counts});
    read_log(plan);
  }

  /// What auto has tried, and which it has chosen: the log tells both.
  void read_log(const Plan& plan) {
    std::map<std::string, const Constraints*> called;
    for (const Constraints& s : structures_) called[structure_text(s)] = &s;
    double least = HUGE_VAL;
    for (const std::string& line : plan.log) {
      const std::size_t end = line.find(": simulated ");
      if (end == line.npos) continue;
      const auto it = called.find(line.substr(0, end));
      const double seconds = std::stod(line.substr(end + std::string_view(": simulated ").size()));
      if (it != called.end()) look_at(*it->second);
      if (line.ends_with("fit") && auto_.fits()) continue;
      if (seconds >= least) continue;
      least = seconds;
      chosen_ = line.substr(0, end);
    }
  }

  // ---- looking ----

  bool is_better_than_best(const Constraints& s) const {
    const auto cap = static_cast<double>(auto_.cap_bytes);
    if (best_ && best_->evaluation.fits())
      return least_.bytes(s) <= cap && least_.step_seconds(s) < best_->seconds();
    return !best_ || least_.bytes(s) < best_->bytes();
  }

  /// As --set has it: nothing where a dim does not divide.
  void look_at(const Constraints& s) {
    if (!seen_.insert(structure_text(s)).second || !is_better_than_best(s)) return;
    try {
      PlanRequest asked = with_structure(request_, s);
      asked.parallel = Parallel::semi_auto_parallel;
      asked.options.writes_log = false;
      const Graph& whole = graph(*s.micro_batches);
      made_.push_back({s, judged(make_plan(whole, asked))});
    } catch (const Error&) {
      return;
    }
    const Made& made = made_.back();
    require(made.seconds() >= 0.999 * least_.step_seconds(s) && made.bytes() >= 0.999 * least_.bytes(s),
            "{} takes {} s and {} bytes, less than {} and {}", structure_text(s), made.seconds(),
            made.bytes(), least_.step_seconds(s), least_.bytes(s));
    if (made.evaluation.fits()) fastest_ = std::min(fastest_, made.seconds());
    if (!best_ || is_better(made.evaluation, best_->evaluation)) best_ = made;
  }

  void look_at(const std::vector<Constraints>& all, double end) {
    for (const Constraints& s : all)
      if (seconds_now() < end) look_at(s);
  }

  std::vector<Constraints> drawn() const {
    std::vector<Constraints> out;
    std::mt19937 random(1);  // NOLINT: the same every time
    std::ranges::sample(structures_, std::back_inserter(out), effort_.random, random);
    return out;
  }

  /// Neighbours of the best whose neighbours are not known.
  void expand(double end) {
    std::set<std::string> expanded;
    while (true) {
      const Made* next = nullptr;
      for (const Made& m : made_)
        if (!expanded.contains(to_text(m.structure)) && (!next || is_better(m.evaluation, next->evaluation)))
          next = &m;
      if (!next || (seconds_now() > end && next->structure != best_->structure)) return;
      const Constraints from = next->structure;
      expanded.insert(to_text(from));
      for (const Constraints& s : space_.neighbours(from)) look_at(s);
    }
  }

  // ---- telling ----

  Outcome tell(const Table& table, const Plan& plan) const {
    require(best_.has_value(), "{} on {}: --set takes no structure", case_.model, case_.cluster.name);
    const Evaluation& best = best_->evaluation;
    const bool fits_any = auto_.fits() || best.fits();
    const double ratio = fits_any ? auto_.estimate.step_seconds() / best_->seconds() : memory_ratio();
    const bool is_bound_broken =
        plan.lower_bound_seconds && fastest_ < *plan.lower_bound_seconds * (1 - 1e-6);
    std::string bound =
        plan.lower_bound_seconds ? fmt::format("{:.4g} s", *plan.lower_bound_seconds) : "none";
    if (is_bound_broken) bound += ", BROKEN";
    const std::string compared = !fits_any                     ? fmt::format("{:.3f} of memory", ratio)
                                 : auto_.fits() == best.fits() ? fmt::format("{:.3f}", ratio)
                                 : auto_.fits()                ? "only auto fits"
                                                               : "AUTO DOES NOT FIT";
    table.row({asked_text(), case_.cluster.name, chosen_, text_of(auto_), structure_text(best_->structure),
               text_of(best), compared, fmt::format("{} of {}", made_.size(), seen_.size()), bound,
               time_text(plan.search_seconds)});
    const bool is_behind = auto_.fits() == best.fits() ? ratio > 1.01 : best.fits();
    if (is_behind || is_bound_broken) tell_why(plan);
    if (effort_.tells_forecasts) tell_forecasts();
    std::fflush(stdout);
    return {.is_behind = is_behind, .is_bound_broken = is_bound_broken, .ratio = ratio};
  }

  /// Where nothing fits, what takes the least memory is wanted.
  double memory_ratio() const {
    const auto bytes_of = [](const Made& m) { return m.evaluation.estimate.arena_bytes; };
    const auto least = std::ranges::min(made_ | std::views::transform(bytes_of));
    return static_cast<double>(auto_.estimate.arena_bytes) / static_cast<double>(least);
  }

  std::string asked_text() const {
    return fmt::format("{}, {} samples, {}{}", case_.model, case_.batch, case_.precision,
                       case_.framework.empty() ? "" : ", " + case_.framework);
  }

  static std::string text_of(const Evaluation& e) {
    return fmt::format("{:.4g} s, {:.1f} GB{}", e.estimate.step_seconds(),
                       static_cast<double>(e.estimate.arena_bytes) * 1e-9, e.fits() ? "" : " (does not fit)");
  }

  /// Of all that became programs, how far the search's forecasts are from them.
  void tell_forecasts() const {
    const StepOf step_of = [this](int m) { return step(m); };
    Tables tables(step_of, request_);
    Bounds bounds(tables, 1);
    Candidates candidates(tables, bounds, *request_.cluster, auto_.cap_bytes);
    for (const Made& m : made_)
      if (const auto c = candidates.forecast(m.structure))
        fmt::print("  {}: {:.4g} s and {:.2f} GB, forecast {:.3f}, hopefully {:.3f}, and {:.3f} of it\n",
                   structure_text(m.structure), m.seconds(), m.bytes() * 1e-9,
                   c->forecast.seconds / m.seconds(), c->forecast.hopeful_seconds / m.seconds(),
                   c->forecast.bytes / m.bytes());
  }

  /// The command that shows the better one, and what auto knew of it.
  void tell_why(const Plan& plan) const {
    fmt::print("  {}\n", command_of(best_->structure));
    const std::string winner = structure_text(best_->structure) + ": ";
    const auto is_of_it = [&](const std::string& line) { return line.starts_with(winner); };
    if (std::ranges::none_of(plan.log, is_of_it))
      fmt::print("  auto's log: nothing of {}\n", structure_text(best_->structure));
    for (const std::string& line : plan.log)
      if (is_of_it(line)) fmt::print("  auto's log: {}\n", line);
    std::fflush(stdout);
  }

  std::string command_of(const Constraints& s) const {
    return fmt::format(
        "shardwright plan {}{} --cluster {} --precision {} --optimizer adamw --set {},global_batch={}{}",
        case_.model, case_.loss.empty() ? "" : " --loss " + case_.loss, case_.cluster.name, case_.precision,
        structure_text(s), case_.batch, case_.framework.empty() ? "" : " --framework " + case_.framework);
  }

  const PlanCase& case_;
  Effort effort_;
  PlanRequest request_;
  std::map<int, Graph> graphs_;  // by micro-batches
  Least least_;
  Evaluation auto_;
  std::string chosen_;  // auto's structure
  Structures space_;
  std::vector<Constraints> structures_;  // that auto may choose
  std::set<std::string> seen_;
  std::vector<Made> made_;
  std::optional<Made> best_;
  double fastest_ = HUGE_VAL;  // of what fits
};

std::int64_t usual_batch(int devices) { return devices <= 8 ? 64 : devices <= 64 ? 256 : 2 * devices; }

std::vector<PlanCase> cases(const BenchOptions& options) {
  if (options.is_smoke)
    return {{"llama:layers=2,hidden=64,heads=4,ffn=128,vocab=256,seq=32", cluster_called("a100-80g:2"), 4}};
  std::vector<PlanCase> out;
  for (const char* model : {"llama2-7b", "llama2-13b", "llama2-70b", "baichuan2-7b", "baichuan2-13b",
                            "qwen-7b", "qwen-14b", "pangualpha-2.6b", "pangualpha-13b"})
    for (int devices : {8, 64, 512})
      for (const char* cluster : {"a100-80g", "h100", "ascend910b"})
        out.push_back({model, cluster_called(fmt::format("{}:{}", cluster, devices)), usual_batch(devices)});
  for (const char* cluster : {"h100:1024", "a100-80g:1024"})
    out.push_back(
        {"gpt:layers=96,hidden=12288,heads=96,vocab=51200,seq=2048", cluster_called(cluster), 1536});
  out.push_back({"resnet50", cluster_called("a100-80g:8"), 64, true});
  out.push_back({"resnet50", cluster_called("a100-80g:64"), 1024, true});
  out.push_back({"face", cluster_called("a100-80g:8"), 64, true});
  for (const char* model : {"ffn", "dense_net", "matmul_chain"})
    out.push_back({model, cluster_called("a100-80g:8"), 64});
  return out;
}

struct Asked {
  std::vector<PlanCase> cases;
  Effort effort;
};

Asked asked_by(const BenchOptions& options) {
  Asked out{cases(options), {}};
  std::string loss;
  std::int64_t seed = 0;
  std::vector<std::string> words;
  for (std::size_t i = 0; i < options.words.size(); ++i) {
    const std::string& word = options.words[i];
    if (!word.starts_with("--")) {
      words.push_back(word);
      continue;
    }
    constexpr std::string_view known[] = {"--random", "--seconds", "--loss", "--seed", "--forecasts"};
    const std::size_t which = Given{"option", word}.word(known);
    if (++i == options.words.size()) throw error("{}: needs a value", word);
    const Given value{word, options.words[i]};
    if (which == 0) out.effort.random = static_cast<int>(value.integer(0, 1 << 20));
    if (which == 1) out.effort.seconds = value.number();
    if (which == 2) loss = value.text;
    if (which == 3) seed = value.integer(0);
    if (which == 4) out.effort.tells_forecasts = value.integer(0, 1) == 1;
  }
  if (!words.empty() && words[0] == "drawn") {
    const std::int64_t count = words.size() > 1 ? Given{"drawn", words[1]}.integer(1, 100000) : 100;
    out.cases.clear();
    for (std::int64_t i = 0; i < count; ++i)
      out.cases.push_back(drawn_case(static_cast<std::uint64_t>(seed + i)));
    return out;
  }
  if (words.size() > 2)
    out.cases = {{.model = words[0],
                  .cluster = cluster_called(words[1]),
                  .batch = Given{"batch", words[2]}.integer(),
                  .loss = loss}};
  const bool is_some = words.empty() && !options.is_smoke, is_all = words == std::vector<std::string>{"all"};
  std::erase_if(out.cases, [&](const PlanCase& c) {
    if (is_some) return c.cluster.name != "a100-80g:8" || (c.model != "llama2-7b" && c.model != "resnet50");
    return !is_all && !words.empty() &&
           (c.model != words[0] || (words.size() > 1 && c.cluster.name != words[1]));
  });
  if (out.cases.empty())
    throw error("{}: is no row of the table; say MODEL, CLUSTER and the samples of a step", join(words, " "));
  return out;
}

void bench(const BenchOptions& options) {
  const Asked asked = asked_by(options);
  const Table table({"model", "cluster", "auto", "takes", "best of --set", "takes", "auto / best",
                     "programs of structures", "lower bound", "search"});
  table.begin("auto beside what --set takes, bf16, adamw");
  int behind = 0, broken = 0;
  double worst = 0;
  for (const PlanCase& c : asked.cases) {
    const Outcome o = Grid(c, asked.effort).run(table);
    behind += o.is_behind, broken += o.is_bound_broken, worst = std::max(worst, o.ratio);
  }
  fmt::print("{} cases: auto is behind in {}, at most {:.3f} of the best; {} bounds are broken\n",
             asked.cases.size(), behind, worst, broken);
}

}  // namespace
}  // namespace shardwright

int main(int argc, char** argv) { return shardwright::run_bench(argc, argv, shardwright::bench, 10); }

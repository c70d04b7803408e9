#include "shardwright/cli/measured_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <sstream>

#include "shardwright/base/error.h"
#include "shardwright/base/file.h"
#include "shardwright/base/progress.h"
#include "shardwright/base/quantity.h"
#include "shardwright/base/text.h"
#include "shardwright/cli/command_line.h"
#include "shardwright/cli/device_counts.h"
#include "shardwright/cli/memory_fit.h"
#include "shardwright/cli/next_run.h"
#include "shardwright/cli/planning.h"
#include "shardwright/cli/programs.h"
#include "shardwright/cli/set_flags.h"
#include "shardwright/cost/calibrate.h"
#include "shardwright/cost/cluster_file.h"
#include "shardwright/cost/run_fit.h"
#include "shardwright/runtime/data/csv_records.h"

namespace shardwright {
namespace {

using Json = nlohmann::ordered_json;

/// The columns that are no flags of estimate.
constexpr std::array<std::string_view, 4> own_columns{"model", "plan", "seconds", "bytes"};

std::vector<std::string> columns_of(const CsvRecords& records) {
  std::vector<std::string> out(records.cells().begin(), records.cells().end());
  for (std::string_view needed : {"model", "plan", "seconds"})
    if (std::ranges::count(out, needed) != 1)
      throw error(
          "{}: has {} column '{}'; a table of runs has model, plan, seconds, bytes, and flags of estimate",
          records.place(), std::ranges::count(out, needed) == 0 ? "no" : "more than one", needed);
  const Verb& verb = verb_called("estimate");
  for (const std::string& column : out) {
    if (std::ranges::find(own_columns, column) != own_columns.end()) continue;
    const auto is_flag = [&](const Flag& f) { return f.name == "--" + column && !f.value.empty(); };
    if (column == "cluster" || std::ranges::none_of(verb.flags, is_flag))
      throw error(
          "{}: column '{}' is none of model, plan, seconds, bytes, and no flag of estimate that takes a "
          "value",
          records.place(), column);
  }
  return out;
}

std::optional<double> number_in(const std::string& cell, std::string_view unit, const std::string& place,
                                std::string_view column) {
  if (cell.empty()) return std::nullopt;
  const auto out = to_quantity(cell, unit);
  if (!out || !(*out > 0))
    throw error("{}: {} '{}' should be a number above 0, such as {}", place, column, cell,
                unit == "s" ? "1.25" : "61.5GB");
  return out;
}

RunAsked run_of(const std::vector<std::string>& columns, std::span<const std::string> cells,
                const std::string& place) {
  if (cells.size() != columns.size())
    throw error("{}: has {} cells where the first line has {} columns; a plan with commas stands in quotes",
                place, cells.size(), columns.size());
  RunAsked out{.place = place};
  for (std::size_t c = 0; c < cells.size(); ++c) {
    const std::string &column = columns[c], cell(trim(cells[c]));
    if (column == "model")
      out.model = cell;
    else if (column == "plan")
      out.plan = cell;
    else if (column == "seconds")
      out.seconds = number_in(cell, "s", place, column);
    else if (column == "bytes")
      out.bytes = number_in(cell, "B", place, column);
    else if (!cell.empty())
      out.flags["--" + column] = cell;
  }
  if (out.plan.empty())
    throw error("{}: has no plan: words of --set, such as dp=8,tp=4, or a saved plan", place);
  if (out.model.empty() && !out.plan.ends_with(".json")) throw error("{}: has no model", place);
  if (!out.seconds && !out.bytes) throw error("{}: has neither seconds nor bytes", place);
  return out;
}

std::vector<RunAsked> runs_in(const std::string& path) {
  const OpenFile file(path);
  CsvRecords records(file, csv_separator(path), {}, 1 << 16);
  if (!records.next()) throw error("{}: is empty", path);
  const std::vector<std::string> columns = columns_of(records);
  std::vector<RunAsked> out;
  while (records.next()) out.push_back(run_of(columns, records.cells(), records.place()));
  if (out.empty()) throw error("{}: has no run behind its first line", path);
  return out;
}

/// The machine that `name` says, of any size: the kind of a preset, or a file. Throws: Error if there is none.
std::string machine_of(const std::string& name) {
  return !is_kind_of_machine(name) && is_preset(cluster_called(name)) ? name.substr(0, name.find(':')) : name;
}

/// Programs of runs; those that are asked alike are made once.
class Programs {
 public:
  Programs(const Arguments& arguments, Terminal& terminal)
      : cluster_(machine_of(arguments.text("--cluster"))),
        terminal_(terminal),
        progress_(arguments.progress) {}

  const PricedRun& of(const RunAsked& run) {
    auto& known = programs_[words_of(run, cluster_)];
    if (!known) known = std::make_unique<PricedRun>(priced(run));
    return *known;
  }

 private:
  PricedRun priced(const RunAsked& run) const try {
    std::ostringstream unheard;
    Terminal quiet{terminal_.in, unheard, unheard};
    const Verb& verb = verb_called("estimate");
    Arguments arguments = *arguments_of(verb, words_of(run, cluster_));
    arguments.progress = progress_;
    if (arguments.has("--set")) arguments = with_set(std::move(arguments));
    const PlannedModel made = planned_positional(arguments, {"--cluster"}, quiet);
    return {compiled_for_others(arguments, made.model.graph, made.plan), made.plan.cluster,
            made.plan.settings.framework};
  } catch (const Error& e) {
    throw with_context(e, run.place);
  }

  std::string cluster_;
  Terminal& terminal_;
  Progress* progress_;
  std::map<std::vector<std::string>, std::unique_ptr<PricedRun>> programs_;
};

/// The cluster of --cluster, large enough for every run: each kind of link is among its own.
Cluster cluster_for(const std::string& name, const std::vector<const PricedRun*>& runs) {
  int most = 1;
  for (const PricedRun* run : runs) most = std::max(most, run->cluster.devices());
  if (is_kind_of_machine(name)) return cluster_called(fmt::format("{}:{}", name, most));
  const Cluster said = cluster_called(name);
  return is_preset(said) && said.devices() < most ? resized(said, most) : said;
}

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

/// A share has no unit.
std::string value_text(const RunFigure& figure, const Cluster& cluster) {
  const double value = figure.value(cluster);
  return figure.unit.empty() ? percent(value) : quantity_text(value, figure.unit);
}

double mean_error(const std::vector<MeasuredRun>& runs, const std::vector<double>& prices) {
  double out = 0;
  for (std::size_t r = 0; r < runs.size(); ++r)
    out += std::abs(prices[r] / runs[r].seconds - 1) / static_cast<double>(runs.size());
  return out;
}

/// All that is told.
struct Fitted {
  const std::vector<RunAsked>& runs;  // with seconds
  const std::vector<MeasuredRun>& measured;
  const std::vector<RunFigure>& figures;
  const RunFit& fit;
  const Cluster &before, &after;
  const std::vector<MemoryFit>& memory;
  const std::optional<NextRun>& next;
};

std::string text_of(const Fitted& t) {
  std::string out;
  for (std::size_t f = 0; f < t.figures.size(); ++f) {
    const RunFigure& figure = t.figures[f];
    out += t.fit.tells(t.figures, f)
               ? fmt::format("{}: {} -> {}, +- {}\n", figure.name, value_text(figure, t.before),
                             value_text(figure, t.after), percent(t.fit.spreads[f]))
               : fmt::format("{}: {}; these runs do not tell\n", figure.name, value_text(figure, t.before));
  }
  if (!t.runs.empty())
    out += fmt::format("{} runs: mean error {} -> {}\n", t.runs.size(),
                       percent(mean_error(t.measured, t.fit.before)),
                       percent(mean_error(t.measured, t.fit.after)));
  for (std::size_t r = 0; r < t.runs.size(); ++r)
    if (!t.fit.explains(t.measured, r))
      out += fmt::format("not explained: {}: {} {}: {:.4g} s measured, {:.4g} s predicted\n", t.runs[r].place,
                         t.runs[r].model, t.runs[r].plan, t.measured[r].seconds, t.fit.after[r]);
  for (const MemoryFit& m : t.memory) out += text_of(m);
  if (t.next) out += text_of(*t.next);
  return out;
}

Json json_of(const Fitted& t) {
  Json out{{"cluster", to_text(t.after)}};
  for (std::size_t f = 0; f < t.figures.size(); ++f)
    out["figures"].push_back({{"figure", t.figures[f].name},
                              {"before", t.figures[f].value(t.before)},
                              {"after", t.figures[f].value(t.after)},
                              {"spread", t.fit.spreads[f]},
                              {"is_told", t.fit.tells(t.figures, f)}});
  out["runs"] = Json::array();
  for (std::size_t r = 0; r < t.runs.size(); ++r)
    out["runs"].push_back({{"place", t.runs[r].place},
                           {"measured_seconds", t.measured[r].seconds},
                           {"before_seconds", t.fit.before[r]},
                           {"predicted_seconds", t.fit.after[r]},
                           {"is_explained", t.fit.explains(t.measured, r)}});
  if (!t.runs.empty()) {
    out["mean_error_before"] = mean_error(t.measured, t.fit.before);
    out["mean_error"] = mean_error(t.measured, t.fit.after);
  }
  out["memory"] = Json::array();
  for (const MemoryFit& m : t.memory) out["memory"].push_back(json_of(m));
  out["next"] = t.next ? json_of(*t.next) : Json();
  return out;
}

}  // namespace

int correct_by_runs(const Arguments& arguments, Terminal& terminal) {
  const std::string path = arguments.text("--from");
  if (!arguments.has("--cluster")) throw error("--from {}: say with --cluster what the runs were on", path);
  const std::string name = arguments.text("--cluster");
  arguments.check_heeded(terminal.err);
  require_writable(arguments.text("--out"));
  const std::vector<RunAsked> asked = runs_in(path);
  Programs programs(arguments, terminal);
  std::vector<RunAsked> timed;
  std::vector<const PricedRun*> of_timed, all;
  std::int64_t done = 0;
  Doing doing(arguments.progress, "making the programs of runs", static_cast<std::int64_t>(asked.size()));
  for (const RunAsked& run : asked) {
    all.push_back(&programs.of(run));
    if (run.seconds) timed.push_back(run), of_timed.push_back(all.back());
    doing.tell(++done);
  }
  const Cluster before = cluster_for(name, all);
  const std::vector<RunFigure> figures = run_figures(before);
  std::vector<MeasuredRun> measured;
  for (std::size_t r = 0; r < timed.size(); ++r)
    measured.push_back(measured_run(*timed[r].seconds, *of_timed[r], figures));
  const RunFit fit = fit_runs(figures, measured);
  Cluster after = scaled(before, figures, fit.factors);
  round_figures(after);
  const std::vector<MemoryFit> memory = memory_fits(asked, all);
  const auto price = [&](const RunAsked& run) { return measured_run(1, programs.of(run), figures); };
  const std::optional<NextRun> next = next_run(timed, figures, fit, price);
  const Fitted told{timed, measured, figures, fit, before, after, memory, next};
  const std::string text = text_of(told);
  std::string comments;
  for (std::string_view line : split(text, '\n'))
    if (!line.empty()) comments += fmt::format("# {}\n", line);
  const std::string file = fmt::format("# {} fitted to {}\n{}{}", name, path, to_text(after), comments);
  parse_cluster(file, arguments.text("--out"));  // is one, whatever was measured
  write_file(arguments.text("--out"), file);
  terminal.out << (arguments.is_on("--json") ? json_of(told).dump() + "\n"
                                             : text + fmt::format("{} says what {} devices do\n",
                                                                  arguments.text("--out"), after.devices()));
  return 0;
}

}  // namespace shardwright

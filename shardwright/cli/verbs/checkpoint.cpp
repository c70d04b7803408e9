#include <chrono>
#include <ostream>

#include "shardwright/base/progress.h"
#include "shardwright/base/text.h"
#include "shardwright/cli/interrupts.h"
#include "shardwright/cli/planning.h"
#include "shardwright/frontend/table.h"
#include "shardwright/passes/compile.h"
#include "shardwright/plan/json_text.h"
#include "shardwright/runtime/checkpoint/folder.h"
#include "shardwright/runtime/checkpoint/reader.h"
#include "shardwright/runtime/checkpoint/write.h"

namespace shardwright::verbs {
namespace {

std::int64_t bytes_of(const Manifest& m) {
  std::int64_t bytes = 0;
  for (const Shard& shard : m.shards) bytes += shard.bytes;
  return bytes;
}

std::string parts_text(const SavedTensor& t) {
  std::vector<std::string> dims;
  for (std::int64_t parts : t.grid()) dims.push_back(std::to_string(parts));
  return t.shards.size() < 2 ? "1" : join(dims, "x");
}

Json json_of(const CheckpointReader& checkpoint) {
  const Manifest& m = checkpoint.manifest();
  Json tensors = Json::array(), shards = Json::array();
  for (const SavedTensor& t : m.tensors)
    tensors.push_back({{"name", t.name},
                       {"dtype", name_of(t.type.dtype)},
                       {"shape", t.type.shape},
                       {"kind", t.is_state ? "state" : "parameter"},
                       {"layout", t.layout},
                       {"parts", t.grid()},
                       {"shards", t.shards}});
  for (const Shard& s : m.shards) shards.push_back({{"file", s.file}, {"bytes", s.bytes}});
  return {{"checkpoint", checkpoint.folder()},
          {"model", m.run.model},
          {"step", m.run.step},
          {"seed", m.run.seed},
          {"samples", m.run.samples},
          {"schedule", m.run.schedule},
          {"bytes", bytes_of(m)},
          {"plan", m.plan.empty() ? Json() : Json::parse(m.plan)},
          {"tensors", tensors},
          {"shards", shards}};
}

int inspect(const Arguments& arguments, Terminal& terminal) {
  const CheckpointReader checkpoint = open_checkpoint(arguments.positionals[1]);
  const bool is_json = arguments.is_on("--json");
  arguments.check_heeded(terminal.err);
  if (is_json) {
    terminal.out << json_of(checkpoint).dump() << "\n";
    return 0;
  }
  const Manifest& m = checkpoint.manifest();
  std::int64_t weights = 0;
  Rows rows{{"tensor", "type", "kind", "layout", "parts", "bytes"}};
  for (const SavedTensor& t : m.tensors) {
    if (!t.is_state) weights += element_count(t.type.shape);
    rows.push_back({t.name, to_text(t.type), t.is_state ? "state" : "parameter", t.layout, parts_text(t),
                    bytes_text(t.type.bytes())});
  }
  terminal.out << fmt::format("{}: {} after step {}, {} weights, {} in {} shard{}\n", checkpoint.folder(),
                              m.run.model.empty() ? "tensors" : m.run.model, m.run.step, weights,
                              bytes_text(bytes_of(m)), m.shards.size(), m.shards.size() == 1 ? "" : "s")
               << aligned(rows, {4, 5});
  return 0;
}

int verify(const Arguments& arguments, Terminal& terminal) {
  const bool is_json = arguments.is_on("--json");
  arguments.check_heeded(terminal.err);
  const auto start = std::chrono::steady_clock::now();
  const CheckpointReader checkpoint = open_checkpoint(arguments.positionals[1]);
  checkpoint.verify(arguments.progress);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const Manifest& m = checkpoint.manifest();
  if (is_json)
    terminal.out << Json{{"checkpoint", checkpoint.folder()},
                         {"whole", true},
                         {"step", m.run.step},
                         {"bytes", bytes_of(m)},
                         {"seconds", seconds}}
                        .dump()
                 << "\n";
  else
    terminal.out << fmt::format("{}: whole: {} tensors, {} in {} shard{}, after step {}\n",
                                checkpoint.folder(), m.tensors.size(), bytes_text(bytes_of(m)),
                                m.shards.size(), m.shards.size() == 1 ? "" : "s", m.run.step);
  return 0;
}

const std::string& target_of(const Arguments& arguments) {
  if (arguments.positionals.size() < 3)
    throw error("checkpoint {}: give two, DIR and {}", arguments.positionals[0],
                arguments.positionals[0] == "diff" ? "OTHER" : "OUT");
  return arguments.positionals[2];
}

/// What is read of `source` counts, and stops where somebody wants that.
void watch(TensorSource& source, Doing& doing) {
  source.read = [&doing, done = 0.0, read = std::move(source.read)](std::size_t i, const Box& where,
                                                                    std::span<std::byte> to) mutable {
    if (interrupts() > 0) throw error("interrupted: nothing was written");
    read(i, where, to);
    doing.tell(static_cast<std::int64_t>((done += static_cast<double>(to.size())) / 1e6));
  };
}

std::int64_t megabytes_of(const TensorSource& source) {
  double bytes = 0;
  for (const TensorSource::Item& item : source.items) bytes += static_cast<double>(item.type.bytes());
  return static_cast<std::int64_t>(bytes / 1e6);
}

/// As `convert` and `merge` say.
void write(const Arguments& arguments, TensorSource& source, const std::string& to) {
  Doing doing(arguments.progress, "MB", megabytes_of(source));
  watch(source, doing);
  if (to.ends_with(".safetensors")) return write_plain(source, to);
  const std::string plan = Arguments(arguments).text("--plan");
  if (plan.empty()) return write_checkpoint(source, to);
  const PlannedModel made = planned_model(plan);
  write_checkpoint(source, to, compile_pipeline(made.model.graph, made.plan), to_json(made.plan));
}

/// `convert` takes a plan, `merge` makes one shard or file.
int rewrite(const Arguments& arguments, Terminal& terminal) {
  const std::string &from = arguments.positionals[1], &to = target_of(arguments);
  const bool is_plain = to.ends_with(".safetensors"), is_merge = arguments.positionals[0] == "merge";
  if (is_merge && arguments.has("--plan"))
    throw error("checkpoint merge makes one shard; checkpoint convert takes a --plan");
  if (is_plain && arguments.has("--plan"))
    throw error("--plan: {} is one file, which cannot hold a plan's shards; give a folder", to);
  TensorSource source = open_source(from);
  if (arguments.has("--names")) rename(source, read_names(arguments.text("--names")));
  if (is_plain && !arguments.is_on("--states")) drop_states(source);
  if (!is_plain && arguments.has("--states")) arguments.idle("--states", "a checkpoint has them anyway");
  arguments.heed("--plan");
  const bool is_json = arguments.is_on("--json");
  arguments.check_heeded(terminal.err);
  const Patience patience(1);  // shards that are there go first
  try {
    write(arguments, source, to);
  } catch (const Error& e) {
    if (interrupts() == 0) throw;
    terminal.err << fmt::format("shardwright: {}\n", e.what());
    return interrupted_status;
  }
  if (is_json)
    terminal.out << Json{{"written", to}, {"tensors", source.items.size()}}.dump() << "\n";
  else
    terminal.out << fmt::format("{}: {} tensors of {}\n", to, source.items.size(), source.path);
  return 0;
}

Json json_of(const SourceDifference& d) {
  Json tensors = Json::array();
  for (const TensorDifference& t : d.tensors) {
    Json line{{"name", t.name}};
    if (!t.types.empty()) line["types"] = t.types;
    if (t.types.empty()) line.update({{"elements", t.elements}, {"largest", t.largest}});
    tensors.push_back(line);
  }
  return {{"equal", d.is_none()},
          {"compared", d.compared},
          {"tensors", tensors},
          {"only_in_first", d.only_in_first},
          {"only_in_second", d.only_in_second}};
}

int diff(const Arguments& arguments, Terminal& terminal) {
  const std::string& other = target_of(arguments);
  const TensorSource a = open_source(arguments.positionals[1]), b = open_source(other);
  const bool is_json = arguments.is_on("--json");
  arguments.check_heeded(terminal.err);
  const SourceDifference d = difference_of(a, b);
  if (is_json) {
    terminal.out << json_of(d).dump() << "\n";
    return 0;
  }
  if (a.run.step != b.run.step)
    terminal.out << fmt::format("step {} in {}, {} in {}\n", a.run.step, a.path, b.run.step, b.path);
  for (const std::string& name : d.only_in_first)
    terminal.out << fmt::format("{} is only in {}\n", name, a.path);
  for (const std::string& name : d.only_in_second)
    terminal.out << fmt::format("{} is only in {}\n", name, b.path);
  for (const TensorDifference& t : d.tensors)
    terminal.out << (t.types.empty() ? fmt::format("{}: {} elements differ, by {:.4g} at most\n", t.name,
                                                   t.elements, t.largest)
                                     : fmt::format("{}: {}\n", t.name, t.types));
  terminal.out << fmt::format("{} of {} tensors are equal\n",
                              d.compared - static_cast<std::int64_t>(d.tensors.size()), d.compared);
  return 0;
}

int run(const Arguments& arguments, Terminal& terminal) {
  const std::string& what = arguments.positionals[0];
  if (arguments.positionals.size() > 2 && (what == "inspect" || what == "verify"))
    throw error("checkpoint {} takes one checkpoint; '{}' is one too many", what, arguments.positionals[2]);
  if (what == "inspect") return inspect(arguments, terminal);
  if (what == "verify") return verify(arguments, terminal);
  if (what == "convert" || what == "merge") return rewrite(arguments, terminal);
  if (what == "diff") return diff(arguments, terminal);
  throw error("checkpoint {}: there are inspect, verify, convert, merge, diff", what);
}

}  // namespace

std::vector<Verb> checkpoint() {
  return {{.name = "checkpoint",
           .doc = "look at checkpoints, prove them whole, write them for another plan or as one file",
           .positionals = {"inspect|verify|convert|merge|diff", "DIR|FILE", "[OUT|OTHER]"},
           .flags = {{"--plan", "FILE", "convert: as the ranks of this plan would have written it", ""},
                     {"--names", "FILE", "convert, merge: a JSON object of new names by old names of tensors",
                      ""},
                     {"--states", "", "convert, merge to one file: the optimizer's states, too", ""},
                     {"--json", "", "one JSON document", ""}},
           .example = "shardwright checkpoint merge run1/latest weights.safetensors",
           .run = run}};
}

}  // namespace shardwright::verbs

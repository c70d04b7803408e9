#include "shardwright/plan/schedule.h"

#include <algorithm>

#include <fmt/format.h>

#include "shardwright/base/error.h"
#include "shardwright/base/index.h"
#include "shardwright/base/text.h"
#include "shardwright/base/unknown.h"
#include "shardwright/cost/cluster.h"
#include "shardwright/plan/schedule_table.h"

namespace shardwright {
namespace {

constexpr std::string_view table_mark = "table ";

void check(std::string_view what, int count, int most) {
  if (count < 1 || count > most)
    throw error("pipelining: {} {} but there should be from 1 to {}", count, what, most);
}

std::string called(const ScheduleDef& def) {
  if (def.argument.empty()) return def.name;
  return def.chunks != 0 ? fmt::format("{}[:{}]", def.name, def.argument)
                         : fmt::format("{}:{}", def.name, def.argument);
}

const ScheduleDef* known(std::string_view name) {
  const auto all = all_schedules();
  const auto def = std::ranges::find(all, name, &ScheduleDef::name);
  return def == all.end() ? nullptr : &*def;
}

/// Each micro-batch in turn, whatever the schedule.
std::vector<Task> accumulation(const Pipelining& p) {
  std::vector<Task> out;
  for (int m = 0; m < p.micro_batches; ++m) {
    for (Phase phase : {Phase::forward, Phase::backward}) out.push_back({phase, m, 0});
    if (p.schedule.splits_backward) out.push_back({Phase::weights, m, 0});
  }
  return out;
}

}  // namespace

Schedule Schedule::gpipe() { return schedule_of(*known("gpipe"), 0); }
Schedule Schedule::interleaved(int chunks) { return schedule_of(*known("interleaved"), chunks); }

Schedule schedule_of(const ScheduleDef& def, int argument) {
  Schedule out;
  out.name = def.name;
  out.argument = argument == 1 && def.chunks != 0 ? 0 : argument;  // as if it were left out
  out.chunks = def.chunks == 0 ? argument : def.chunks;
  out.order = def.order;
  out.splits_backward = def.splits_backward;
  return out;
}

const ScheduleDef& def_of(const Schedule& schedule) {
  const ScheduleDef* def = known(schedule.name);
  require(def, "there is no schedule {}", schedule.name);
  return *def;
}

std::vector<std::string> schedule_names() {
  std::vector<std::string> out;
  for (const ScheduleDef& def : all_schedules())
    if (def.order != ChunkOrder::table) out.push_back(called(def));
  out.emplace_back("FILE.csv");
  return out;
}

std::string name_of(const Schedule& schedule) {
  return schedule.argument == 0 ? schedule.name : fmt::format("{}:{}", schedule.name, schedule.argument);
}

std::string to_text(const Schedule& schedule) {
  if (schedule.order != ChunkOrder::table) return name_of(schedule);
  std::string out(table_mark);
  for (std::size_t row = 0; row < schedule.rows.size(); ++row)
    out += fmt::format("{}{}", row == 0 ? "" : " | ", row_text(schedule, static_cast<int>(row)));
  return out;
}

Schedule schedule_called(std::string_view text) {
  if (text.starts_with(table_mark)) return schedule_of_rows(split(text.substr(table_mark.size()), '|'));
  const std::size_t colon = text.find(':');
  const ScheduleDef* def = known(text.substr(0, colon));
  if (!def || def->order == ChunkOrder::table || (colon != text.npos && def->argument.empty()) ||
      (colon == text.npos && def->chunks == 0))
    throw unknown("schedule", text, schedule_names());
  if (colon == text.npos) return schedule_of(*def, 0);
  const auto argument = to_integer(text.substr(colon + 1));
  if (!argument || *argument < def->least || *argument > def->most)
    throw error("schedule '{}': {} has {}, from {} to {}", text, called(*def), def->doc, def->least,
                def->most);
  return schedule_of(*def, static_cast<int>(*argument));
}

Schedule schedule_given(std::string_view text) {
  return text.ends_with(".csv") ? load_schedule_table(std::string(text)) : schedule_called(text);
}

int Pipelining::stage_of(int part) const {
  switch (schedule.order) {
    case ChunkOrder::rounds: return part % stages;
    case ChunkOrder::v: return part < stages ? part : 2 * stages - 1 - part;
    case ChunkOrder::table: break;
  }
  return stages == 1 ? 0 : schedule.stages[at(part)];
}

std::vector<int> Pipelining::parts_of(int stage) const {
  std::vector<int> out;
  for (int part = 0; part < parts(); ++part)
    if (stage_of(part) == stage) out.push_back(part);
  return out;
}

int Pipelining::chunk_of(int part) const {
  int out = 0;
  for (int other = 0; other < part; ++other) out += stage_of(other) == stage_of(part);
  return out;
}

std::string refusal_of(const Pipelining& p) {
  const ScheduleDef& def = def_of(p.schedule);
  if (p.stages == 1)
    return def.is_for_stages
               ? fmt::format("schedule {} is for several stages but there is one", name_of(p.schedule))
               : "";
  return def.refusal ? def.refusal(p) : "";
}

void check(const Pipelining& p) {
  check("stages", p.stages, most_devices);
  check("chunks", p.schedule.chunks, most_devices / p.stages);
  check("micro-batches", p.micro_batches, most_micro_batches);
  check("parts of a micro-batch", p.interleave, most_micro_batches / p.micro_batches);
  if (const std::string why = refusal_of(p); !why.empty()) throw error("{}", why);
}

std::vector<Task> tasks_of(const Pipelining& p, int stage) {
  const bool is_whole = p.stages == 1 && p.schedule.chunks == 1;
  return is_whole ? accumulation(p) : def_of(p.schedule).tasks(p, stage);
}

}  // namespace shardwright

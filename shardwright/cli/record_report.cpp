#include "shardwright/cli/record_report.h"

#include <nlohmann/json.hpp>
#include <ostream>

#include "shardwright/runtime/record_comparison.h"

namespace shardwright {
namespace {

using Json = nlohmann::ordered_json;

std::string_view name_of(RankState::Does does) {
  switch (does) {
    case RankState::Does::failed: return "failed";
    case RankState::Does::waits: return "waits";
    case RankState::Does::works: return "works";
    case RankState::Does::silent: return "silent";
    case RankState::Does::between: break;
  }
  return "between";
}

std::string_view name_of(RecordFindings::Fault fault) {
  using Fault = RecordFindings::Fault;
  switch (fault) {
    case Fault::failed: return "failed";
    case Fault::different: return "different";
    case Fault::silent: return "silent";
    case Fault::missing: return "missing";
    case Fault::works: return "works";
    case Fault::skipped: return "skipped";
    case Fault::each_other: return "each_other";
    case Fault::none: break;
  }
  return "none";
}

/// `%26` of `%26 = matmul`.
std::string node_of(const RecordedInstruction& i) {
  if (i.transfer) return i.transfer->value;
  const std::size_t begin = i.text.find('%');
  return begin == i.text.npos ? "" : i.text.substr(begin, i.text.find(' ', begin) - begin);
}

Json json_of(const RankState& s, const RankRecord& record) {
  Json out{{"rank", s.rank}, {"does", name_of(s.does)}};
  if (!record.host.empty()) out["host"] = record.host;
  if (s.instruction) {
    const RecordedInstruction& i = *s.instruction;
    out["step"] = i.step;
    if (i.micro_batch) out["micro_batch"] = *i.micro_batch;
    out["instruction"] = i.text;
    if (i.transfer) out["collective"] = i.transfer->kind;
    if (const std::string node = node_of(i); !node.empty()) out["node"] = node;
    out["seconds"] = s.since;
  }
  if (!s.waits_for.empty()) out["waits_for"] = s.waits_for;
  out["why"] = record.why;
  return out;
}

Json json_of(const RecordFindings& f, const std::map<int, RankRecord>& records) {
  Json states = Json::array();
  for (const RankState& s : f.states) states.push_back(json_of(s, records.at(s.rank)));
  return {{"ranks", f.ranks},
          {"missing", f.missing},
          {"states", states},
          {"to_blame", {{"ranks", f.to_blame}, {"fault", name_of(f.fault)}, {"why", f.why}}}};
}

}  // namespace

bool asks_for_record(const Arguments& arguments) { return arguments.positionals[0] == "record"; }

void report_record(const Arguments& arguments, Terminal& terminal) {
  if (arguments.positionals.size() < 2)
    throw error("explain record: give the folder, such as run1/flight-record");
  const bool is_json = arguments.is_on("--json");
  arguments.check_heeded(terminal.err);
  const std::map<int, RankRecord> records = read_records(arguments.positionals[1]);
  const RecordFindings findings = compared(records);
  if (is_json)
    terminal.out << json_of(findings, records).dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
  else
    terminal.out << to_text(findings);
}

}  // namespace shardwright

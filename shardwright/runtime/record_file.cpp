#include "shardwright/runtime/record_file.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "shardwright/base/error.h"
#include "shardwright/base/file.h"
#include "shardwright/base/text.h"

namespace shardwright {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t most_ranks = 1 << 20, most_record_bytes = 1 << 26;

/// Takes what stands before `mark`, and the mark. Throws: Error if it is missing.
std::string_view before(std::string_view& text, std::string_view mark) {
  const std::size_t end = text.find(mark);
  if (end == text.npos) throw error("'{}' is missing", trim(mark));
  const std::string_view out = text.substr(0, end);
  text.remove_prefix(end + mark.size());
  return out;
}

/// Likewise, if it is there.
bool accept(std::string_view& text, std::string_view mark) {
  if (!text.starts_with(mark)) return false;
  text.remove_prefix(mark.size());
  return true;
}

int count(std::string_view text, std::string_view what, std::int64_t most) {
  const auto number = to_integer(text);
  if (!number || *number < 0 || *number > most)
    throw error("{} '{}': should be a number from 0 to {}", what, text, most);
  return static_cast<int>(*number);
}

double seconds(std::string_view text) {
  const auto number = to_number(text);
  if (!number || !std::isfinite(*number)) throw error("'{}' should be seconds", text);
  return *number;
}

constexpr std::int64_t most_steps = 2'000'000'000;

/// `of ranks 0,2` or `of ranks 0,1,2,..,63 (64 ranks)`.
void take_ranks(std::string_view list, std::string_view behind, RecordedTransfer& out) {
  for (std::string_view r : split(list, ','))
    if (r != "..") out.ranks.push_back(count(r, "rank", most_ranks));
  if (!std::ranges::is_sorted(out.ranks, std::less_equal())) throw error("ranks '{}' do not ascend", list);
  out.rank_count = static_cast<int>(out.ranks.size());
  if (accept(behind, " (")) out.rank_count = count(before(behind, " ranks)"), "ranks", most_ranks);
}

/// Of `all_reduce.sum %y over tp f32[4, 8] of ranks 0,1` and the like.
RecordedTransfer transfer_of(std::string_view text) {
  RecordedTransfer out;
  const std::string_view whole = text;
  out.kind = before(text, " %");
  out.value = fmt::format("%{}", text.substr(0, text.find(' ')));
  std::string_view over = whole.substr(0, whole.find(" of ranks "));
  before(text, " of ranks ");
  const std::string_view list = text.substr(0, text.find(' '));
  text.remove_prefix(list.size());
  take_ranks(list, text, out);
  const std::size_t stages = text.find(" from stage ");
  const bool crosses = stages != text.npos;
  // Shapes may differ from rank to rank.
  const std::size_t axes = over.find(" over ");
  std::string_view along = axes == over.npos ? "" : over.substr(axes);
  if (!along.empty()) along = along.substr(0, along.find(' ', 6));
  out.name = fmt::format("{} {}{} of ranks {}{}", crosses ? "what crosses as" : out.kind, out.value, along,
                         list, crosses ? text.substr(stages) : std::string_view());
  return out;
}

RecordedInstruction instruction_of(std::string_view line) {
  RecordedInstruction out;
  if (!accept(line, "step ")) throw error("should begin with 'step '");
  out.step = count(before(line, ", "), "step", most_steps);
  out.begin = seconds(before(line, " s, "));
  if (!accept(line, "has not ended: ")) out.seconds = seconds(before(line, " s: "));
  constexpr std::string_view mark = ", micro-batch ";
  if (const std::size_t end = line.rfind(mark); end != line.npos) {
    out.micro_batch = count(line.substr(end + mark.size()), "micro-batch", most_steps);
    line = line.substr(0, end);
  }
  out.text = line;
  using Act = RecordedInstruction::Act;
  out.act = accept(line, "start ") ? Act::start : accept(line, "finish ") ? Act::finish : Act::other;
  if (out.act != Act::other) out.transfer = transfer_of(line);
  return out;
}

/// `rank 3 of 4 on h1 failed at 12.5 s of its machine's clock: why`, or without the number and the host.
void take_head(std::string_view line, RankRecord& out) {
  if (!accept(line, "rank ")) throw error("is no flight record, which begins with 'rank '");
  std::string_view who = before(line, " failed at ");
  const std::size_t host = who.find(" on ");
  if (host != who.npos) out.host = who.substr(host + 4);
  who = who.substr(0, host);
  const std::size_t of = who.find(" of ");
  if (of != who.npos) out.ranks = count(who.substr(of + 4), "ranks", most_ranks);
  out.rank = count(who.substr(0, of), "rank", most_ranks);
  if (out.ranks > 0 && out.rank >= out.ranks) throw error("rank {} of {}", out.rank, out.ranks);
  out.time = seconds(before(line, " s of its machine's clock: "));
  out.why = line;
}

}  // namespace

const RecordedInstruction* RankRecord::current() const {
  return instructions.empty() || instructions.back().seconds ? nullptr : &instructions.back();
}

RankRecord parse_record(std::string_view text) {
  RankRecord out;
  int number = 0;
  for (std::string_view line : split(text, '\n')) {
    ++number;
    try {
      if (number == 1)
        take_head(line, out);
      else if (!trim(line).empty() && !line.starts_with("its last "))
        out.instructions.push_back(instruction_of(line));
    } catch (const Error& e) {
      throw with_context(e, fmt::format("line {}", number));
    }
  }
  return out;
}

std::map<int, RankRecord> read_records(const std::string& folder) {
  std::error_code code;
  std::map<int, RankRecord> out;
  auto entries = fs::directory_iterator(folder, code);
  if (code) throw unreadable(folder, code.value());
  for (const auto& entry : entries) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("rank-") || !name.ends_with(".txt")) continue;
    const std::string path = entry.path().string();
    RankRecord record;
    try {
      record = parse_record(read_text(path, most_record_bytes));
    } catch (const Error& e) {
      if (e.kind() == ErrorKind::io) throw;
      throw with_context(e, path);
    }
    if (name != fmt::format("rank-{}.txt", record.rank)) throw error("{}: is of rank {}", path, record.rank);
    out.emplace(record.rank, std::move(record));
  }
  if (out.empty())
    throw error(
        "{}: holds no flight record (rank-0.txt, ...); a run that fails writes them into flight-record "
        "of its --save folder, or of the current one",
        folder);
  int ranks = 0;
  for (const auto& [rank, record] : out) ranks = std::max(ranks, record.ranks);
  for (const auto& [rank, record] : out)
    if (record.ranks > 0 && record.ranks != ranks)
      throw error("{}: rank {} is one of {}, others are of {}: these are records of several runs", folder,
                  rank, record.ranks, ranks);
  return out;
}

}  // namespace shardwright

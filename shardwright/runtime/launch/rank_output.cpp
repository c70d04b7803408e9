#include "shardwright/runtime/launch/rank_output.h"

#include <algorithm>
#include <charconv>

namespace shardwright {
namespace {

/// A mark at the beginning of a text.
struct Mark {
  enum class Is { none, begun, whole } is = Is::none;
  int rank = 0;
  std::size_t size = 0;
};

/// Reads over digits; nothing if there are none.
std::optional<int> number_at(std::string_view text, std::size_t& at) {
  int out = 0;
  const auto [end, failure] = std::from_chars(text.data() + at, text.data() + text.size(), out);
  if (failure != std::errc()) return std::nullopt;
  at = static_cast<std::size_t>(end - text.data());
  return out;
}

Mark mark_at(std::string_view text) {
  const Mark none{}, begun{Mark::Is::begun};
  std::size_t at = 1;
  if (at == text.size()) return begun;
  if (!number_at(text, at)) return none;
  if (at == text.size()) return begun;
  if (text[at++] != ',') return none;
  if (at == text.size()) return begun;
  const auto rank = number_at(text, at);
  if (!rank) return none;
  const std::string_view rest = text.substr(at);
  for (std::string_view end : {"]<stdout>:", "]<stderr>:"}) {
    if (rest.starts_with(end)) return {Mark::Is::whole, *rank, at + end.size()};
    if (end.starts_with(rest)) return begun;
  }
  return none;
}

}  // namespace

void RankOutput::add(std::string_view text) {
  pending_.append(text);
  std::string_view left = pending_;
  while (!left.empty()) {
    std::size_t plain = std::min(left.find('['), left.size());
    if (plain == 0) {
      const Mark mark = mark_at(left);
      if (mark.is == Mark::Is::begun) break;
      if (mark.is == Mark::Is::whole) {
        speaker_ = mark.rank;
        left.remove_prefix(mark.size);
        continue;
      }
      plain = std::min(left.find('[', 1), left.size());
    }
    give(left.substr(0, plain));
    left.remove_prefix(plain);
  }
  pending_ = std::string(left);
}

void RankOutput::give(std::string_view text) {
  while (!text.empty()) {
    std::string& line = lines_[speaker_];
    const std::size_t end = text.find('\n');
    line.append(text.substr(0, end == text.npos ? end : end + 1));
    if (end == text.npos) return;
    text.remove_prefix(end + 1);
    const auto whose = speaker_;
    speaker_.reset();  // another one says so
    const std::string whole = std::exchange(line, "");
    take_(whose, whole);
  }
}

void RankOutput::finish() {
  give(std::exchange(pending_, ""));
  for (auto& [rank, line] : lines_)
    if (!line.empty()) take_(rank, std::exchange(line, "") + "\n");
}

}  // namespace shardwright

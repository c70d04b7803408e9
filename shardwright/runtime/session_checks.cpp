// Whether what ranks keep is what it should be.
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include "shardwright/base/checksum.h"
#include "shardwright/base/index.h"
#include "shardwright/runtime/session_state.h"

namespace shardwright {
namespace {

/// A value in one of its stages.
struct KeptPlace {
  const Kept* value = nullptr;
  int stage = 0;
  ValueId v;
};

std::vector<KeptPlace> places_of(const KeptValues& kept) {
  std::vector<KeptPlace> out;
  for (const Kept& value : kept.all())
    for (const auto& [stage, v] : value.places) out.push_back({&value, stage, v});
  return out;
}

/// Of the ranks that hold one part: `rank 2 differs from ranks 0, 1`, by what most of them hold.
std::string odd_ones(const std::map<std::uint64_t, std::vector<int>>& by_sum) {
  const auto most =
      std::ranges::max_element(by_sum, {}, [](const auto& entry) { return entry.second.size(); });
  std::vector<int> others;
  for (const auto& [sum, ranks] : by_sum)
    if (sum != most->first) others.insert(others.end(), ranks.begin(), ranks.end());
  std::ranges::sort(others);
  return fmt::format("rank{} {} from rank{} {}", others.size() == 1 ? "" : "s", fmt::join(others, ", "),
                     most->second.size() == 1 ? "" : "s", fmt::join(most->second, ", "));
}

/// As numbers, for other processes; texts that are longer are cut.
constexpr std::size_t numbers_of_odd = 64, numbers_before_text = 5;

std::vector<std::uint64_t> packed(const std::optional<OddValue>& odd) {
  std::vector<std::uint64_t> out(numbers_of_odd);
  if (!odd) return out;
  out[0] = 1 + static_cast<std::uint64_t>(odd->from);
  out[1] = static_cast<std::uint64_t>(odd->stage);
  out[2] = static_cast<std::uint64_t>(odd->node);
  out[3] = static_cast<std::uint64_t>(odd->micro_batch);
  out[4] = std::min(odd->what.size(), (numbers_of_odd - numbers_before_text) * 8);
  std::memcpy(&out[numbers_before_text], odd->what.data(), out[4]);
  return out;
}

std::optional<OddValue> unpacked_odd(const std::vector<std::uint64_t>& numbers) {
  if (numbers[0] == 0) return std::nullopt;
  OddValue out{.from = static_cast<OddValue::From>(numbers[0] - 1),
               .stage = static_cast<int>(numbers[1]),
               .node = static_cast<int>(numbers[2]),
               .micro_batch = static_cast<int>(numbers[3])};
  out.what.resize(numbers[4]);
  std::memcpy(out.what.data(), &numbers[numbers_before_text], numbers[4]);
  return out;
}

std::string text_of(const OddValue& odd, int rank, const Pipeline& pipeline) {
  using From = OddValue::From;
  std::string out = odd.what;
  if (odd.from == From::transfer) out += ", which brought it from another rank or stage,";
  out += fmt::format(" on rank {}", rank);
  if (pipeline.stage_count() > 1) out += fmt::format(" of stage {}", odd.stage);
  if (pipeline.micro_batches() > 1) out += fmt::format(", micro-batch {}", odd.micro_batch);
  return out;
}

}  // namespace

Session::Snapshot Session::snapshot() const {
  State& s = *state_;
  Snapshot out(s.ranks.size());
  s.driver.read([&](Rank& rank) {
    for (const KeptPlace& place : places_of(s.kept)) {
      if (!s.pipeline.has(place.stage, rank.number())) continue;
      const TensorView view = rank.view(place.stage, place.v);
      Tensor& value =
          out[at(rank.number() - s.ranks.front().number())].emplace_back(Type{view.dtype, view.shape});
      rank.backend().read(value.bytes(), view.data);
    }
  });
  return out;
}

void Session::restore(const Snapshot& before) {
  State& s = *state_;
  s.driver.run([&](Rank& rank) {
    auto value = before[at(rank.number() - s.ranks.front().number())].begin();
    for (const KeptPlace& place : places_of(s.kept))
      if (s.pipeline.has(place.stage, rank.number()))
        rank.backend().write(rank.view(place.stage, place.v).data, (value++)->bytes());
  });
}

std::vector<std::vector<std::uint64_t>> Session::checksums() const {
  State& s = *state_;
  const std::vector<KeptPlace> places = places_of(s.kept);
  std::vector<std::vector<std::uint64_t>> out(s.ranks.size(), std::vector<std::uint64_t>(places.size()));
  s.driver.read([&](Rank& rank) {
    std::vector<std::byte> room;
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (!s.pipeline.has(places[i].stage, rank.number())) continue;
      const TensorView view = rank.view(places[i].stage, places[i].v);
      std::span<const std::byte> bytes(view.data, at(view.size()) * size_of(view.dtype));
      if (!rank.backend().is_host()) {
        room.resize(bytes.size());
        rank.backend().read(room, view.data);
        bytes = room;
      }
      out[at(rank.number() - s.ranks.front().number())][i] = checksum(bytes);
    }
  });
  return out;
}

std::vector<std::string> Session::checksum_names() const {
  std::vector<std::string> out;
  for (const KeptPlace& place : places_of(state_->kept)) out.push_back(place.value->name);
  return out;
}

Session::Replicas Session::compare_replicas() const {
  State& s = *state_;
  s.driver.check_usable();
  std::vector<std::vector<std::uint64_t>> sums = checksums();
  if (s.has_others()) sums = s.together("comparing replicas", [&] { return s.gather->of_all(sums.front()); });
  Replicas out;
  std::int64_t differing = 0;
  const std::vector<KeptPlace> places = places_of(s.kept);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Program& program = s.pipeline.stage(places[i].stage);
    const int first = s.pipeline.first_rank(places[i].stage);
    std::map<std::string, std::map<std::uint64_t, std::vector<int>>>
        parts;  // by where they lie, and checksum
    for (int r = first; r < first + program.rank_count(); ++r)
      parts[to_text(box_of(program.graph, places[i].v, r - first))][sums[at(r)][i]].push_back(r);
    bool has_copies = false, differs = false;
    for (const auto& [where, by_sum] : parts) {
      has_copies = has_copies || by_sum.size() > 1 || by_sum.begin()->second.size() > 1;
      if (by_sum.size() == 1) continue;
      differs = true;
      if (out.difference.empty())
        out.difference = fmt::format("'{}' differs on {}", places[i].value->name, odd_ones(by_sum));
    }
    out.values += has_copies;
    differing += differs;
  }
  if (differing > 1)
    out.difference +=
        fmt::format(", and so do copies of {} more value{}", differing - 1, differing == 2 ? "" : "s");
  return out;
}

std::optional<Session::Odd> Session::odd_value() const {
  State& s = *state_;
  s.driver.check_usable();
  std::vector<std::vector<std::uint64_t>> all;
  for (const Rank& rank : s.ranks) all.push_back(packed(rank.odd_value()));
  if (s.has_others())
    all = s.together("looking for what made the loss", [&] { return s.gather->of_all(all.front()); });
  // Where all ranks do the same, the first of the list came first; what a transfer brought another rank has made.
  const auto order = [](const OddValue& o) {
    return std::tuple(o.from == OddValue::From::transfer, o.micro_batch, o.stage, o.node);
  };
  std::optional<OddValue> first;
  int rank = 0;
  for (std::size_t r = 0; r < all.size(); ++r)
    if (auto odd = unpacked_odd(all[r]); odd && (!first || order(*odd) < order(*first))) {
      first = std::move(odd);
      rank = static_cast<int>(r);
    }
  if (!first) return std::nullopt;
  const bool is_node = first->what.starts_with('%');
  return Odd{.rank = rank,
             .micro_batch = first->micro_batch,
             .text = text_of(*first, rank, s.pipeline),
             .node = is_node ? first->what.substr(0, first->what.find(' ')) : first->what};
}

}  // namespace shardwright

#include "shardwright/frontend/bound_json.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "shardwright/explain/unpriced.h"
#include "shardwright/frontend/alternatives.h"

namespace shardwright {
namespace {

/// Of each reason so many are told one by one.
constexpr std::size_t most_dropped = 100;

Json asked_json(const Tried& t) {
  const Wording asked = wording_of(t);
  Json out{{"plan", asked.text}};
  out["flag"] = asked.flag.empty() ? Json(nullptr) : Json(asked.flag);
  return out;
}

Json priced_json(const Tried& t) {
  Json out = asked_json(t);
  out["step_seconds"] = t.seconds;
  out["memory_bytes"] = std::llround(t.bytes);
  out["known_by"] = name_of(t.by);
  out["reason"] = name_of(t.fate);
  return out;
}

Json dropped_json(std::vector<const Tried*> of_reason) {
  std::ranges::stable_sort(of_reason, {}, [](const Tried* t) { return t->least_seconds; });
  Json out{
      {"reason", name_of(of_reason.front()->fate)}, {"count", of_reason.size()}, {"plans", Json::array()}};
  of_reason.resize(std::min(of_reason.size(), most_dropped));
  for (const Tried* t : of_reason) {
    Json plan = asked_json(*t);
    if (t->least_seconds > 0) plan["least_seconds"] = t->least_seconds;
    if (t->bytes > 0) plan["least_bytes"] = std::llround(t->bytes);
    if (!t->why.empty()) plan["why"] = t->why;
    out["plans"].push_back(std::move(plan));
  }
  return out;
}

Json limit_json(const Bound& bound, const Evaluation& evaluation) {
  const Binding& b = bound.binding;
  Json out = nullptr;
  if (b.by == Limit::memory) {
    if (b.misfit) out = priced_json(*b.misfit);
    const double cap = static_cast<double>(evaluation.cap_bytes);
    out["excess_bytes"] = b.misfit ? std::llround(b.misfit->bytes - cap) : evaluation.excess_bytes();
    return out;
  }
  if (b.by == Limit::fixed) {
    out = {{"fixed", b.fixed}};
    out["known"] = b.other.empty() ? Json(nullptr) : Json(b.other);
    out["ask"] = command_of(b);
  }
  const auto left = unpriced(bound.tried, evaluation.estimate.step_seconds());
  if (left > 0) out["unpriced"] = left;
  return out;
}

/// `told`: of `tried` those that `has_price`, in order.
void add_alternatives(Json& document, const std::vector<Tried>& told, const std::vector<Tried>& tried,
                      bool (*has_price)(const Tried&)) {
  document["alternatives"] = Json::array();
  for (const Tried& t : told) document["alternatives"].push_back(priced_json(t));
  std::map<Fate, std::vector<const Tried*>> dropped;
  for (const Tried& t : tried)
    if (t.fate != Fate::taken && !has_price(t)) dropped[t.fate].push_back(&t);
  document["dropped"] = Json::array();
  for (auto& [fate, of_reason] : dropped) document["dropped"].push_back(dropped_json(std::move(of_reason)));
}

}  // namespace

void add_bound(Json& document, const Bound& bound, const Evaluation& evaluation) {
  document["binding"] = name_of(bound.binding.by);
  document["binding_by"] = limit_json(bound, evaluation);
  if (const auto& free = bound.unfixed)
    document["unfixed"] = {{"fixed", bound.binding.fixed},
                           {"plan", free->plan},
                           {"step_seconds", free->step_seconds},
                           {"memory_bytes", free->memory_bytes},
                           {"fits", free->fits}};
  add_alternatives(document, that_lost(bound.tried), bound.tried, is_priced);
}

void add_nearest(Json& document, const std::vector<Tried>& tried) {
  add_alternatives(document, nearest(tried), tried, is_near);
}

}  // namespace shardwright

#include "shardwright/frontend/alternatives.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>
#include <utility>

#include "shardwright/base/text.h"
#include "shardwright/explain/other_values.h"
#include "shardwright/explain/unpriced.h"
#include "shardwright/frontend/table.h"
#include "shardwright/search/automatic/structure.h"

namespace shardwright {
namespace {

std::string rounded_bytes_text(double bytes) { return bytes_text(std::llround(bytes)); }

/// `lost: --set dp=8,..: 7.5 s and 91.2 GB`, of at most three. What takes as much as one in `told` is mostly the same in
/// other words.
std::string lines_of(std::string_view word, const std::vector<Tried>& tried,
                     std::vector<std::pair<double, double>> told) {
  constexpr std::size_t most = 3;
  const std::size_t end = told.size() + most;
  std::string out;
  for (const Tried& t : tried) {
    if (told.size() == end) break;
    const std::pair price{t.seconds, t.bytes};
    if (std::ranges::find(told, price) != told.end()) continue;
    told.push_back(price);
    out += fmt::format("{}: {}: {}\n", word, asked_text(t), price_text(t));
  }
  return out;
}

}  // namespace

std::string asked_text(const Tried& t) {
  const Wording asked = wording_of(t);
  if (asked.flag.empty()) return asked.text;
  return fmt::format("{} {}", asked.flag, shell_quoted(asked.text));
}

std::string price_text(const Tried& t) {
  constexpr std::array<std::string_view, 3> nearness{"at least ", "about ", ""};
  return fmt::format("{}{} and {}", nearness[static_cast<std::size_t>(t.by)], seconds_text(t.seconds),
                     rounded_bytes_text(t.bytes));
}

Wording wording_of(const Tried& tried) {
  if (!tried.words.empty()) return {"", tried.words};
  const automatic::Said said = automatic::said(tried.structure);
  return {std::string(said.flag), said.text};
}

std::vector<Tried> that_lost(std::vector<Tried> tried) {
  std::erase_if(tried, [](const Tried& t) { return t.fate == Fate::taken || !is_priced(t); });
  std::ranges::stable_sort(tried, {}, [](const Tried& t) {
    return std::tuple(t.fate == Fate::misfit, t.by != KnownBy::program, t.seconds);
  });
  return tried;
}

std::string command_of(const Binding& binding, std::string_view plan) {
  const auto end = binding.fixed.find('=');
  const std::string word = binding.fixed.substr(0, end);
  return end != std::string::npos && has_other_values(word)
             ? fmt::format("explain {} {}", plan, word)
             : fmt::format("explain {} --why-not CONSTRAINTS", plan);
}

std::string binding_text(const Bound& bound, const Evaluation& evaluation) {
  const Binding& binding = bound.binding;
  const auto left = unpriced(bound.tried, evaluation.estimate.step_seconds());
  const std::string unknown =
      left == 0 ? ""
                : fmt::format("; {} others that do not fit may be faster; they were not looked at", left);
  if (binding.by == Limit::time) return "time" + unknown;
  if (binding.by == Limit::fixed)
    return fmt::format("fixed: {}{}; {} prices others{}", binding.fixed,
                       binding.other.empty() ? "" : "; " + binding.other, command_of(binding), unknown);
  if (!binding.misfit)
    return fmt::format("memory: it takes {} more than there is", bytes_text(evaluation.excess_bytes()));
  const Tried& t = *binding.misfit;
  return fmt::format("memory: {} takes {} but {}, {} more than there is", asked_text(t),
                     seconds_text(t.seconds), rounded_bytes_text(t.bytes),
                     rounded_bytes_text(t.bytes - static_cast<double>(evaluation.cap_bytes)));
}

namespace {

/// `unfixed: without pp=4 the search finds dp=8,..: 7.5 s and 70.1 GB (4.6% faster)`; nothing where nobody has looked.
std::string unfixed_text(const Bound& bound, const Evaluation& evaluation) {
  if (!bound.unfixed) return "";
  const Unfixed& u = *bound.unfixed;
  return fmt::format("unfixed: without {} the search finds {}: {} and {} ({}{})\n", bound.binding.fixed,
                     u.plan, seconds_text(u.step_seconds), bytes_text(u.memory_bytes),
                     against_text(u.step_seconds, evaluation.estimate.step_seconds()),
                     u.fits ? "" : "; it does not fit");
}

}  // namespace

std::string against_text(double to, double from) {
  const double percent = 100 * (to / from - 1);
  if (std::abs(percent) < 0.05) return "as fast";
  return fmt::format("{:.1f}% {}", std::abs(percent), percent > 0 ? "slower" : "faster");
}

std::string text_of(const Bound& bound, const Evaluation& evaluation) {
  std::vector<Tried> lost = that_lost(bound.tried);
  std::erase_if(lost, [](const Tried& t) { return t.fate == Fate::misfit; });
  const std::pair own{evaluation.estimate.step_seconds(),
                      static_cast<double>(evaluation.estimate.arena_bytes)};
  return fmt::format("binding: {}\n", binding_text(bound, evaluation)) + unfixed_text(bound, evaluation) +
         lines_of("lost", lost, {own});
}

std::string margin_text(const Bound& bound, const Evaluation& evaluation, const Cluster& cluster) {
  if (evaluation.cap_bytes != usable_bytes(cluster)) return "";
  const double own = evaluation.estimate.step_seconds();
  const auto left = static_cast<double>(left_bytes(cluster));
  const Tried* best = nullptr;
  for (const Tried& t : bound.tried) {
    const bool is_kept_out = t.fate == Fate::misfit && is_priced(t) && t.bytes <= left;
    if (is_kept_out && t.seconds < as_long * own && (!best || t.seconds < best->seconds)) best = &t;
  }
  return best ? fmt::format("margin: {}: {} ({}) with --memory-margin 0\n", asked_text(*best),
                            price_text(*best), against_text(best->seconds, own))
              : "";
}

std::string text_of(const Remedy& remedy) {
  return fmt::format("{} takes {} and {}", remedy.change, seconds_text(remedy.step_seconds),
                     bytes_text(remedy.memory_bytes));
}

bool is_near(const Tried& t) {
  return is_priced(t) || (t.fate == Fate::misfit && t.seconds > 0 && t.bytes > 0);
}

std::vector<Tried> nearest(std::vector<Tried> tried) {
  std::erase_if(tried, [](const Tried& t) { return !is_near(t); });
  std::ranges::stable_sort(
      tried, {}, [](const Tried& t) { return std::tuple(t.by == KnownBy::bound, t.bytes, t.seconds); });
  return tried;
}

std::string nearest_text(const std::vector<Tried>& tried) { return lines_of("nearest", nearest(tried), {}); }

}  // namespace shardwright

#include "shardwright/plan/reason.h"

#include <array>

#include "shardwright/base/text.h"

namespace shardwright {
namespace {

constexpr std::array<std::string_view, 3> beginnings{"from ", "from data ", "to "};
constexpr std::string_view nothing = "no communication";

bool parse_neighbour(std::string_view text, Reason& to) {
  const std::size_t colon = text.find(": ");
  if (colon == text.npos) return false;
  for (const Reason::Neighbour::Kind kind :
       {Reason::Neighbour::data, Reason::Neighbour::from, Reason::Neighbour::to}) {
    const std::string_view begin = beginnings[static_cast<std::size_t>(kind)];
    if (!text.starts_with(begin) || colon <= begin.size()) continue;
    const std::string_view moves = text.substr(colon + 2);
    to.neighbours.push_back({kind, std::string(text.substr(begin.size(), colon - begin.size())),
                             moves == nothing ? "" : std::string(moves)});
    return true;
  }
  return false;
}

}  // namespace

std::string to_text(const Reason& reason) {
  std::vector<std::string> out;
  for (const Reason::Neighbour& n : reason.neighbours)
    out.push_back(fmt::format("{}{}: {}", beginnings[static_cast<std::size_t>(n.kind)], n.name,
                              n.moves.empty() ? nothing : n.moves));
  out.insert(out.end(), reason.notes.begin(), reason.notes.end());
  return join(out, "; ");
}

Reason parse_reason(std::string_view text) {
  Reason out;
  // Files of version 1 have it behind the last neighbour.
  constexpr std::string_view changed = ", changed to move less in all";
  const bool has_changed = text.ends_with(changed);
  if (has_changed) text.remove_suffix(changed.size());
  for (std::string_view part : split(text, ';')) {
    part = trim(part);
    if (part.empty() || (out.notes.empty() && parse_neighbour(part, out))) continue;
    const bool is_step = out.notes.empty() && !out.neighbours.empty() &&
                         !out.neighbours.back().moves.empty() && part.ends_with(")");
    if (is_step)  // a redistribution has several
      out.neighbours.back().moves += "; " + std::string(part);
    else
      out.notes.emplace_back(part);
  }
  if (has_changed) out.notes.emplace_back(changed.substr(2));
  return out;
}

}  // namespace shardwright

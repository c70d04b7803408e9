#include "shardwright/search/automatic/stock.h"

#include <algorithm>

namespace shardwright::automatic {

Shelf& Stock::of(const Row& row) {
  const auto found = std::ranges::find(shelves_, row, &Shelf::row);
  return found != shelves_.end() ? *found : shelves_.emplace_back(Shelf{.row = row, .whole = whole_row(row)});
}

Figures Stock::figures(const Network::Part& part, bool is_layer, const Constraints& s,
                       const FiguresFor& what) {
  FiguresFor own = what;
  own.is_step = what.is_step && is_tied(part);  // others are the same
  Cluster stage = what.stage;
  stage.name.clear();
  auto found = std::ranges::find(stages_, stage, &std::pair<Cluster, Known>::first);
  if (found == stages_.end()) found = stages_.emplace(stages_.end(), std::move(stage), Known{});
  const auto [it, is_new] = found->second.try_emplace({&part, of_pieces(s), what.backward, own.is_step});
  if (is_new) try {
      it->second = figures_of(part, is_layer, s, own);
    } catch (...) {
      found->second.erase(it);
      throw;
    }
  return it->second;
}

}  // namespace shardwright::automatic

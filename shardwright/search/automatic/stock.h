// What searches of one network make of it, and keep for each other: its pieces, and what these take on the devices of a stage.
// On other numbers of devices of a cluster most stages are the same. And for whoever has asked: what the last one looked at.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "shardwright/plan/tried.h"
#include "shardwright/search/automatic/figures.h"

namespace shardwright::automatic {

/// Cut into pieces in one way.
struct Shelf {
  Row row, whole;  // as pieces, and as one
  struct Made {
    std::unique_ptr<Network> network;  // null: it cannot be cut so
    std::string why = {};
  };
  std::map<std::tuple<int, int, bool>, Made>
      networks;  // by micro-batches, those that are summed, and whether it is whole
};

class Stock {
 public:
  /// By the last search, the plan that it took among it. Of a search that makes no programs nothing, nor of one of several
  /// stages one by one.
  std::vector<Tried> tried;

  /// Stays where it is.
  Shelf& of(const Row& row);

  /// As figures_of; of a network of a shelf. What is asked may differ in how many devices there are, and in their memory.
  Figures figures(const Network::Part& part, bool is_layer, const Constraints& s, const FiguresFor& what);

 private:
  using Known = std::map<std::tuple<const Network::Part*, Constraints, Backward, bool>, Figures>;

  std::list<Shelf> shelves_;
  std::list<std::pair<Cluster, Known>> stages_;  // whatever the cluster is called
};

}  // namespace shardwright::automatic

// What a rank does in a section, as the simulation walks over it (simulate/simulation.cpp): kernels that follow one another
// are one operation, and so is a stretch that takes as long every time.
#pragma once

#include <utility>
#include <vector>

#include "shardwright/simulate/simulation.h"

namespace shardwright {

struct Operation {
  enum class Kind : std::uint8_t {
    work,    // `seconds` of computing
    start,   // `what`: transfer
    finish,  // `what`: transfer
    stretch  // `what`: stretch
  };
  Kind kind = Kind::work;
  int what = 0;
  double seconds = 0;
  int instruction = 0;  // of the section: the first that it stands for
};

/// Operations that begin and end with nothing of theirs in flight, on links that only they use.
struct Stretch {
  double work = 0;
  double seconds = 0;                         // work, and waiting for transfers
  std::vector<std::pair<int, double>> waits;  // by transfer
};

struct Script {
  std::vector<std::vector<Operation>> sections;
  std::vector<Stretch> stretches;
};

/// `joins`: kernels and stretches are joined. `shared`: by level of links, that crossings use them.
Script script_of(const TimedStep& rank, bool joins, const std::vector<bool>& shared);

/// Operations of a section alone, begun with nothing in flight.
Stretch timed_alone(const TimedStep& rank, int section, std::vector<Operation> operations, int levels);

}  // namespace shardwright

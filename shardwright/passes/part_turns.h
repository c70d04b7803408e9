// In which order the parts of a micro-batch take turns on the one device that computes: while what one of them waits for is
// on its way, another computes.
//
// All parts do the same items in the same order, each part behind the one before it, since it may need what that has left.
// Whenever the device is free, of the parts that wait for nothing that one goes on which is nearest to starting its next
// transfer; if all wait, the one whose transfer arrives first. Transfers go one after the other. That is a list schedule
// (Graham 1966) whose priority keeps the links busy.
#pragma once

#include <span>
#include <vector>

namespace shardwright {

/// What a part does at one go.
struct PartItem {
  double seconds = 0;           // of computing, by each part
  double first_seconds = 0;     // besides by the first part, for all
  double last_seconds = 0;      // besides by the last one
  double transfer_seconds = 0;  // of a transfer that it waits for; 0: none
  int operand = -1;             // the item behind which that may start; -1: before all of them
};

struct Turn {
  int item = 0;
  int part = 0;
};

/// Each part takes each item once. Cost: O(items * parts).
std::vector<Turn> part_turns(std::span<const PartItem> items, int parts);

}  // namespace shardwright

// A node of a job that is not the first: it waits, runs what node 0 starts here, and ends as the job does.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "shardwright/runtime/launch/assembly.h"

namespace shardwright {

struct NodeOptions {
  std::string address;  // of node 0
  int port = 0;
  int node = 1;
  NodeWords words;
  std::chrono::nanoseconds timeout{};            // for node 0 to be there, and for its signs of life
  std::function<int()> interrupts;               // how often the user has wanted to stop
  std::function<void(std::string_view)> output;  // what ranks of this node print
  std::function<void(std::string_view)> errors;
};

/// Returns the status of the job. Throws: Error if node 0 is not there, or refuses; of kind timeout if it is lost.
int run_node(const NodeOptions& options);

}  // namespace shardwright

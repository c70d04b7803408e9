// Steps over the same axes that run as one, a bucket: it starts once, and by all of its bytes an all_reduce goes up a tree or
// round a ring.
#pragma once

#include <cstdint>

#include "shardwright/layout/redistribution.h"
#include "shardwright/lower/program.h"

namespace shardwright {

/// Bytes that a device receives, and that it holds at most, before or behind.
struct JoinedBytes {
  std::int64_t received = 0, held = 0;

  JoinedBytes& operator+=(const JoinedBytes& other) {
    received += other.received, held += other.held;
    return *this;
  }
};

/// Of one step node.
JoinedBytes joined_bytes(const Graph& graph, const Node& node, Redistributor& redistributor);

/// Seconds of starting, and of moving the bytes.
struct JoinedPrice {
  double starting = 0, moving = 0;

  double seconds() const { return starting + moving; }
};

/// What steps like `step`, which is a collective, take that have `all` together.
JoinedPrice joined_price(Step step, const JoinedBytes& all, const Redistributor& redistributor);

}  // namespace shardwright

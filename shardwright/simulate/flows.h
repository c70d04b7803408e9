// What moves over the links of a cluster at the same time, and shares them.
//
// A flow takes its parts one after the other: seconds that use no link (starts, latencies), and bytes on the links of one
// level. Each device of a group has one way out and one way in on every level; n flows on a way get 1/n of it each. Some
// flows go on slower while their group computes: at its pace.
#pragma once

#include <cstdint>
#include <limits>
#include <queue>
#include <span>
#include <vector>

namespace shardwright {

struct FlowPart {
  int level = -1;      // of the cluster's links; -1: none
  double seconds = 0;  // if nothing else is there, at full pace
};

/// From a group's devices to another's; a collective is a flow from a group to itself.
struct FlowWay {
  int from = 0;
  int to = 0;
  bool is_paced = false;  // by `from`
};

class Flows {
 public:
  Flows(int groups, int levels);

  /// Begins a flow; `parts` must outlive it. Returns its number, which is that of no other flow in flight.
  int start(std::span<const FlowPart> parts, const FlowWay& way, double now);
  /// How many of their seconds paced flows of a group get done in a second, from now on.
  void set_pace(int group, double pace, double now);

  static constexpr double never = std::numeric_limits<double>::infinity();
  /// When the next flow reaches the end of a part.
  double next();
  /// Lets the flow at next() go on there. Returns its number if that was its last part, or -1.
  int step();

 private:
  struct Flow {
    std::span<const FlowPart> parts;
    FlowWay way;
    std::size_t part = 0;
    double left = 0;  // seconds of the part
    double rate = 0;
    double since = 0;          // when `left` was so
    int on_level = -1;         // whose ways it is on
    std::int64_t version = 0;  // of its end; 0: it has ended
  };
  struct End {
    double time;
    int flow;
    std::int64_t version;
    bool operator>(const End& other) const {
      return time != other.time ? time > other.time : flow > other.flow;
    }
  };

  std::vector<int>& out_of(int group, int level);
  std::vector<int>& into(int group, int level);
  double pace_of(const Flow& flow) const;
  void begin_part(Flow& flow, double now);
  void join(int flow, double now);
  void quit(int flow, double now);
  void refresh(int flow, double now);
  void refresh_users(const FlowWay& way, int level, double now);

  int levels_;
  std::vector<Flow> flows_;
  std::vector<int> free_;                // numbers of flows that have ended
  std::vector<std::vector<int>> users_;  // flows on each way: out of a group's device on a level, and into it
  std::vector<std::vector<int>> paced_;  // flows of each group
  std::vector<double> pace_;             // of each group
  std::int64_t versions_ = 0;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
};

}  // namespace shardwright

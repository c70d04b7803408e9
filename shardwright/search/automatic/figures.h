// What one piece of a network takes on the devices of a stage, from the program that it becomes there.
//
// What data parallelism adds does not depend on samples: it is told apart from what the piece takes alone.
#pragma once

#include <array>
#include <cstdint>

#include "shardwright/search/automatic/network.h"
#include "shardwright/search/automatic/structure.h"
#include "shardwright/simulate/late_transfers.h"

namespace shardwright::automatic {

struct Figures {
  double forward = 0, backward = 0;  // seconds of a micro-batch, with what it waits for
  double update = 0;                 // seconds of a step
  /// Of `backward` those of gradients of weights, with what these wait for, where they are tasks by themselves; 0: nobody has looked.
  double weights = 0;
  double received = 0;             // bytes that a device receives of a micro-batch, in the forward
  double sent = 0, sent_back = 0;  // and that it sends, in the forward and in the backward
  double tied = 0;                 // and once a step: parameters of other pieces
  double returned = 0;             // and for the update: gradients of those that others have of this one
  double parameters = 0, states = 0, sums = 0;  // bytes that last; of gradients their sums
  double least_gradients = 0;                   // bytes of gradients that the framework keeps, at least
  double scores = 0;                            // bytes of its copies of scores, if these are made here
  double gradients = 0;                         // bytes that wait for the update, where nothing is summed
  double kept = 0;                              // bytes of a micro-batch from its forward to its backward
  double to_inputs =
      0;              // of these, where backwards are cut in two, those that gradients of weights do not read
  double left = 0;    // and bytes from gradients of inputs to those of weights
  double on_way = 0;  // of these, bytes that are on the device at once where all go to the host and come back
  double hosted = 0, hosted_kept = 0;  // bytes on the host: that last, and of a micro-batch
  double passing = 0;  // bytes beside what lasts and is kept, where most are: with its own gradients
  double working = 0;  // the same without gradients
  double moving = 0;   // most bytes of gradients and of what collectives read and make
  /// Seconds of transfers in the forward and backward of a micro-batch, and in the update; of a whole stage only those
  /// that data parallelism adds, which `forward` and `backward` are without.
  OfPhases<double> transfers = {};
  /// Seconds of what passes make and the update waits for, once a step however many micro-batches there are: it begins in the
  /// last backward.
  double late = 0;
  double gradient_transfers = 0;  // of those of the backward, of sums of gradients
  /// Of `transfers` and `late`, what starting those of parameters takes; none: other pieces' do not join them.
  PieceStarts starts = {};
  /// Of these passes, seconds of the transfers that go over the same links as those of data parallelism.
  std::array<double, 2> contended = {};

  /// What passes move is in their seconds already.
  void wait_in_passes() {
    transfers[Phase::forward] = transfers[Phase::backward] = gradient_transfers = 0;
    starts.gathers = {}, starts.sums = {};
  }

  double lasting() const { return parameters + states + sums; }
};

/// Of a micro-batch that is `share` of the way from that of `few` to that of `more`: they are nearly linear in its samples.
Figures between(const Figures& few, const Figures& more, double share);

/// As they are at least where `replicas` share them by that level of optimizer parallelism.
Figures sharded(Figures alone, int level, int replicas);

/// With shares of them on the host, to which a device has the link of `cluster`: copies go on beside all else.
Figures offloaded(Figures alone, const Offload& offload, const Cluster& cluster);

/// What of a piece's backward is told.
enum class Backward : std::uint8_t {
  alone,       // the update comes behind it
  in_two,      // gradients of inputs, then those of weights: how it falls apart
  with_update  // a parameter changes where its gradient is made: no stage, replica or micro-batch waits for it
};

/// Where, and for what, figures are.
struct FiguresFor {
  const PlanRequest& request;
  const Cluster& stage;  // its devices
  int summed = 1;        // micro-batches, of which gradients are added up
  Backward backward = Backward::alone;
  /// No other stage has any of it: gradients that two pieces have of one parameter are added up before those of replicas are.
  bool is_step = false;
  bool has_layers = false;  // the network, by names (plan/recompute.h)
};

/// Two pieces have a parameter of `part` between them.
bool is_tied(const Network::Part& part);

/// Of `part`; of backwards in two how they fall apart, and bytes, alone. `is_layer`: of repeated layers, not of what lies between. Throws: Error where `s` cannot split it.
Figures figures_of(const Network::Part& part, bool is_layer, const Constraints& s, const FiguresFor& what);

}  // namespace shardwright::automatic

// The part of a transfer that crosses the network, as messages of MPI.
//
// Moves send each piece from its holder. What all members of a host want alike, as of an all_gather, one of them receives,
// each its share of the pieces, and the others take it from that one's result.
//
// A reduction is taken box by box. On each host one member, the box's adder there, reduces its host's operands over it. Then
// either one adder gets the sums of all hosts and sends back what they come to; or, between two hosts and of what is
// small, all adders send each other their sums, which takes half as long. On its host nobody but the adder touches
// a box, so results may be the operands. Large boxes are cut, so that sums of one part are taken while another crosses.
// Sums are taken in the order of the hosts: the same bits on every rank and in every run.
//
// Of rows that are routed a message has those alone that the host has experts of which it goes to, or comes from; both ends know
// the ids, so they know its size.
//
// Who wants what from other hosts is exchanged once, by the constructor. Messages wait for nobody: `advance`
// does what can be done now.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "shardwright/layout/transfer.h"
#include "shardwright/runtime/communicator/network_messages.h"
#include "shardwright/runtime/communicator/shared.h"

namespace shardwright {

class NetworkMove {
 public:
  /// All members construct theirs at the same time, in one order. `buffers` outlives it.
  NetworkMove(Network& network, MessageBuffers& buffers, const Transfer& t, std::size_t element_bytes);

  void start(const SharedPart& part);
  bool advance() { return messages_.have_come(); }
  void add_missing(std::vector<int>& out) const { messages_.add_missing(out); }
  /// Puts what has come into this rank's result.
  void finish(SharedPart& part);
  /// Behind that all members of this host have done so: takes what they have received for it, too.
  void take_from_others(SharedPart& part) const;

 private:
  struct Message {
    int member = 0;
    std::vector<Piece> pieces = {};
    std::size_t size = 0;               // in bytes, at most
    std::vector<std::byte> bytes = {};  // only while it is on its way
    std::size_t host = 0;               // that has use for it
  };

  std::size_t size_of(const Message& m, const SharedPart& part) const;
  std::byte* pack_of(const Piece& piece, const std::byte* from, std::byte* packed, std::size_t host,
                     const SharedPart& part) const;
  const std::byte* unpack_of(const Piece& piece, const std::byte* packed, std::size_t host,
                             const SharedPart& part) const;

  MessageBuffers* buffers_;
  Messages messages_;
  std::vector<Message> sends_;
  std::vector<Message> receives_;
  std::vector<Piece> taken_;  // from results of members here, which are their sources
  ExpertSets by_host_;        // of rows that are routed
};

/// A box of a reduction.
struct NetworkBox {
  Piece box;
  std::vector<int> adders;  // by host: the member that reduces that host's operands over it
  std::optional<std::size_t> one =
      {};          // the host whose adder reduces what comes from the hosts; none: all of them do
  int number = 0;  // of its messages
};

/// One of the adders of a box.
class NetworkSum {
 public:
  NetworkSum(MessageBuffers& buffers, const Messages& messages, NetworkBox box, std::size_t own_host,
             std::size_t element_bytes, ExpertSets by_host = {});

  void start(const SharedPart& part);
  bool is_done() const { return stage_ == Stage::done; }
  /// Its host's operands have not been reduced yet.
  bool is_opening() const { return stage_ == Stage::opening; }
  /// As that of NetworkTransfer.
  bool advance(SharedPart& part, bool has_opened);
  void add_missing(std::vector<int>& out) const { messages_.add_missing(out); }
  void finish(SharedPart& part);

 private:
  enum class Stage { opening, collecting, returning, done };

  bool reduces_all() const { return !box_.one || *box_.one == own_host_; }
  void reduce_here(SharedPart& part);
  void reduce_all(SharedPart& part);
  void reduce_rows(SharedPart& part);
  /// Of what comes from a host.
  std::size_t size_from(std::size_t host, const SharedPart& part) const;

  MessageBuffers* buffers_;
  Messages messages_;
  NetworkBox box_;
  std::size_t own_host_;
  std::size_t size_;  // in bytes
  Stage stage_ = Stage::done;
  std::vector<std::vector<std::byte>> sums_;  // by host
  std::vector<const std::byte*> operands_;    // likewise
  std::vector<const std::byte*> addends_;     // of one row
  std::vector<std::byte> result_;
  ExpertSets by_host_;  // of rows that are routed
};

/// Of one part of a transfer.
class NetworkTransfer {
 public:
  /// All members construct theirs at the same time, in one order. `buffers` outlives the transfer.
  NetworkTransfer(Network& network, MessageBuffers& buffers, const Transfer& t, const SharedPart& part);

  /// Before that the operand of this rank is ready.
  void start(const SharedPart& part);
  /// Goes on as far as messages have come; true once all has. `has_opened`: whether all members of this host
  /// have started. Writes to the results of an all_reduce only.
  bool advance(SharedPart& part, bool has_opened);
  /// Adds the members of which messages have not come, or not gone.
  void add_missing(std::vector<int>& out) const;
  /// Once all has come: puts it into this rank's result.
  void finish(SharedPart& part);
  /// Behind that all members of this host have done so, where `receives_for_others` says so.
  void take_from_others(SharedPart& part) const;

  /// Whether members of one host receive for each other what `t` moves.
  static bool receives_for_others(const Transfer& t) { return t.kind == StepKind::all_gather; }

 private:
  std::optional<NetworkMove> move_;
  std::vector<NetworkSum> sums_;
};

}  // namespace shardwright

// The part of a transfer that crosses the network, as messages of MPI.
//
// Moves send each piece from its holder. The parts of a reduction are `wanted` boxes, one per member. On each
// other host one member, the helper, sums its host's operands over the box and sends them to the member that
// wants it; an all_reduce cuts the flat elements into as many boxes as members, and sends the results back
// through the helpers. On its host nobody but the helper (or the wanting member) touches a box, so results may
// be the operands. Sums are taken in the order of the hosts: the same bits on every rank and in every run.
//
// Who wants what from other hosts is exchanged once, by the constructor. Messages wait for nobody: `advance`
// does what can be done now. A piece that several members of a host want crosses once for each of them.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <map>
#include <vector>

#include "shardwright/layout/transfer.h"
#include "shardwright/runtime/communicator/shared.h"

namespace shardwright {

/// The members of a group that lies on several hosts.
struct Network {
  MPI_Comm members = MPI_COMM_NULL;
  std::vector<int> hosts;  // by member: a number of its host, ascending with the host's first rank
  int self = 0;            // this rank's place among the members
  int prepared = 0;        // transfers; members count alike, so each has tags of its own

  bool is_here(int member) const;
};

/// Memory for messages that are on their way. What comes back is used again, so that a transfer prepared for many
/// micro-batches takes no more than those of them that are on their way at the same time.
class MessageBuffers {
 public:
  std::vector<std::byte> take(std::size_t bytes);
  /// Leaves `buffer` empty.
  void give_back(std::vector<std::byte>& buffer);

 private:
  std::map<std::size_t, std::vector<std::vector<std::byte>>> free_;  // by size
};

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

 private:
  struct Message {
    int member = 0;
    std::vector<Piece> pieces = {};
    std::size_t size = 0;               // in bytes
    std::vector<std::byte> bytes = {};  // only while it is on its way
  };
  enum class Stage { opening, collecting, returning, done };

  void prepare_move(const Network& network, const Transfer& t, std::size_t element_bytes);
  void prepare_reduction(const Network& network, const Transfer& t, const SharedPart& part);
  void exchange(const std::vector<Message>& out, std::vector<Message>& in, std::size_t element_bytes);
  void send_sums(SharedPart& part);
  void combine(SharedPart& part);
  void send(const std::vector<std::byte>& bytes, int member, int what);
  void receive(std::vector<std::byte>& bytes, int member, int what);
  bool have_come();
  void take_buffer(Message& m) { m.bytes = buffers_->take(m.size); }

  MessageBuffers* buffers_;
  MPI_Comm members_;
  int self_;
  int tag_;
  Stage stage_ = Stage::done;
  std::vector<MPI_Request> requests_;
  std::vector<int> partners_;      // by request: the member
  std::vector<Message> sends_;     // of moves
  std::vector<Message> receives_;  // of moves
  Piece wanted_;                   // of reductions: the box that this rank reduces over all hosts
  std::vector<Message> helped_;    // boxes wanted on other hosts, by whom
  std::vector<Message> sums_;      // of `wanted_`, by host; `member` is the helper there
  std::size_t own_host_ = 0;       // among `sums_`
  std::vector<const std::byte*> operands_;
  std::vector<std::byte> result_;
};

}  // namespace shardwright

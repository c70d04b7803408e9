// Messages of MPI between members of a group that lies on several hosts, and what is packed into them.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <map>
#include <span>
#include <vector>

#include "shardwright/layout/transfer.h"

namespace shardwright {

/// The members of a group that lies on several hosts.
struct Network {
  MPI_Comm members = MPI_COMM_NULL;
  std::vector<int> hosts;  // by member: a number of its host, ascending with the host's first rank
  int self = 0;            // this rank's place among the members
  int prepared =
      0;  // messages between any two of them at most; all count alike, so each has a tag of its own

  bool is_here(int member) const;
};

/// By host of the members, in the order of hosts.
struct MembersByHost {
  explicit MembersByHost(const Network& network);

  std::vector<std::vector<int>> members;  // ascending
  std::vector<std::size_t> host_of;       // by member
  std::size_t own = 0;                    // host
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

/// What of a message its tag says, beside its number.
enum class MessageKind { boxes, moved, sum, result };

/// Those that are on their way, to and from this rank.
class Messages {
 public:
  /// Takes so many numbers, which all members do at the same time.
  Messages(Network& network, int numbers);

  /// The bytes stay as they are, or are written, until all have come.
  void send(std::span<const std::byte> bytes, int member, MessageKind kind, int number = 0);
  void receive(std::span<std::byte> bytes, int member, MessageKind kind, int number = 0);
  /// Whether all of them have come, and gone.
  bool have_come();
  /// Adds the members of which messages have not come, or not gone.
  void add_missing(std::vector<int>& out) const;

  /// Tells each member of `out` which pieces this rank wants of it, and returns what each of `in` wants. All
  /// members do so at the same time.
  std::vector<std::vector<Piece>> exchange(const std::vector<std::pair<int, std::vector<Piece>>>& out,
                                           const std::vector<int>& in);

 private:
  int tag(MessageKind kind, int number) const;

  MPI_Comm members_;
  int first_;
  std::vector<MPI_Request> requests_;
  std::vector<int> partners_;  // by request: the member
};

std::size_t packed_bytes(const std::vector<Piece>& pieces, std::size_t element_bytes);
/// Both return where the next piece begins among the packed.
std::byte* pack(const Piece& piece, const std::byte* from, std::byte* packed, std::size_t element_bytes);
const std::byte* unpack(const Piece& piece, const std::byte* packed, std::byte* to,
                        std::size_t element_bytes);

}  // namespace shardwright

// Bytes from rank to rank outside of programs: parts of the state that go to other hosts while training goes on.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace shardwright {

class MpiProcess;

/// To or from another rank. The two say as many bytes, and those between two ranks in one order.
struct HostMessage {
  int rank = 0;  // the other
  bool is_sent = false;
  std::span<std::byte> bytes;  // not touched by others before it has ended
};

/// Messages on their way. MPI moves them whenever this process calls it, so also within the steps of a training.
class HostMessages {
 public:
  explicit HostMessages(std::span<const HostMessage> messages);
  /// Where they have not ended, as behind a failure, the memory has to stay.
  ~HostMessages();
  HostMessages(const HostMessages&) = delete;
  HostMessages& operator=(const HostMessages&) = delete;

  bool have_ended();
  /// Who is waited for is named, if it is lost.
  void wait(MpiProcess& process);

 private:
  struct Requests;
  std::unique_ptr<Requests> requests_;
};

}  // namespace shardwright

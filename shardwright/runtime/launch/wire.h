// Messages over a socket: what those who start a job together tell each other. Tensors go another way.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardwright {

struct JobMessage {
  enum class Kind : char {
    hello = 'h',    // of a node to node 0: who it is
    welcome = 'w',  // and back
    refusal = 'n',  // or: why not
    start = 's',    // run this command; of mpirun's agent: behind the host and a zero
    stop = 'k',     // end it
    output = 'o',   // of what runs there, or to be shown there
    errors = 'e',
    ended = 'x',      // the command, with this status
    interrupt = 'i',  // the user has wanted so often to stop
    keep = 'm',       // copies of states on this host, from here on, under this name (keeper.h)
    sign = 'p',       // of life
    quit = 'q',       // the job has ended, with this status
  };
  Kind kind = Kind::sign;
  std::string text = {};
};

/// One end of a connection; closed when it is destroyed.
class Wire {
 public:
  explicit Wire(int socket);
  ~Wire();
  Wire(Wire&& other) noexcept;
  Wire& operator=(Wire&& other) noexcept;

  int descriptor() const { return socket_; }
  /// Whether it could be handed over; the other end may be gone.
  bool send(const JobMessage& message);
  /// What has come; call it when there is something to read.
  std::vector<JobMessage> take();
  /// The other end is gone, or says what is no message.
  bool has_ended() const { return has_ended_; }
  std::chrono::steady_clock::time_point last_heard() const { return last_heard_; }

 private:
  int socket_ = -1;
  std::string pending_;
  bool has_ended_ = false;
  std::chrono::steady_clock::time_point last_heard_;
};

/// Fields, none of which holds a zero, in one text, and back.
std::string packed_fields(const std::vector<std::string>& fields);
std::vector<std::string> fields_of(std::string_view text);

/// How often each end gives a sign of life.
constexpr std::chrono::milliseconds sign_pause{500};

}  // namespace shardwright

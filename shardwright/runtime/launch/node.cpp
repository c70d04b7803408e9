#include "shardwright/runtime/launch/node.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>

#include "shardwright/base/error.h"
#include "shardwright/base/text.h"
#include "shardwright/runtime/communicator/vigil.h"
#include "shardwright/runtime/launch/agent.h"
#include "shardwright/runtime/launch/child.h"
#include "shardwright/runtime/launch/keeper.h"
#include "shardwright/runtime/launch/wire.h"

namespace shardwright {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

double in_seconds(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

/// Within `most`. Returns the socket, or minus what is wrong.
int connected(const addrinfo& to, std::chrono::milliseconds most) {
  const int out = socket(to.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (out < 0) return -errno;
  int code = connect(out, to.ai_addr, to.ai_addrlen) == 0 ? 0 : errno;
  if (code == EINPROGRESS) {
    pollfd one{out, POLLOUT, 0};
    socklen_t size = sizeof code;
    if (poll(&one, 1, static_cast<int>(most.count())) <= 0)
      code = ETIMEDOUT;
    else
      getsockopt(out, SOL_SOCKET, SO_ERROR, &code, &size);
  }
  if (code != 0) return ::close(out), -code;
  const int yes = 1, flags = 0;
  setsockopt(out, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  fcntl(out, F_SETFL, flags);
  return out;
}

/// Tries again until node 0 is there.
int connected_to(const NodeOptions& options) {
  const auto until = Clock::now() + options.timeout;
  addrinfo wanted{}, *first = nullptr;
  wanted.ai_family = AF_INET;
  wanted.ai_socktype = SOCK_STREAM;
  if (const int code =
          getaddrinfo(options.address.c_str(), fmt::to_string(options.port).c_str(), &wanted, &first))
    throw error("node 0 at {}:{} is not found: {}", options.address, options.port, gai_strerror(code));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(first, freeaddrinfo);
  for (;;) {
    const int socket = connected(*first, 2s);
    if (socket >= 0) return socket;
    if (Clock::now() >= until)
      throw error("node 0 at {}:{} does not answer within {:.0f} s: {}", options.address, options.port,
                  in_seconds(options.timeout), std::strerror(-socket));
    if (options.interrupts() > 0)
      throw error("interrupted before node 0 at {}:{} was there", options.address, options.port);
    std::this_thread::sleep_for(100ms);
  }
}

class WaitingNode {
 public:
  explicit WaitingNode(const NodeOptions& options) : options_(options), wire_(connected_to(options)) {
    wire_.send({JobMessage::Kind::hello, hello_of(options.node, options.words)});
  }

  int run() {
    while (!status_) {
      std::array<pollfd, 3> watched{pollfd{wire_.descriptor(), POLLIN, 0}, pollfd{-1, POLLIN, 0},
                                    pollfd{-1, POLLIN, 0}};
      if (child_) watched[1].fd = child_->output(), watched[2].fd = child_->errors();
      poll(watched.data(), watched.size(), 100);
      if (child_ && watched[1].revents) pass_on(JobMessage::Kind::output, child_->read_output());
      if (child_ && watched[2].revents) pass_on(JobMessage::Kind::errors, child_->read_errors());
      if (child_ && !watched[1].revents && !watched[2].revents) look_after_child();
      if (watched[0].revents)
        for (const JobMessage& m : wire_.take()) hear(m);
      if (!status_) look_after_node_0();
    }
    end_child();
    return *status_;
  }

 private:
  void pass_on(JobMessage::Kind kind, const std::string& text) {
    if (!text.empty()) wire_.send({kind, text});
  }

  void look_after_child() {
    const auto status = child_->status();
    if (!status) {
      if (ends_by_ && Clock::now() > *ends_by_) child_->signal_all(SIGKILL);
      return;
    }
    child_.reset();
    ends_by_.reset();
    wire_.send({JobMessage::Kind::ended, fmt::to_string(*status)});
  }

  void hear(const JobMessage& m) {
    switch (m.kind) {
      case JobMessage::Kind::welcome: is_welcome_ = true; break;
      case JobMessage::Kind::refusal: throw Error(m.text);
      case JobMessage::Kind::start:
        end_child();
        ends_by_.reset();
        child_.emplace(std::vector<std::string>{"/bin/sh", "-c", m.text}, variables_of_others());
        break;
      case JobMessage::Kind::stop:
        if (child_) ends_by_ = Clock::now() + 3s;
        break;
      case JobMessage::Kind::keep: keep(m.text); break;
      case JobMessage::Kind::output: options_.output(m.text); break;
      case JobMessage::Kind::errors: options_.errors(m.text); break;
      case JobMessage::Kind::quit:
        status_ = static_cast<int>(to_integer(m.text).value_or(lost_rank_status));
        break;
      default: break;
    }
  }

  void look_after_node_0() {
    const auto now = Clock::now();
    if (wire_.has_ended() || now - wire_.last_heard() > options_.timeout) {
      const std::string where = fmt::format("{}:{}", options_.address, options_.port);
      end_child();
      if (!is_welcome_)
        throw error("what answers at {} is no node 0 of a job of this version of shardwright", where);
      throw Error(fmt::format("node 0 ({}) is lost: {}", where,
                              wire_.has_ended() ? "its connection has ended" : "it gives no sign of life"),
                  ErrorKind::timeout);
    }
    if (const int wanted = options_.interrupts(); wanted > told_interrupts_) {
      told_interrupts_ = wanted;
      wire_.send({JobMessage::Kind::interrupt, fmt::to_string(wanted)});
    }
    if (now - last_sign_ < sign_pause) return;
    last_sign_ = now;
    wire_.send({JobMessage::Kind::sign});
  }

  void keep(const std::string& name) try {
    if (!kept_ || kept_->name() != name) kept_.emplace(name);
  } catch (const Error& e) {
    options_.errors(fmt::format("shardwright: {}\n", e.what()));  // ranks will say that there is none
  }

  /// What node 0 has ended is about to end; for what does not, some seconds are enough.
  void end_child() {
    for (const auto until = Clock::now() + 3s; child_ && !child_->status() && Clock::now() < until;)
      std::this_thread::sleep_for(10ms);
    if (child_) child_->signal_all(SIGKILL);
    child_.reset();
  }

  const NodeOptions& options_;
  Wire wire_;
  std::optional<Child> child_;
  std::optional<KeptFolder> kept_;
  std::optional<Clock::time_point> ends_by_;
  std::optional<int> status_;
  Clock::time_point last_sign_ = Clock::now();
  bool is_welcome_ = false;
  int told_interrupts_ = 0;
};

}  // namespace

int run_node(const NodeOptions& options) { return WaitingNode(options).run(); }

}  // namespace shardwright

#include "shardwright/runtime/launch/assembly.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "shardwright/base/error.h"
#include "shardwright/base/host_name.h"
#include "shardwright/base/text.h"
#include "shardwright/runtime/launch/agent.h"
#include "shardwright/runtime/launch/build.h"
#include "shardwright/runtime/launch/hosts.h"

namespace shardwright {
namespace {

constexpr std::string_view magic = "shardwright launch 1";
constexpr std::size_t head = 4;  // fields in front of the program's words

int listening_at(int port, std::string_view called) {
  const int out = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int yes = 1;
  setsockopt(out, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);  // of one that has ended just now
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (bind(out, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 && listen(out, 128) == 0)
    return out;
  const int code = errno;
  ::close(out);
  if (code == EADDRINUSE)
    throw error("{} {}: is taken by another program on this host; give another port, on all hosts", called,
                port);
  throw error("{} {}: cannot be listened to: {}", called, port, std::strerror(code));
}

int listening_at(const std::string& path) {
  const int out = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const bool fits = path.size() < sizeof address.sun_path;
  if (fits) path.copy(address.sun_path, path.size());
  if (!fits || bind(out, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(out, 128) != 0)
    throw io_error("{}: cannot be listened to; TMPDIR may be too long", path);
  return out;
}

bool is_own(const std::string& address) {
  if (address.starts_with("127.")) return true;
  const std::vector<Interface> own = own_interfaces();
  return std::ranges::find(own, address, &Interface::address) != own.end();
}

}  // namespace

std::string hello_of(int node, const NodeWords& words) {
  std::vector<std::string> fields{std::string(magic), build_id(), fmt::to_string(words.nodes),
                                  fmt::to_string(node)};
  fields.insert(fields.end(), words.program.begin(), words.program.end());
  return packed_fields(fields);
}

Assembly::Assembly(const Options& options)
    : options_(options),
      listener_(listening_at(options.port, options.called)),
      last_sign_(std::chrono::steady_clock::now()) {
  thread_ = std::jthread([this](const std::stop_token& stop) { live(stop); });
}

Assembly::~Assembly() {
  thread_.request_stop();
  thread_.join();
  constexpr int mistake = 2;
  end(mistake);  // those who are left: the job has never begun
  for (const int each : {listener_, agents_listener_})
    if (each >= 0) ::close(each);
}

void Assembly::live(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::vector<pollfd> watched;
    for (const int each : descriptors()) watched.push_back({each, POLLIN, 0});
    poll(watched.data(), watched.size(), 50);
    look();
  }
}

std::vector<int> Assembly::descriptors() {
  const std::lock_guard lock(mutex_);
  std::vector<int> out{listener_};
  if (agents_listener_ >= 0) out.push_back(agents_listener_);
  for (const Newcomer& each : newcomers_) out.push_back(each.wire.descriptor());
  for (const auto& [number, node] : nodes_) out.push_back(node.wire.descriptor());
  for (const Agent& each : agents_) out.push_back(each.wire.descriptor());
  return out;
}

void Assembly::look() {
  const std::lock_guard lock(mutex_);
  accept_all();
  hear_newcomers();
  hear_nodes();
  hear_agents();
  const auto now = std::chrono::steady_clock::now();
  if (now - last_sign_ < sign_pause) return;
  last_sign_ = now;
  for (auto& [number, node] : nodes_) node.wire.send({JobMessage::Kind::sign});
}

void Assembly::accept_all() {
  sockaddr_in address{};
  for (;;) {
    socklen_t size = sizeof address;
    const int one = accept4(listener_, reinterpret_cast<sockaddr*>(&address), &size, SOCK_CLOEXEC);
    if (one < 0) break;
    const int yes = 1;
    setsockopt(one, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    std::array<char, INET_ADDRSTRLEN> text{};
    inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size());
    newcomers_.push_back({Wire(one), text.data()});
  }
  if (agents_listener_ < 0) return;
  for (int one = 0; (one = accept4(agents_listener_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;)
    agents_.push_back({Wire(one)});
}

/// Why it may not take part; empty: it may.
std::string Assembly::refusal_for(const std::vector<std::string>& hello) {
  const NodeWords& own = options_.words;
  const auto number = to_integer(hello[3]);
  if (hello[1] != build_id())
    return fmt::format(
        "node {} runs another build of shardwright than node {}; install the same on all hosts", hello[3],
        options_.first == 0 ? "the scheduler's" : "0");
  if (hello[2] != fmt::to_string(own.nodes))
    return fmt::format("node {} was told {} nodes, node 0 {}", hello[3], hello[2], own.nodes);
  if (!number || *number < options_.first || *number >= own.nodes)
    return fmt::format("node {}: nodes that are waited for are {} to {}", hello[3], options_.first,
                       own.nodes - 1);
  const std::vector<std::string> program(hello.begin() + head, hello.end());
  if (program != own.program)
    return fmt::format("node {} was told `{}`, node 0 `{}`", hello[3], join(program, " "),
                       join(own.program, " "));
  const auto there = nodes_.find(static_cast<int>(*number));
  if (there != nodes_.end())
    return fmt::format("node {} is there already, at {}", hello[3], there->second.address);
  return "";
}

void Assembly::hear_newcomers() {
  std::erase_if(newcomers_, [&](Newcomer& one) {
    for (const JobMessage& m : one.wire.take()) {
      const std::vector<std::string> hello = fields_of(m.text);
      if (m.kind != JobMessage::Kind::hello || hello.size() < head || hello[0] != magic) return true;
      if (const std::string why = refusal_for(hello); !why.empty()) {
        one.wire.send({JobMessage::Kind::refusal, why});
        return true;
      }
      one.wire.send({JobMessage::Kind::welcome});
      nodes_.emplace(static_cast<int>(*to_integer(hello[3])), Node{std::move(one.wire), one.address});
      return true;
    }
    return one.wire.has_ended() ||
           std::chrono::steady_clock::now() - one.wire.last_heard() > std::chrono::seconds(10);
  });
}

void Assembly::hear_nodes() {
  std::vector<std::pair<int, std::string>> gone;
  for (auto& [number, node] : nodes_) {
    for (const JobMessage& m : node.wire.take()) hear(number, m);
    const auto silence = std::chrono::steady_clock::now() - node.wire.last_heard();
    if (node.wire.has_ended())
      gone.emplace_back(number, "its connection has ended");
    else if (silence > options_.timeout)
      gone.emplace_back(number, fmt::format("it gives no sign of life for {:.0f} s",
                                            std::chrono::duration<double>(silence).count()));
  }
  for (const auto& [number, why] : gone) lose(number, why);
}

void Assembly::lose(int number, std::string_view why) {
  if (!lost_) lost_ = fmt::format("node {} ({}) is lost: {}", number, nodes_.at(number).address, why);
  nodes_.erase(number);
  std::erase_if(agents_, [&](const Agent& agent) { return agent.node == number; });
}

void Assembly::hear(int node, const JobMessage& m) {
  if (m.kind == JobMessage::Kind::interrupt)
    interrupts_ = std::max(interrupts_, static_cast<int>(to_integer(m.text).value_or(1)));
  for (Agent& agent : agents_) {
    if (agent.node != node) continue;
    if (m.kind == JobMessage::Kind::output || m.kind == JobMessage::Kind::errors ||
        m.kind == JobMessage::Kind::ended)
      agent.wire.send(m);
  }
}

void Assembly::hear_agents() {
  std::erase_if(agents_, [&](Agent& agent) {
    for (const JobMessage& m : agent.wire.take()) {
      if (m.kind == JobMessage::Kind::start) begin(agent, m);
      const auto node = nodes_.find(agent.node);
      if (m.kind == JobMessage::Kind::stop && node != nodes_.end())
        node->second.wire.send({JobMessage::Kind::stop});
    }
    if (!agent.wire.has_ended()) return false;
    if (const auto node = nodes_.find(agent.node); node != nodes_.end())
      node->second.wire.send({JobMessage::Kind::stop});
    return true;
  });
}

void Assembly::begin(Agent& agent, const JobMessage& message) {
  const std::vector<std::string> fields = fields_of(message.text);
  if (fields.size() != 2) return;
  for (auto& [number, node] : nodes_) {
    if (node.address != fields[0]) continue;
    agent.node = number;
    node.wire.send({JobMessage::Kind::start, fields[1]});
    return;
  }
}

void Assembly::wait_for_all(std::chrono::nanoseconds most) {
  const auto until = std::chrono::steady_clock::now() + most;
  for (;;) {
    std::vector<std::string> missing;
    {
      const std::lock_guard lock(mutex_);
      for (int n = options_.first; n < options_.words.nodes; ++n)
        if (!nodes_.contains(n)) missing.push_back(fmt::to_string(n));
    }
    if (missing.empty()) return;
    if (std::chrono::steady_clock::now() >= until)
      throw Error(fmt::format("node{} {} of {} {} not come within {:.0f} s", missing.size() == 1 ? "" : "s",
                              join(missing, ", "), options_.words.nodes, missing.size() == 1 ? "has" : "have",
                              std::chrono::duration<double>(most).count()));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

std::vector<int> Assembly::there() {
  const std::lock_guard lock(mutex_);
  std::vector<int> out;
  for (int n = 0; n < options_.first; ++n) out.push_back(n);
  for (const auto& [number, node] : nodes_) out.push_back(number);
  return out;
}

std::string Assembly::host_of(int node) {
  const std::lock_guard lock(mutex_);
  const auto it = nodes_.find(node);
  return it == nodes_.end() || is_own(it->second.address) ? host_name() : it->second.address;
}

void Assembly::keep(const std::string& name) {
  const std::lock_guard lock(mutex_);
  for (auto& [number, node] : nodes_) node.wire.send({JobMessage::Kind::keep, name});
}

void Assembly::serve(const std::string& job_folder) {
  const int listener = listening_at(socket_of(job_folder));
  const std::lock_guard lock(mutex_);
  if (agents_listener_ >= 0) ::close(agents_listener_);
  agents_listener_ = listener;
  agents_.clear();
  lost_.reset();
}

std::optional<std::string> Assembly::lost() {
  const std::lock_guard lock(mutex_);
  return lost_;
}

int Assembly::interrupts() {
  const std::lock_guard lock(mutex_);
  return interrupts_;
}

void Assembly::show(int node, JobMessage::Kind kind, std::string_view text) {
  const std::lock_guard lock(mutex_);
  if (const auto it = nodes_.find(node); it != nodes_.end()) it->second.wire.send({kind, std::string(text)});
}

void Assembly::end(int status) {
  const std::lock_guard lock(mutex_);
  for (auto& [number, node] : nodes_) node.wire.send({JobMessage::Kind::quit, fmt::to_string(status)});
  nodes_.clear();
}

}  // namespace shardwright

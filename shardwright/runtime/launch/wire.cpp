#include "shardwright/runtime/launch/wire.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <utility>

namespace shardwright {
namespace {

constexpr std::size_t head = 5, most = std::size_t{1} << 20;
constexpr std::string_view kinds = "hwnskoeximpq";

}  // namespace

Wire::Wire(int socket) : socket_(socket), last_heard_(std::chrono::steady_clock::now()) {
  const timeval patience{5, 0};  // for one that no longer reads
  setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

Wire::~Wire() {
  if (socket_ >= 0) ::close(socket_);
}

Wire::Wire(Wire&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)),
      pending_(std::move(other.pending_)),
      has_ended_(other.has_ended_),
      last_heard_(other.last_heard_) {}

Wire& Wire::operator=(Wire&& other) noexcept {
  std::swap(socket_, other.socket_);
  std::swap(pending_, other.pending_);
  has_ended_ = other.has_ended_;
  last_heard_ = other.last_heard_;
  return *this;
}

bool Wire::send(const JobMessage& message) {
  if (message.text.size() > most)
    return send({message.kind, message.text.substr(0, most)}) &&
           send({message.kind, message.text.substr(most)});
  std::string bytes(1, static_cast<char>(message.kind));
  const auto size = static_cast<std::uint32_t>(message.text.size());
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(size >> shift & 0xff);
  bytes += message.text;
  for (std::string_view left = bytes; !left.empty();) {
    const ssize_t n = ::send(socket_, left.data(), left.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return !(has_ended_ = true);
    left.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

std::vector<JobMessage> Wire::take() {
  std::array<char, 1 << 16> buffer{};
  const ssize_t n = ::recv(socket_, buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK)) has_ended_ = true;
  if (n <= 0) return {};
  last_heard_ = std::chrono::steady_clock::now();
  pending_.append(buffer.data(), static_cast<std::size_t>(n));
  std::vector<JobMessage> out;
  std::size_t at = 0;
  while (pending_.size() - at >= head) {
    std::size_t size = 0;
    for (std::size_t i = 1; i < head; ++i) size = size << 8 | static_cast<unsigned char>(pending_[at + i]);
    if (size > most || kinds.find(pending_[at]) == kinds.npos) {
      has_ended_ = true;
      break;
    }
    if (pending_.size() - at < head + size) break;
    out.push_back({static_cast<JobMessage::Kind>(pending_[at]), pending_.substr(at + head, size)});
    at += head + size;
  }
  pending_.erase(0, at);
  return out;
}

std::string packed_fields(const std::vector<std::string>& fields) {
  std::string out;
  for (const std::string& field : fields) (out += field) += '\0';
  return out;
}

std::vector<std::string> fields_of(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\0'), text.size());
    out.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace shardwright

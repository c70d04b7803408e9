#include "bench/harness/peer.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <string_view>
#include <utility>

#include "shardwright/base/error.h"

namespace shardwright {

std::optional<Peer> Peer::start(const std::vector<std::string>& command) {
  std::array<int, 2> in{}, out{};
  require(pipe(in.data()) == 0 && pipe(out.data()) == 0, "no pipes for {}", command.front());
  const int child = fork();
  if (child == 0) {
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    for (int end : {in[0], in[1], out[0], out[1]}) close(end);
    std::vector<char*> words;
    for (const std::string& w : command) words.push_back(const_cast<char*>(w.c_str()));
    words.push_back(nullptr);
    execvp(words[0], words.data());
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  Peer peer(child, fdopen(in[1], "w"), fdopen(out[0], "r"));
  std::array<char, 16> word{};
  if (std::fscanf(peer.from_, "%15s", word.data()) != 1 || std::string_view(word.data()) != "ready")
    return {};
  return peer;
}

Peer::Peer(Peer&& other) noexcept
    : child_(std::exchange(other.child_, -1)),
      to_(std::exchange(other.to_, nullptr)),
      from_(std::exchange(other.from_, nullptr)) {}

Peer::~Peer() {
  if (child_ < 0) return;
  std::fclose(to_);  // the script ends with its input
  std::fclose(from_);
  waitpid(child_, nullptr, 0);
}

std::int64_t Peer::peak_bytes() const {
  std::ifstream status(fmt::format("/proc/{}/status", child_));
  std::string word;
  std::int64_t kilobytes = 0;
  while (status >> word)
    if (word == "VmHWM:") status >> kilobytes;
  return kilobytes * 1024;
}

std::vector<Peer::Step> Peer::run(int steps) {
  std::fprintf(to_, "%d\n", steps);
  std::fflush(to_);
  std::vector<Step> out(static_cast<std::size_t>(steps));
  for (Step& s : out)
    if (std::fscanf(from_, "%lf %lf %lf", &s.seconds, &s.cpu_seconds, &s.loss) != 3)
      throw Error("the peer has ended; see its message above", ErrorKind::peer);
  return out;
}

}  // namespace shardwright

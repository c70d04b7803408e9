// Hosts that come together by themselves, where there is no ssh: the same command runs on each, node 0 waits for the others
// on a port and starts the job on all of them through what waits there (node.h). What crosses here is who there is, what to
// run, what it prints, and signs of life.
//
// Nodes on one host, as their addresses tell, are one host to mpirun: the first of them runs the ranks of all.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "shardwright/runtime/launch/wire.h"

namespace shardwright {

/// What all nodes of a job have to be told alike, as one says it to the other.
struct NodeWords {
  int nodes = 1;
  std::vector<std::string> program;  // and its words
};
/// Of node `node`.
std::string hello_of(int node, const NodeWords& words);

class Assembly {
 public:
  struct Options {
    int port = 0;
    int first = 1;  // nodes from this one to the last are others
    NodeWords words;
    std::chrono::nanoseconds timeout{};  // for signs of life
    std::string_view called;             // what says the port: `--master-port`
  };
  /// Listens from here on. Throws: Error if the port is taken.
  explicit Assembly(const Options& options);
  ~Assembly();
  Assembly(const Assembly&) = delete;
  Assembly& operator=(const Assembly&) = delete;

  /// Throws: Error that names those who have not come.
  void wait_for_all(std::chrono::nanoseconds most);
  /// This process is a node itself, the first.
  bool has_node_0() const { return options_.first > 0; }
  /// Those who are there, node 0 too if it is one.
  std::vector<int> there();
  /// As mpirun is to call the host of a node.
  std::string host_of(int node);

  /// Nodes that are there keep copies of states, under this name.
  void keep(const std::string& name);
  /// From here on agents of the job with this folder are served. Forgets who was lost.
  void serve(const std::string& job_folder);
  /// Who was lost since, in words.
  std::optional<std::string> lost();
  /// How often somebody at another node has wanted to stop.
  int interrupts();
  /// Text of a rank for the terminal of a node.
  void show(int node, JobMessage::Kind kind, std::string_view text);
  /// The job has ended.
  void end(int status);

 private:
  struct Node {
    Wire wire;
    std::string address;
  };
  struct Agent {
    Wire wire;
    int node = -1;  // that runs what it has asked for
  };
  struct Newcomer {
    Wire wire;
    std::string address;
  };

  void live(const std::stop_token& stop);
  std::vector<int> descriptors();
  void look();
  void accept_all();
  void hear_newcomers();
  std::string refusal_for(const std::vector<std::string>& hello);
  void hear_nodes();
  void hear(int node, const JobMessage& message);
  void hear_agents();
  void begin(Agent& agent, const JobMessage& message);
  void lose(int node, std::string_view why);

  Options options_;
  std::mutex mutex_;  // guards what follows
  int listener_ = -1, agents_listener_ = -1;
  std::vector<Newcomer> newcomers_;
  std::map<int, Node> nodes_;
  std::vector<Agent> agents_;
  std::optional<std::string> lost_;
  int interrupts_ = 0;
  std::chrono::steady_clock::time_point last_sign_;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace shardwright

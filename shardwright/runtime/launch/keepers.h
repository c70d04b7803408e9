// The keepers of a launch (keeper.h), as it sees them: each is started before the first job, and lives on as jobs are lost.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "shardwright/runtime/launch/child.h"
#include "shardwright/runtime/launch/keeper.h"

namespace shardwright {

class Keepers {
 public:
  /// `patience`: for hosts to be there, and for signs of life. From here on ranks are told their name.
  explicit Keepers(std::chrono::nanoseconds patience);
  /// Ends all of them.
  ~Keepers();
  Keepers(const Keepers&) = delete;
  Keepers& operator=(const Keepers&) = delete;

  const std::string& name() const { return own_.name(); }

  /// Who cannot, and why.
  struct Missing {
    std::string host, why;
  };
  /// These hosts, and no others, have one each; those that had one keep it. Nothing if all is well.
  std::optional<Missing> keep_on(const std::vector<std::string>& hosts);
  /// A host that has none any more.
  std::optional<Missing> lost();

 private:
  struct Keeper {
    std::string host;
    std::unique_ptr<Child> shell;
    std::string said = {}, errors = {};
    std::chrono::steady_clock::time_point heard = std::chrono::steady_clock::now();
    bool is_there = false;
  };

  void live(const std::stop_token& stop);
  void hear(Keeper& keeper);
  std::optional<Missing> missing_of(Keeper& keeper) const;
  void start(const std::string& host);
  std::optional<Missing> wait_for_all();

  const std::chrono::nanoseconds patience_;
  KeptFolder own_;
  std::mutex mutex_;  // guards what follows
  std::vector<Keeper> keepers_;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace shardwright

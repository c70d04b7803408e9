// What each rank prints, kept in files as Open MPI's --output-filename lays them out: DIR/1/rank.N/stdout and stderr. They
// lie on the host that has started the job.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shardwright {

class RankLogs {
 public:
  enum class Stream { output, errors };

  /// Of so many ranks, each empty. What earlier jobs have left there is removed; what earlier starts of this one have left
  /// (`restart` above 0) is kept in DIR/1.lost-1 and so on.
  /// Throws: Error of kind io if they cannot be made.
  RankLogs(const std::string& folder, int ranks, int restart);
  ~RankLogs();
  RankLogs(const RankLogs&) = delete;
  RankLogs& operator=(const RankLogs&) = delete;

  /// Throws: Error of kind io if it cannot be written.
  void add(int rank, Stream stream, std::string_view text);

 private:
  struct File {
    std::string path;
    int descriptor = -1;
  };
  std::vector<File> files_;  // two a rank
};

}  // namespace shardwright

#include "shardwright/runtime/launcher.h"

#include <gtest/gtest.h>

#include <sstream>

namespace shardwright {
namespace {

const std::string rule(74, '-');

std::string shown(const std::string& written) {
  MpirunMessages messages;
  std::istringstream lines(written);
  std::string out, line;
  while (std::getline(lines, line)) out += messages.take(line);
  return out + messages.finish();
}

TEST(MpirunMessages, a_killed_rank_is_named_in_one_line) {
  EXPECT_EQ(
      shown(rule +
            "\nPrimary job  terminated normally, but 1 process returned\na non-zero exit code. Per "
            "user-direction, the job has been aborted.\n" +
            rule + "\n" + rule +
            "\nmpirun noticed that process rank 2 with PID 0 on node h1 exited on signal 9 (Killed).\n" +
            rule + "\n"),
      "shardwright: rank 2 on h1 was ended by signal 9 (Killed)\n");
}

TEST(MpirunMessages, what_ranks_say_passes_even_inside_a_frame) {
  EXPECT_EQ(
      shown("a notice\n" + rule + "\nMPI_ABORT was invoked on rank 1\nshardwright: rank 1: disk full\n" +
            rule + "\n[h0:17] 3 more processes have sent help message help-mpi-api.txt / mpi-abort\n"),
      "a notice\nshardwright: rank 1: disk full\n");
}

TEST(MpirunMessages, unknown_frames_pass) {
  EXPECT_EQ(shown(rule + "\nThere are not enough slots available in the system\n" + rule + "\n"),
            "There are not enough slots available in the system\n");
}

}  // namespace
}  // namespace shardwright

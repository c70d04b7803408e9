#include "shardwright/runtime/launcher.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
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

/// What started this process, as its environment tells it; nothing else is set meanwhile.
class Started {
 public:
  explicit Started(std::map<std::string, std::string> variables) : variables_(std::move(variables)) {
    for (const char* name :
         {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE", "SLURM_PROCID",
          "SLURM_NTASKS", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_ID", "RANK", "WORLD_SIZE", "PALS_RANKID",
          "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"})
      if (const char* value = std::getenv(name)) {
        before_[name] = value;
        ::unsetenv(name);
      }
    for (const auto& [name, value] : variables_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Started() {
    for (const auto& [name, value] : variables_) ::unsetenv(name.c_str());
    for (const auto& [name, value] : before_) ::setenv(name.c_str(), value.c_str(), 1);
  }

 private:
  std::map<std::string, std::string> variables_, before_;
};

std::string other(const std::map<std::string, std::string>& variables) {
  const Started started(variables);
  const auto launcher = other_launcher();
  if (!launcher) return "none";
  EXPECT_EQ(rank_of_process(), launcher->rank);
  return fmt::format("{} {}={}", launcher->name, launcher->variable, launcher->rank);
}

TEST(Launcher, ranks_of_open_mpi_join) {
  const Started started({{"OMPI_COMM_WORLD_RANK", "2"},
                         {"OMPI_COMM_WORLD_SIZE", "4"},
                         {"PMIX_RANK", "2"},
                         {"SLURM_PROCID", "0"},
                         {"SLURM_STEP_ID", "1"},
                         {"SLURM_NTASKS", "2"}});
  EXPECT_EQ(launched_rank(), 2);
  EXPECT_EQ(launched_ranks(), 4);
  EXPECT_EQ(rank_of_process(), 2);
  EXPECT_FALSE(other_launcher());
}

TEST(Launcher, copies_by_other_launchers_are_known) {
  EXPECT_EQ(other({{"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "4"}, {"SLURM_STEP_ID", "0"}}),
            "srun SLURM_PROCID=3");
  EXPECT_EQ(other({{"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "4"}}), "srun SLURM_PROCID=3");
  EXPECT_EQ(other({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}), "another MPI's mpiexec PMI_RANK=0");
  EXPECT_EQ(other({{"RANK", "1"}, {"WORLD_SIZE", "2"}}), "torchrun RANK=1");
  EXPECT_EQ(other({{"PALS_RANKID", "5"}}), "PALS' mpiexec PALS_RANKID=5");
  EXPECT_EQ(other({{"PMIX_RANK", "0"}}), "a PMIx launcher PMIX_RANK=0");
  EXPECT_EQ(other({{"JSM_NAMESPACE_RANK", "1"}, {"JSM_NAMESPACE_SIZE", "6"}}), "jsrun JSM_NAMESPACE_RANK=1");
}

TEST(Launcher, one_process_is_no_copy) {
  EXPECT_EQ(other({}), "none");
  EXPECT_EQ(other({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}), "none");  // the script of a batch job
  EXPECT_EQ(other({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}, {"SLURM_STEP_ID", "0"}, {"PMIX_RANK", "0"}}),
            "none");
  // A shell that salloc opens in a step of its own.
  EXPECT_EQ(other({{"SLURM_PROCID", "0"},
                   {"SLURM_NTASKS", "4"},
                   {"SLURM_STEP_NUM_TASKS", "1"},
                   {"SLURM_STEP_ID", "4294967290"}}),
            "none");
  EXPECT_EQ(other({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}), "none");
  EXPECT_EQ(other({{"RANK", "high"}, {"WORLD_SIZE", "2"}}), "none");
}

}  // namespace
}  // namespace shardwright

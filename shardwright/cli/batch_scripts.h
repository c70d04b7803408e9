// What systems that give out hosts are told of a job, as text.
#pragma once

#include <string>
#include <vector>

namespace shardwright {

struct BatchJob {
  int devices = 1;
  int hosts = 1;
  std::vector<std::string> launch_words;   // flags that `launch` takes there, too
  std::vector<std::string> program_words;  // behind `--`
};

/// A script for sbatch: a launcher on each host, which find each other by themselves.
std::string slurm_script(const BatchJob& job);

/// An MPIJob of Kubeflow's MPI operator (v2beta1).
std::string kubernetes_manifest(const BatchJob& job);

}  // namespace shardwright

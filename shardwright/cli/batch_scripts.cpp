#include "shardwright/cli/batch_scripts.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "shardwright/base/text.h"

namespace shardwright {
namespace {

std::string quoted(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += " " + shell_quoted(word);
  return out;
}

/// The most that one host takes.
int devices_per_host(const BatchJob& job) { return (job.devices + job.hosts - 1) / job.hosts; }

}  // namespace

std::string slurm_script(const BatchJob& job) {
  const std::string flags = fmt::format(
      "--devices {} --nodes {} --node-rank \"$SLURM_PROCID\" --master-addr \"$first\" --master-port "
      "\"$port\"{}",
      job.devices, job.hosts, quoted(job.launch_words));
  return fmt::format(
      R"(#!/bin/bash
#SBATCH --job-name=shardwright
#SBATCH --nodes={0}
#SBATCH --ntasks-per-node=1
#SBATCH --output=shardwright-%j.log
# {1} device{2} a host; say how many cores or cards that takes:
##SBATCH --cpus-per-task={1}
##SBATCH --gpus-per-node={1}

# A launcher on each host; they find each other at the first host, on a port of this job.
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
port=$((20000 + SLURM_JOB_ID % 12000))
export first port
srun --kill-on-bad-exit=0 bash -c {3} launch{4}
)",
      job.hosts, devices_per_host(job), devices_per_host(job) == 1 ? "" : "s",
      // One pair of quotes around all: words of the user that need some end and begin it again.
      shell_quoted(fmt::format("exec shardwright launch {} -- \"$@\"", flags)), quoted(job.program_words));
}

std::string kubernetes_manifest(const BatchJob& job) {
  std::vector<std::string> words{"shardwright",       "launch",    "--hosts",
                                 "/etc/mpi/hostfile", "--devices", fmt::to_string(job.devices)};
  words.insert(words.end(), job.launch_words.begin(), job.launch_words.end());
  words.emplace_back("--");
  words.insert(words.end(), job.program_words.begin(), job.program_words.end());
  std::string command;
  for (const std::string& word : words)
    command += fmt::format("            - {}\n", nlohmann::json(word).dump());
  return fmt::format(R"(# For Kubeflow's MPI operator: kubectl apply -f FILE
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata:
  name: shardwright
spec:
  slotsPerWorker: {0}
  runPolicy:
    cleanPodPolicy: Running
    backoffLimit: 0
  mpiReplicaSpecs:
    Launcher:
      replicas: 1
      template:
        spec:
          restartPolicy: Never
          containers:
          - name: launcher
            # With shardwright, openmpi-bin and openssh; of the workers, with sshd.
            image: shardwright:{1}
            command:
{2}    Worker:
      replicas: {3}
      template:
        spec:
          restartPolicy: Never
          containers:
          - name: worker
            image: shardwright:{1}
            # resources: {{limits: {{nvidia.com/gpu: {0}}}}}
)",
                     devices_per_host(job), SHARDWRIGHT_VERSION, command, job.hosts);
}

}  // namespace shardwright

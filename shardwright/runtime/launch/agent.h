// What mpirun calls to start its daemon on another host: over a remote shell, or by the node of the job that waits there.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace shardwright {

/// The first word of a command line that mpirun makes; nobody else says it.
constexpr const char* agent_word = "--agent-of-mpirun";

/// For mpirun: the agent of a job, this program with its path and the job's folder.
/// Throws: Error of kind io if it cannot be left there.
std::string agent_of(const std::string& job_folder);

/// Nodes of the job listen there, for the agents of their own host.
std::string socket_of(const std::string& job_folder);

/// `words`: the job's folder, the host, and what is to run there. Returns the exit status.
int run_agent(const std::vector<std::string>& words);

/// Holds, while a job runs, by which name it knows the host that calls itself `name`.
std::string name_file(const std::string& job_folder, const std::string& name);

/// Arguments for ssh, or for what Open MPI's other setting says in its place.
constexpr const char* variable_of_arguments = "OMPI_MCA_plm_rsh_args";

/// In front of a host and a command: ssh, or what Open MPI's own settings say in its place.
std::vector<std::string> remote_shell();

/// Those of which a remote shell comes back in time.
std::vector<std::string> hosts_that_answer(const std::vector<std::string>& hosts,
                                           std::chrono::nanoseconds most);

/// Of the environment, what another launcher has told this process, and what is for another agent: mpirun and its daemons
/// would take it as told to them.
std::vector<std::string> variables_of_others();

/// The path of this program.
std::string own_path();

}  // namespace shardwright

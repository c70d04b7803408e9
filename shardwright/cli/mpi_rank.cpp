#include "shardwright/cli/mpi_rank.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <new>
#include <optional>
#include <ostream>
#include <string>
#include <thread>

#include "shardwright/base/error.h"
#include "shardwright/cli/interrupts.h"
#include "shardwright/cli/planning.h"
#include "shardwright/runtime/launch/hosts.h"
#include "shardwright/runtime/launcher.h"

namespace shardwright {
namespace {

constexpr int user_error_status = 2;
constexpr int internal_fault_status = 70;

/// Says why this rank failed and ends the run, unless the rank that failed first is about to do so.
[[noreturn]] void end_all(MpiProcess& process, const std::string& why, bool is_first, int status) {
  const std::string prefix = why.starts_with("rank ") ? "" : fmt::format("rank {}: ", process.rank());
  const auto say = [&] {
    fmt::print(stderr, "shardwright: {}{}\n", prefix, why);
    std::fflush(stderr);
  };
  const auto wait = [](int milliseconds) {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  };
  if (is_first && status == lost_rank_status) {
    say();
    wait(500);  // in which the others write what they did before
    process.end_all(status);
  }
  // What all ranks find at once, the lowest says: its end ends the others.
  wait(!is_first ? 10000 : process.rank() > 0 ? 200 : 0);
  say();
  process.end_all(status);
}

}  // namespace

Runtime runtime_of(const Arguments& arguments) {
  const int launched = launched_ranks();
  const std::string runtime = arguments.text("--runtime", launched > 1 ? "mpi" : "threads");
  if (runtime == "mpi") return Runtime::mpi;
  if (runtime != "threads") throw error("--runtime {}: there are threads, mpi", runtime);
  if (launched > 1)
    throw error("--runtime threads is one process, but mpirun has started {}; leave one of the two out",
                launched);
  return Runtime::threads;
}

Flag runtime_flag() {
  return {"--runtime", "R", "threads: virtual devices in this process; mpi: a process each", ""};
}

void check_ranks(const Arguments& arguments, const MpiProcess& process) {
  if (const int devices = devices_of(arguments); devices != process.size())
    throw error("--devices {} but mpirun has started {} ranks; there should be one per device", devices,
                process.size());
}

SessionStart start_on(MpiProcess& process) {
  return [&process](Prepared program, SessionOptions options) {
    return start_rank(
        std::move(program),
        [&](std::size_t transfers) { return process.communicator(process.size(), transfers); }, options);
  };
}

int run_over_mpi(const Arguments& arguments, Terminal& terminal, const std::function<int()>& rank) {
  if (arguments.positionals[0] == "-")
    throw error("--runtime mpi cannot read the model from standard input; give a name or a file");
  if (launched_rank()) return rank();
  if (arguments.has("--net")) check_net(arguments.text("--net"));
  arguments.heed_all();  // every rank will say what it heeds
  const int ranks = devices_of(arguments);
  const Patience patience(3);  // the third interrupt ends mpirun
  const int status = launch({.ranks = ranks,
                             .words = own_program(arguments.words),
                             .hosts = {.of_ranks = {}, .net = arguments.text("--net")},
                             .interrupts = interrupts,
                             .output = [&](auto, auto text) { terminal.out << text << std::flush; },
                             .errors = [&](auto, auto text) { terminal.err << text; }})
                         .status;
  return status != 0 && interrupts() > 0 ? interrupted_status : status;
}

bool is_first_rank() { return launched_rank().value_or(0) == 0; }

int run_as_mpi_rank(const RankWork& work, Terminal& terminal) {
  MpiProcess process(work.timeout, MpiProcess::Joining::together);
  std::optional<std::string> own_error;
  std::vector<Agreement> agreements;
  try {
    agreements = work.prepare(process);
  } catch (const Error& e) {
    own_error = e.what();
  } catch (const std::exception& e) {
    end_all(process, e.what(), true, internal_fault_status);  // others may be waiting for what this rank says
  }
  // Nobody passes before the first rank has prepared.
  std::optional<std::string> error = process.first_error(own_error);
  if (!error) error = process.disagreement(agreements);
  if (error) {
    // Said before anybody leaves: a rank that ends with an error makes mpirun end the others.
    terminal.err << fmt::format("shardwright: {}\n", *error) << std::flush;
    return user_error_status;
  }
  try {
    return work.run(process);
  } catch (const Error& e) {
    end_all(process, e.what(), e.kind() != ErrorKind::peer,
            stops_at_once()                  ? interrupted_status
            : e.kind() == ErrorKind::timeout ? lost_rank_status
                                             : user_error_status);
  } catch (const std::bad_alloc&) {
    end_all(process, "out of memory", true, lost_rank_status);
  } catch (const std::exception& e) {
    end_all(process, e.what(), true, internal_fault_status);
  }
}

}  // namespace shardwright

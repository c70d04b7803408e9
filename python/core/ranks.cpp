#include "python/core/ranks.h"

#include <fmt/core.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "python/core/program.h"
#include "shardwright/base/random.h"
#include "shardwright/base/text.h"
#include "shardwright/lower/program_text.h"
#include "shardwright/runtime/communicator/attendance.h"
#include "shardwright/runtime/communicator/mpi.h"
#include "shardwright/runtime/initial.h"
#include "shardwright/runtime/launcher.h"

namespace shardwright::python {
namespace {

std::unique_ptr<MpiProcess> process;
std::unique_ptr<Attendance> attendance;
std::vector<std::shared_ptr<Program>> programs;  // in the order in which they were made

MpiProcess& joined() {
  if (!process) {
    process = std::make_unique<MpiProcess>();
    attendance = std::make_unique<Attendance>();
  }
  return *process;
}

/// Waits until all end their programs. One that goes on with something would wait for this process for ever.
void wait_for_all() {
  const py::gil_scoped_release others_run;
  const Heartbeat::Call call(process->heartbeat(), "the end of the program", Heartbeat::Busy::for_ever);
  for (;;) {
    const Attendance::Left left = attendance->leave();
    if (left.goes_on) {
      fmt::print(stderr,
                 "rank {} has ended its program, but rank {} goes on with something that all processes do "
                 "together\n",
                 own_rank(), *left.goes_on);
      process->end_all(1);
    }
    if (left.have_all) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const py::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) process->end_all(130);
  }
}

std::uint64_t mixed(std::uint64_t key, std::uint64_t with) { return splitmix64(key ^ splitmix64(with)); }

Together together_of(const Pipeline& pipeline) {
  Together out;
  const auto mix = [&](std::uint64_t number) { out.key = mixed(out.key, number); };
  std::vector<std::string> inputs;
  for (const shardwright::Program& program : pipeline.stages)
    for (const Node& node : program.graph.nodes) {
      mix(std::hash<std::string>{}(node.op->name));
      for (const ValueId v : node.results) {
        const Value& value = program.graph.value(v);
        mix(static_cast<std::uint64_t>(value.type.dtype));
        for (const std::int64_t d : value.type.shape) mix(static_cast<std::uint64_t>(d));
        if (node.op->kind == OpKind::input)
          inputs.push_back(fmt::format("{} {}", value.name, to_text(value.global_type())));
      }
    }
  out.words = "a program of " + (inputs.empty() ? "no inputs" : join(inputs, ", "));
  return out;
}

/// Of the whole program: attributes and how it is split, too; and the seed, if any value starts with what is drawn.
std::vector<Agreement> told_of(const Pipeline& pipeline, std::uint64_t seed) {
  std::string text;
  bool is_drawn = false;
  for (const shardwright::Program& program : pipeline.stages) {
    text += to_text(program) + "\n";
    for (const Node& node : program.graph.nodes) {
      if (node.op->kind != OpKind::parameter && node.op->kind != OpKind::state) continue;
      const Value& value = program.graph.value(node.results[0]);
      is_drawn |= !value_of_all({value.name, node.attributes, value.global_type().shape});
    }
  }
  std::vector<Agreement> out{{"program", std::move(text), ""}};
  if (is_drawn) out.push_back({"seed", std::to_string(seed), fmt::format("seed {}", seed)});
  return out;
}

void check_agreement(std::span<const Agreement> told) {
  if (const auto difference = process->disagreement(told)) throw Error(*difference);
}

/// Whether all processes of the run are the ranks of `session`.
bool is_of_all(const Session& session) {
  return attendance && session.ranks().size() == 1 && session.pipeline().rank_count() == rank_count();
}

void announce(const Together& together, std::string_view does) {
  attendance->enter(mixed(together.key, std::hash<std::string_view>{}(does)),
                    fmt::format("{} {}", does, together.words));
}

/// All processes leave together: one that fails ends the others instead.
void leave() {
  if (attendance) wait_for_all();
  for (const auto& program : programs) program->end();
  programs.clear();
  attendance.reset();
  process.reset();
}

}  // namespace

int rank_count() { return std::max(1, launched_ranks()); }
int own_rank() { return launched_rank().value_or(0); }

SessionStart session_start(int devices, std::vector<int> ranks, std::shared_ptr<Together> together) {
  if (rank_count() == 1 || devices == 1) return start_threads;
  if (ranks.empty())
    for (int r = 0; r < rank_count(); ++r) ranks.push_back(r);
  if (devices != static_cast<int>(ranks.size()))
    throw error("devices={} but mpirun has started {} processes; there should be one per device", devices,
                ranks.size());
  return [ranks = std::move(ranks), together](Prepared program, SessionOptions options) {
    MpiProcess& self = joined();
    self.heartbeat().set_timeout(options.timeout);
    *together = together_of(program.pipeline());
    if (static_cast<int>(ranks.size()) == rank_count()) {
      announce(*together, "starts");
      check_agreement(told_of(program.pipeline(), options.seed));
    }
    return start_rank(
        std::move(program), [&](std::size_t transfers) { return self.communicator(ranks, transfers); },
        options);
  };
}

void enter(const Session& session, const Together& together, std::string_view does) {
  if (is_of_all(session)) announce(together, does);
}

void agree(const Session& session, std::span<const Agreement> told) {
  if (is_of_all(session)) check_agreement(told);
}

void remember(const std::shared_ptr<Program>& program) {
  if (rank_count() > 1) programs.push_back(program);
}

void bind_ranks(py::module_& m) {
  m.def("rank_count", &rank_count, "Processes of this run: 1 unless mpirun has started more.");
  m.def("own_rank", &own_rank);
  m.def(
      "join",
      [] {
        if (rank_count() > 1) joined();
      },
      "Meets the other processes of this run.");
  m.def(
      "end_all",
      [](int status) {
        if (process) process->end_all(status);
      },
      "Ends all processes of the run: for a failure that the others do not know of.");
  py::module_::import("atexit").attr("register")(py::cpp_function(&leave));
}

}  // namespace shardwright::python

// This process as one rank of a run that mpirun has started; alone, it drives all devices as threads.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/frontend/graph_step.h"
#include "shardwright/runtime/agreement.h"

namespace shardwright::python {

namespace py = pybind11;

class Program;

/// Ranks of this run: 1 unless mpirun has started more.
int rank_count();
int own_rank();

/// A program, as processes that run it together know that it is the same.
struct Together {
  std::uint64_t key = 0;  // of its inputs, operators and results, without attributes
  std::string words;      // `a program of x f32[32, 784]`
};

/// Of one device each process for itself; else all processes together, which meet at the first call and then know the
/// program as `together`. `ranks`: which of them, ascending; none said: all.
/// Throws: Error if the program is for another number of devices.
SessionStart session_start(int devices, std::vector<int> ranks, std::shared_ptr<Together> together);

/// Says that this process begins what all processes of `session` do together: `runs`, ` ` and the program.
/// Throws: Error if another does something else.
void enter(const Session& session, const Together& together, std::string_view does);
/// Compares what this process was told for `session` with the others, which all do so behind the same `enter`.
/// Throws on all: Error that names the first difference.
void agree(const Session& session, std::span<const Agreement> told);

/// Of several processes all end a program at the same time, which the end of Python's object is not: it lives until the
/// process leaves the run.
void remember(const std::shared_ptr<Program>& program);

void bind_ranks(py::module_& m);

}  // namespace shardwright::python

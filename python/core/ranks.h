// This process as one rank of a run that mpirun has started; alone, it drives all devices as threads.
#pragma once

#include <pybind11/pybind11.h>

#include "shardwright/frontend/graph_step.h"

namespace shardwright::python {

namespace py = pybind11;

class Program;

/// Ranks of this run: 1 unless mpirun has started more.
int rank_count();
int own_rank();
/// Of one device each process for itself; else all processes together, which meet at the first call.
/// `ranks`: which of them, ascending; none said: all. Throws: Error if the program is for another number of devices.
SessionStart session_start(int devices, std::vector<int> ranks = {});

/// Says that this process begins what all processes of `session` do together.
void enter(const Session& session);

/// Of several processes all end a program at the same time, which the end of Python's object is not: it lives until the
/// process leaves the run.
void remember(const std::shared_ptr<Program>& program);

void bind_ranks(py::module_& m);

}  // namespace shardwright::python

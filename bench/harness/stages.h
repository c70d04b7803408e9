// The way from a graph to its program, stage by stage with their times, and with passes left out on wish; and
// such a program on one device, without a session around it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shardwright/lower/program.h"
#include "shardwright/plan/plan.h"
#include "shardwright/runtime/executor.h"

namespace shardwright {

struct Stages {
  Program program;
  std::vector<std::pair<std::string, double>> seconds;  // apply, complete, lower, then each pass
};

/// `without`: names of passes that do not run.
Stages compile_in_stages(const Graph& graph, const Plan& plan, const std::vector<std::string>& without = {});

/// For one device; nothing to plan.
Plan stand_alone_plan(const Graph& graph);

/// A program of one device, run on the calling thread. Its parameters hold numbers between -2 and 2; inputs would be
/// overwritten by what comes after their last use.
class Alone {
 public:
  explicit Alone(Program program);
  void run() { executor_.run(); }

 private:
  Pipeline pipeline_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Communicator> communicator_;
  Executor executor_;
};

}  // namespace shardwright

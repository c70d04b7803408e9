#include <malloc.h>

#include <csignal>
#include <iostream>
#include <ostream>
#include <string_view>

#include "shardwright/cli/interrupts.h"
#include "shardwright/cli/progress_line.h"
#include "shardwright/cli/standard_output.h"
#include "shardwright/cli/verb.h"
#include "shardwright/runtime/launch/agent.h"
#include "shardwright/runtime/launch/keeper.h"
#include "shardwright/runtime/launcher.h"

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == shardwright::agent_word)  // not a verb: only mpirun says it
    return shardwright::run_agent({argv + 2, argv + argc});
  if (argc > 1 && std::string_view(argv[1]) == shardwright::keeper_word)  // likewise, a launcher
    return shardwright::run_keeper({argv + 2, argv + argc});
  // Plans are made of millions of small values. What malloc sets aside unmerged it merges with every large one that is
  // freed, again and again: a fifth of planning a deep network.
  mallopt(M_MXFAST, 0);
  shardwright::take_standard_descriptors();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of its writing
  std::ios::sync_with_stdio(false);
  // Of processes that are started together all come to the same words, and the first says them.
  std::ostream nowhere(nullptr);
  const bool speaks = shardwright::rank_of_process() == 0;
  shardwright::catch_interrupts({.is_quiet = !speaks, .is_rank = shardwright::launched_rank().has_value()});
  shardwright::ProgressLine line(speaks && shardwright::can_redraw_lines());
  shardwright::StandardOutput buffer(&line);
  std::ostream out(&buffer);
  out.exceptions(std::ios::badbit);
  shardwright::StandardError errors(line);
  std::ostream err(&errors);
  err << std::unitbuf;
  shardwright::Terminal terminal{std::cin, speaks ? out : nowhere, speaks ? err : nowhere, line.progress()};
  return shardwright::run_command({argv + 1, argv + argc}, terminal);
}

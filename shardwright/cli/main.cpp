#include <iostream>
#include <ostream>

#include "shardwright/cli/verb.h"
#include "shardwright/runtime/launcher.h"

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  // Under mpirun all ranks come to the same words, and the first says them.
  std::ostream nowhere(nullptr);
  const bool speaks = shardwright::launched_rank().value_or(0) == 0;
  shardwright::Terminal terminal{std::cin, speaks ? std::cout : nowhere, speaks ? std::cerr : nowhere};
  return shardwright::run_command({argv + 1, argv + argc}, terminal);
}

#include <csignal>
#include <iostream>

#include "shardwright/cli/verb.h"

int main(int argc, char** argv) {
  std::signal(SIGINT, [](int) { shardwright::interrupt(); });
  std::signal(SIGTERM, [](int) { shardwright::interrupt(); });
  std::ios::sync_with_stdio(false);
  shardwright::Terminal terminal{std::cin, std::cout, std::cerr};
  return shardwright::run_command({argv + 1, argv + argc}, terminal);
}

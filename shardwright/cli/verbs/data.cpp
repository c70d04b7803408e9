#include <fmt/format.h>

#include <ostream>

#include "shardwright/base/error.h"
#include "shardwright/cli/verb.h"
#include "shardwright/runtime/digits.h"

namespace shardwright::verbs {
namespace {

int run(const Arguments& arguments, Terminal& terminal) {
  if (arguments.positionals[0] != "digits")
    throw error("data set '{}' does not exist; there is digits", arguments.positionals[0]);
  if (!arguments.has("--out")) throw error("data digits needs --out DIR");
  DigitsOptions options;
  options.train = arguments.integer("--train", options.train);
  options.test = arguments.integer("--test", options.test);
  options.seed = static_cast<std::uint64_t>(arguments.integer("--seed", 1, 0));
  options.gzip = arguments.is_on("--gzip");
  write_digits(arguments.text("--out"), options);
  terminal.err << fmt::format("drew {} + {} digits into {}\n", options.train, options.test,
                              arguments.text("--out"));
  return 0;
}

}  // namespace

std::vector<Verb> data() {
  return {{.name = "data",
           .doc = "draw digit images in MNIST's format, for machines without MNIST",
           .positionals = {"digits"},
           .flags = {{"--out", "DIR", "where the four files go", ""},
                     {"--train", "N", "training images (default 10000)", ""},
                     {"--test", "N", "test images (default 2000)", ""},
                     {"--seed", "S", "another seed draws other digits", ""},
                     {"--gzip", "", "compress the files", ""}},
           .example = "shardwright data digits --out digits && DATA_PATH=digits shardwright train ffn",
           .run = run}};
}

}  // namespace shardwright::verbs

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "shardwright/base/error.h"
#include "shardwright/base/file.h"
#include "shardwright/base/text.h"
#include "shardwright/cli/verb.h"
#include "shardwright/runtime/data/digits.h"
#include "shardwright/runtime/data/drawn_sentences.h"
#include "shardwright/runtime/data/drawn_tokens.h"
#include "shardwright/runtime/data/pictures.h"

namespace shardwright::verbs {
namespace {

/// What to draw, once all flags are read.
struct Asked {
  const Arguments& arguments;
  std::ostream& err;
  std::string folder;
  std::uint64_t seed;

  std::int64_t integer(const char* flag, std::int64_t otherwise) const {
    return arguments.integer(flag, otherwise);
  }
  void tell(std::int64_t train, std::int64_t test, std::string_view what) const {
    err << fmt::format("drew {} + {} {} into {}\n", train, test, what, folder);
  }
};

void draw_digits(const Asked& asked) {
  DigitsOptions options{.seed = asked.seed, .gzip = asked.arguments.is_on("--gzip")};
  options.train = asked.integer("--train", options.train);
  options.test = asked.integer("--test", options.test);
  asked.arguments.check_heeded(asked.err);
  write_digits(asked.folder, options);
  asked.tell(options.train, options.test, "digits");
}

void draw_cifar(const Asked& asked) {
  CifarOptions options{.seed = asked.seed};
  options.train = asked.integer("--train", options.train);
  options.test = asked.integer("--test", options.test);
  const std::int64_t classes = asked.integer("--classes", 10);
  if (classes != 10 && classes != 100)
    throw error("cifar: {} classes asked for; there are 10 or 100", classes);
  options.kind = classes == 10 ? Cifar::ten : Cifar::hundred;
  asked.arguments.check_heeded(asked.err);
  write_drawn_cifar(asked.folder, options);
  asked.tell(options.train, options.test, fmt::format("images of {} classes", classes));
}

void draw_images(const Asked& asked) {
  PictureOptions options{.seed = asked.seed};
  options.train = asked.integer("--train", options.train);
  options.test = asked.integer("--test", options.test);
  options.classes = asked.integer("--classes", options.classes);
  asked.arguments.check_heeded(asked.err);
  write_drawn_pictures(asked.folder, options);
  asked.tell(options.train, options.test, fmt::format("images of {} classes", options.classes));
}

void draw_tokens(const Asked& asked) {
  DrawnTokensOptions options{.seed = asked.seed};
  options.train = asked.integer("--train", options.train);
  options.test = asked.integer("--test", options.test);
  options.vocabulary = asked.integer("--vocabulary", options.vocabulary);
  asked.arguments.check_heeded(asked.err);
  write_drawn_tokens(asked.folder, options);
  asked.tell(options.train, options.test, "tokens");
}

void draw_sentences(const Asked& asked) {
  DrawnSentencesOptions options{.seed = asked.seed};
  options.train = asked.integer("--train", options.train);
  options.test = asked.integer("--test", options.test);
  asked.arguments.check_heeded(asked.err);
  write_drawn_sentences(asked.folder, options);
  asked.tell(options.train, options.test, "sentences");
}

/// How many lines of a file the grammar of `sentences` accepts.
int check_sentences(const Arguments& arguments, Terminal& terminal) {
  const std::string path = arguments.text("--check");
  arguments.check_heeded(terminal.err);
  const std::string text = read_text(path);
  std::int64_t lines = 0, accepted = 0;
  for (const std::string_view line : split(text, '\n')) {
    if (trim(line).empty()) continue;
    ++lines;
    accepted += is_sentence(trim(line)) ? 1 : 0;
  }
  if (lines == 0) throw error("{}: has no lines", path);
  terminal.out << fmt::format("{} of {} lines are sentences\n", accepted, lines);
  return 0;
}

constexpr std::pair<std::string_view, void (*)(const Asked&)> sets[] = {
    {"digits", draw_digits},       {"cifar", draw_cifar}, {"images", draw_images},
    {"sentences", draw_sentences}, {"text", draw_tokens}, {"tokens", draw_tokens}};

int run(const Arguments& arguments, Terminal& terminal) {
  const std::string& name = arguments.positionals[0];
  std::vector<std::string> names;
  for (const auto& [known, draw] : sets) {
    names.emplace_back(known);
    if (name != known) continue;
    if (name == "sentences" && arguments.has("--check")) return check_sentences(arguments, terminal);
    if (!arguments.has("--out")) throw error("data {} needs --out DIR", name);
    draw({arguments, terminal.err, arguments.text("--out"),
          static_cast<std::uint64_t>(arguments.integer("--seed", 1, 0))});
    return 0;
  }
  throw error("data set '{}' does not exist{}; there are {}", name, near_names(name, names),
              join(names, ", "));
}

}  // namespace

std::vector<Verb> data() {
  return {{.name = "data",
           .doc = "draw data to learn from, for machines without: digits as MNIST has them, cifar, images in "
                  "a folder "
                  "for each class, sentences of a grammar, or text, which is tokens",
           .positionals = {"SET"},
           .flags = {{"--out", "DIR", "where the files go", ""},
                     {"--train", "N",
                      "training samples (default: 10000; 500 images, 20000 sentences, 200000 tokens)", ""},
                     {"--test", "N", "test samples (default: 2000; 100 images, 2000 sentences, 20000 tokens)",
                      ""},
                     {"--seed", "S", "another seed draws others", ""},
                     {"--classes", "N", "of cifar 10 or 100, of images 2 to 10 (default 10)", ""},
                     {"--vocabulary", "N", "of tokens (default 256)", ""},
                     {"--gzip", "", "compress digits", ""},
                     {"--check", "FILE",
                      "of sentences, in place of --out: how many lines the grammar accepts", ""}},
           .example = "shardwright data digits --out digits && DATA_PATH=digits shardwright train ffn",
           .run = run}};
}

}  // namespace shardwright::verbs

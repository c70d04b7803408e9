// Text to tokens for training.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

#include "shardwright/cli/verb.h"
#include "shardwright/runtime/data/documents.h"
#include "shardwright/runtime/data/token_writer.h"
#include "shardwright/runtime/data/tokenized.h"
#include "shardwright/tokenizer/chat_template.h"

namespace shardwright::verbs {
namespace {

/// What `--end` says, or the tokenizer's own.
std::optional<std::int32_t> end_of(const Arguments& arguments, const Tokenizer& tokenizer) {
  if (!arguments.has("--end")) return tokenizer.end_of_document();
  const std::string said = arguments.text("--end");
  if (said == "none") return std::nullopt;
  const auto id = tokenizer.id_of(said);
  if (!id)
    throw error("--end {}: there is no such token in {}; give one of its tokens, or none", said,
                arguments.positionals[0]);
  return id;
}

/// How a line of JSON lines is a text: under a key, or by the template for talks.
LineText line_text_of(const Arguments& arguments) {
  if (!arguments.is_on("--chat")) return {.key = arguments.text("--key", "text")};
  const ChatTemplate chat = read_chat_template(arguments.positionals[0]);
  return {.key = arguments.text("--key", "messages"), .made = [chat](const nlohmann::ordered_json& messages) {
            return chat_text(chat, messages, NextTurn::nobodys);
          }};
}

/// The files, in their order.
std::vector<std::string> texts_of(const Arguments& arguments) {
  const std::vector<std::string> paths(arguments.positionals.begin() + 1, arguments.positionals.end());
  for (const std::string& path : paths) readable_bytes(path);  // before the first is read
  if (arguments.has("--key") && std::ranges::none_of(paths, are_json_lines))
    arguments.idle("--key", "no file is of JSON lines (*.jsonl)");
  for (const std::string& path : paths)
    if (arguments.is_on("--chat") && !are_json_lines(path))
      throw error("--chat: {} holds no talks; they are JSON lines (*.jsonl)", path);
  return paths;
}

void tell(const Arguments& arguments, const Tokenizer& tokenizer, const Tokenized& done,
          std::int64_t token_bytes, std::optional<std::int32_t> end, Terminal& terminal) {
  const std::string path = arguments.text("-o");
  const std::string end_text = end ? tokenizer.token(*end) : "";
  if (arguments.is_on("--json")) {
    terminal.out << nlohmann::ordered_json{{"path", path},
                                           {"documents", done.documents},
                                           {"tokens", done.tokens},
                                           {"text_bytes", done.text_bytes},
                                           {"token_bytes", token_bytes},
                                           {"vocabulary", tokenizer.vocabulary()},
                                           {"end", end_text}}
                        .dump()
                 << "\n";
    return;
  }
  terminal.out << fmt::format(
      "{}: {} tokens of {} document{}, {} bytes each, below {}; {:.2f} bytes of text a token\n", path,
      done.tokens, done.documents, done.documents == 1 ? "" : "s", token_bytes, tokenizer.vocabulary(),
      static_cast<double>(done.text_bytes) / static_cast<double>(std::max<std::int64_t>(done.tokens, 1)));
  terminal.out << (end ? fmt::format("each document ends in {} ({})\n", end_text, *end)
                       : "documents follow each other without a token between\n");
}

int run(const Arguments& arguments, Terminal& terminal) {
  if (!arguments.has("-o")) throw error("tokenize needs -o FILE.bin, or FILE.npy");
  const Tokenizer tokenizer = Tokenizer::read(arguments.positionals[0]);
  const std::vector<std::string> paths = texts_of(arguments);
  const auto end = end_of(arguments, tokenizer);
  const bool is_chat = arguments.is_on("--chat");  // its template says all that stands around
  const TokenizeOptions options{.line = line_text_of(arguments),
                                .end = is_chat && !arguments.has("--end") ? std::nullopt : end,
                                .around = is_chat ? Around::nothing : Around::special_tokens};
  TokenWriter writer(arguments.text("-o"),
                     {.vocabulary = tokenizer.vocabulary(), .has_index = arguments.is_on("--index")});
  arguments.heed("--json");
  arguments.check_heeded(terminal.err);
  const Tokenized done =
      tokenize(tokenizer, paths, options, [&](std::span<const std::int32_t> ids) { writer.write(ids); });
  if (done.tokens == 0) throw error("{}: holds no text", paths.front());
  writer.keep();
  tell(arguments, tokenizer, done, writer.token_bytes(), options.end, terminal);
  return 0;
}

}  // namespace

std::vector<Verb> tokenize() {
  return {{.name = "tokenize",
           .doc = "make files of tokens of texts, which decoders are trained on with --data",
           .positionals = {"FOLDER|tokenizer.json", "FILE..."},
           .flags = {{"-o", "FILE", "tokens.bin, or tokens.npy for numpy", ""},
                     {"--index", "", "with an index beside tokens.bin, as Megatron-LM reads it", ""},
                     {"--key", "KEY", "of JSON lines: where the text stands (default text; messages)", ""},
                     {"--end", "TOKEN|none", "behind each document (default: the tokenizer's own)", ""},
                     {"--chat", "",
                      "JSON lines hold messages, which the folder's chat template makes text of", ""},
                     {"--json", "", "what was written, as JSON", ""}},
           .example = "shardwright tokenize gpt2/ book.txt pages.jsonl -o tokens.bin",
           .run = run}};
}

}  // namespace shardwright::verbs

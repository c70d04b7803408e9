#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>

#include "shardwright/base/quantity.h"
#include "shardwright/base/text.h"
#include "shardwright/cli/agreements.h"
#include "shardwright/cli/asked.h"
#include "shardwright/cli/mpi_rank.h"
#include "shardwright/cli/programs.h"
#include "shardwright/cli/sample_flags.h"
#include "shardwright/cli/verb.h"
#include "shardwright/cli/waiting.h"
#include "shardwright/frontend/generate.h"
#include "shardwright/frontend/source.h"
#include "shardwright/tokenizer/chat_template.h"
#include "shardwright/tokenizer/tokenizer.h"

namespace shardwright::verbs {
namespace {

using Tokens = Generator::Tokens;

/// `1,2,3`
Tokens tokens_in(const std::string& flag, std::string_view text) {
  Tokens out;
  for (std::string_view word : split(text, ',')) {
    const auto token = to_integer(word);
    if (!token || *token < 0 || *token > std::numeric_limits<std::int32_t>::max())
      throw error("{} {}: should be tokens, as in 1,2,3", flag, text);
    out.push_back(static_cast<std::int32_t>(*token));
  }
  return out;
}

/// By the tokenizer, with what it puts in front; without one the bytes.
Tokens tokens_of_text(const std::string& text, const std::optional<Tokenizer>& tokenizer) {
  if (text.empty()) throw error("--text: is empty; give at least one byte");
  if (tokenizer) return tokenizer->encode(text, Around::special_tokens);
  Tokens out;
  for (char c : text) out.push_back(static_cast<unsigned char>(c));
  return out;
}

/// What a user says, as the folder's chat template has it, with the answer to come.
Tokens tokens_of_talk(const Arguments& arguments, const std::optional<Tokenizer>& tokenizer) {
  if (!arguments.has("--text")) throw error("--chat goes with --text, which is what a user says");
  if (!tokenizer) throw error("--chat needs --tokenizer FOLDER, whose chat template it takes");
  const nlohmann::ordered_json said = {{"role", "user"}, {"content", arguments.text("--text")}};
  const auto messages = nlohmann::ordered_json::array({said});
  return tokenizer->encode(
      chat_text(read_chat_template(tokenizer_of(arguments)), messages, NextTurn::of_the_answer));
}

/// Of one prompt, or of several that `;` parts.
std::vector<Tokens> prompts_of(const Arguments& arguments, const std::optional<Tokenizer>& tokenizer) {
  if (arguments.has("--prompt") == arguments.has("--text"))
    throw error("generate needs --prompt TOKENS or --text TEXT, one of them");
  if (arguments.is_on("--chat")) return {tokens_of_talk(arguments, tokenizer)};
  if (arguments.has("--text")) return {tokens_of_text(arguments.text("--text"), tokenizer)};
  std::vector<Tokens> out;
  const std::string prompts = arguments.text("--prompt");
  for (std::string_view prompt : split(prompts, ';')) out.push_back(tokens_in("--prompt", prompt));
  return out;
}

double number_of(const Arguments& arguments, const std::string& flag, double otherwise) {
  if (!arguments.has(flag)) return otherwise;
  const auto number = to_number(arguments.text(flag));
  if (!number) throw error("{} {}: should be a number", flag, arguments.text(flag));
  return *number;
}

Sampling sampling_of(const Arguments& arguments) {
  Sampling out{.top_k = arguments.integer("--top-k", 0),
               .top_p = number_of(arguments, "--top-p", 1),
               .seed = static_cast<std::uint64_t>(arguments.integer("--seed", 1, 0))};
  const bool draws = arguments.has("--top-k") || arguments.has("--top-p") || arguments.has("--seed");
  out.temperature = number_of(arguments, "--temperature", draws ? 1 : 0);
  if (out.is_greedy() && draws)
    throw error(
        "--temperature 0 takes the largest score; --top-k, --top-p and --seed have nothing to do then");
  check(out);
  return out;
}

/// What goes on behind a prompt: what a tokenizer makes of both, behind what it makes of the prompt, since of a text's
/// first token some take a blank away.
std::string text_behind(const Tokens& prompt, const Tokens& tokens, const Tokenizer& tokenizer) {
  Tokens all = prompt;
  all.insert(all.end(), tokens.begin(), tokens.end());
  const std::string begin = tokenizer.decode(prompt, Special::skipped);
  const std::string whole = tokenizer.decode(all, Special::skipped);
  return whole.starts_with(begin) ? whole.substr(begin.size()) : tokenizer.decode(tokens, Special::skipped);
}

/// Tokens are bytes, of which what is not printable becomes `?`.
std::string text_of_bytes(const Tokens& tokens) {
  std::string out;
  for (std::int32_t t : tokens)
    out.push_back((t >= 0x20 && t < 0x7f) || t == '\n' ? static_cast<char>(t) : '?');
  return out;
}

bool is_of_generation(const SettingRow& row) {
  return row.part == SettingPart::machine || row.flag == "--parallel" || row.flag == "--search" ||
         row.flag == "--stages" || row.flag == "--precision";
}

std::vector<Flag> flags() {
  std::vector<Flag> out{
      {"--checkpoint", "DIR|FILE",
       "the weights, if the model is no folder with some: a checkpoint, or safetensors", ""},
      {"--prompt", "TOKENS", "1,2,3; several, which become one batch, as 1,2,3;4,5", ""},
      {"--text", "TEXT", "a prompt as text; without --tokenizer its tokens are its bytes", ""},
      tokenizer_flag(),
      {"--chat", "", "the text is what a user says, put into the chat template of the tokenizer's folder",
       ""},
      {"--tokens", "N", "how many at most (default 20)", ""},
      {"--temperature", "T", "draw tokens by scores divided by T (default: the likeliest token)", ""},
      {"--top-k", "K", "draw from the K likeliest tokens", ""},
      {"--top-p", "P", "draw from the fewest tokens that have this probability together", ""},
      {"--seed", "S", "of what is drawn (default 1)", ""},
      {"--stop", "TOKENS", "tokens that end a sequence (default with --tokenizer: what ends a document)", ""},
      timeout_flag(),
      runtime_flag(),
      {"--json", "", "a JSON line for each prompt", ""}};
  for (const SettingRow& row : all_settings())
    if (is_of_generation(row)) out.push_back({row.flag, row.value, row.doc, row.alias});
  return out;
}

/// What is to be written, before ranks start.
struct Writing {
  std::optional<Tokenizer> tokenizer;
  std::vector<Tokens> prompts;
  std::int64_t count = 0;
  Sampling sampling;
  Tokens stops;
  GenerateOptions options;
  std::string checkpoint;
  bool is_text = false, is_json = false;
};

Writing writing_of(const Arguments& arguments) {
  if (!arguments.has("--checkpoint") && !source_of_model(arguments.positionals[0]).has_weights)
    throw error("generate needs --checkpoint");
  std::optional<Tokenizer> tokenizer;
  if (const std::string path = tokenizer_of(arguments); !path.empty()) tokenizer = Tokenizer::read(path);
  Writing out{.tokenizer = tokenizer,
              .prompts = prompts_of(arguments, tokenizer),
              .count = arguments.integer("--tokens", 20)};
  out.sampling = sampling_of(arguments);
  if (arguments.has("--stop")) out.stops = tokens_in("--stop", arguments.text("--stop"));
  if (!arguments.has("--stop") && tokenizer && tokenizer->end_of_document())
    out.stops = {*tokenizer->end_of_document()};
  for (const SettingRow& row : all_settings())
    if (is_of_generation(row)) arguments.heed(row.flag);
  arguments.heed("--runtime");
  const PlanRequest asked = asked_of(arguments);
  tell_idle(arguments, asked);
  tell_assumed(arguments, {.precision = !arguments.has("--precision")}, asked.origin);
  out.checkpoint = arguments.text("--checkpoint");
  out.is_text = arguments.has("--text") || tokenizer;
  out.is_json = arguments.is_on("--json");
  out.options = {.devices = asked.devices,
                 .stages = stage_count(asked.constraints),
                 .parallel = asked.parallel,
                 .search = asked.search,
                 .cluster = asked.cluster,
                 .precision = asked.origin.precision,
                 .device = device_of(arguments),
                 .session = with_waiting({}, waiting_of(arguments, asked.devices)),
                 .proves = is_first_rank(),
                 .progress = arguments.progress};
  return out;
}

/// Weights and caches are of both programs.
std::string memory_text(const Generator& generator) {
  std::string out = fmt::format("memory {} a device", bytes_text(generator.arena_bytes()));
  if (const std::int64_t bytes = generator.prompt_bytes(); bytes > 0)
    out += fmt::format(", {} of it to take the prompts in one pass", bytes_text(bytes));
  return out;
}

Generator generator_of(const Arguments& arguments, const Writing& writing, Terminal& terminal) {
  const auto longest = static_cast<std::int64_t>(std::ranges::max(writing.prompts, {}, &Tokens::size).size());
  GenerateOptions options = writing.options;
  if (longest >= least_prompt && writing.count > 0) options.prompt = longest;
  Generator generator(arguments.positionals[0], static_cast<std::int64_t>(writing.prompts.size()),
                      longest + writing.count, options);
  const std::int64_t known = generator.vocabulary();
  if (writing.is_text && !writing.tokenizer && known < 256)
    throw error("--text: its tokens are bytes, but the decoder knows {} tokens", known);
  for (const Tokens& prompt : writing.prompts)
    for (const std::int32_t token : prompt)
      if (writing.tokenizer && token >= known)
        throw error("--tokenizer {}: '{}' is token {}, but the decoder knows {} tokens",
                    tokenizer_of(arguments), writing.tokenizer->token(token), token, known);
  for (std::int32_t stop : writing.stops)
    if (arguments.has("--stop") && stop >= known)
      throw error("--stop {}: the decoder knows {} tokens, from 0 on", stop, known);
  if (writing.sampling.top_k > known)
    throw error("--top-k {}: the decoder knows {} tokens", writing.sampling.top_k, known);
  arguments.check_heeded(terminal.err);
  if (is_first_rank() && !writing.is_json) terminal.err << memory_text(generator) << "\n";
  return generator;
}

void tell(const Generated& out, const Writing& writing, std::int64_t memory_bytes, Terminal& terminal) {
  if (!out.notice.empty()) terminal.err << out.notice << "\n";
  const std::int64_t rest = out.steps - out.first_steps;
  const double each = rest > 0 ? (out.seconds - out.first_seconds) / static_cast<double>(rest)
                               : out.seconds / static_cast<double>(std::max<std::int64_t>(out.steps, 1));
  for (std::size_t i = 0; i < out.tokens.size(); ++i) {
    const Tokens& tokens = out.tokens[i];
    const std::string text = writing.tokenizer ? text_behind(writing.prompts[i], tokens, *writing.tokenizer)
                             : writing.is_text ? text_of_bytes(tokens)
                                               : "";
    if (writing.is_json) {
      terminal.out << nlohmann::ordered_json{{"tokens", tokens},
                                             {"text", text},
                                             {"seconds_per_token", each},
                                             {"first_token_seconds", out.first_seconds},
                                             {"memory_bytes", memory_bytes}}
                          .dump()
                   << "\n";
      continue;
    }
    std::vector<std::string> words;
    for (std::int32_t t : tokens) words.push_back(std::to_string(t));
    terminal.out << (writing.is_text ? text : join(words, ",")) << "\n";
  }
  const std::size_t prompts = writing.prompts.size();
  if (!writing.is_json)
    terminal.err << fmt::format("{} steps of {:.3g} ms, {} sequence{}\n", out.steps, each * 1e3, prompts,
                                prompts == 1 ? "" : "s");
}

int write_with(Generator generator, const Writing& writing, Terminal& terminal) {
  if (writing.checkpoint.empty())
    generator.load_own();
  else
    generator.load(writing.checkpoint);
  const Generated out = generator(writing.prompts, writing.count, writing.sampling, writing.stops);
  if (is_first_rank()) tell(out, writing, generator.arena_bytes(), terminal);
  return 0;
}

int write_as_rank(const Arguments& arguments, Terminal& terminal) {
  std::optional<Writing> writing;
  const auto prepare = [&](MpiProcess& process) {
    check_ranks(arguments, process);
    writing = writing_of(arguments);
    return agreements_of(arguments);
  };
  const auto write = [&](MpiProcess& process) {
    writing->options.start = start_on(process);
    return write_with(generator_of(arguments, *writing, terminal), *writing, terminal);
  };
  return run_as_mpi_rank({prepare, write, timeout_of(arguments)}, terminal);
}

int run(const Arguments& arguments, Terminal& terminal) {
  if (runtime_of(arguments) == Runtime::mpi)
    return run_over_mpi(arguments, terminal, [&] { return write_as_rank(arguments, terminal); });
  const Writing writing = writing_of(arguments);
  return write_with(generator_of(arguments, writing, terminal), writing, terminal);
}

}  // namespace

std::vector<Verb> generate() {
  return {{.name = "generate",
           .doc = "continue prompts with a trained decoder, token by token",
           .positionals = {"MODEL"},
           .flags = flags(),
           .example = "shardwright generate llama --checkpoint run1 --prompt 1,2,3 --tokens 20 --devices 4",
           .run = run,
           .joins_mpirun = true}};
}

}  // namespace shardwright::verbs

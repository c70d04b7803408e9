// How fast one thread makes tokens of text: the documentation of this project over and over, each time as if its words had
// not been seen, and words drawn by chance, of which hardly any comes again.
#include <fmt/format.h>

#include <filesystem>

#include "bench/harness/measure.h"
#include "shardwright/base/file.h"
#include "shardwright/base/random.h"
#include "shardwright/tokenizer/tokenizer.h"

namespace shardwright {
namespace {

std::string documentation() {
  std::string out;
  for (const auto& entry : std::filesystem::directory_iterator("docs"))
    if (entry.path().extension() == ".md") out += read_text(entry.path().string());
  return out;
}

std::string drawn_words(std::int64_t bytes) {
  const RandomStream random(1, "words");
  std::string out;
  std::uint64_t drawn = 0;
  while (std::ssize(out) < bytes) {
    for (std::int64_t letters = 1 + random.below(drawn++, 9); letters > 0; --letters)
      out.push_back(static_cast<char>('a' + random.below(drawn++, 26)));
    out += random.below(drawn++, 9) == 0 ? ", " : " ";
  }
  return out;
}

void bench(const BenchOptions& options) {
  const Table table({"tokenizer", "text", "bytes of a token", "MB/s", "target"});
  table.begin("Text to tokens, a thread");
  pin();
  const std::pair<const char*, std::string> texts[] = {
      {"documentation", documentation()}, {"drawn words", drawn_words(options.is_smoke ? 1000 : 2'000'000)}};
  for (const char* name : {"gpt2_style", "llama3_style", "llama2_style", "llama2_metaspace_11", "t5_11",
                           "t5_precompiled_11", "bert_uncased_11"}) {
    const Tokenizer tokenizer = Tokenizer::read(fmt::format("tests/reference/tokenizer/{}.json", name));
    for (const auto& [called, text] : texts) {
      TokenIds ids;
      std::vector<double> seconds;  // that the thread has had a core
      for (int round = 0; round < options.rounds(7); ++round) {
        ids.clear();
        const double start = cpu_seconds_now();
        Encoder(tokenizer).encode(text, Around::nothing, ids);
        seconds.push_back(cpu_seconds_now() - start);
      }
      table.row({name, called,
                 fmt::format("{:.2f}", static_cast<double>(text.size()) / static_cast<double>(ids.size())),
                 fmt::format("{:.1f}", static_cast<double>(text.size()) / spread_of(seconds).median * 1e-6),
                 ">= 5"});
    }
  }
}

}  // namespace
}  // namespace shardwright

int main(int argc, char** argv) { return shardwright::run_bench(argc, argv, shardwright::bench); }

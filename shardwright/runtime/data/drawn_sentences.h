// Texts that are drawn by a grammar: what a decoder has learnt of them can be told, since the grammar says of each line
// whether it is a sentence.
//
//   sentence -> NP(n) VP(n) .                     n: one or many, which verbs and nouns agree in
//   NP(n)    -> determiner(n) [adjective] noun(n) [that VP(n)]
//   VP(n)    -> goes(n) [adverb]  |  sees(n) NP(m)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace shardwright {

struct DrawnSentencesOptions {
  std::int64_t train = 20'000;  // lines
  std::int64_t test = 2'000;
  std::uint64_t seed = 1;
};

/// Writes DIR/train.txt and DIR/val.txt, a sentence a line. Throws: Error if they are there already.
void write_drawn_sentences(const std::string& directory, const DrawnSentencesOptions& options = {});

/// `The old river that sees many birds sleeps well.`
bool is_sentence(std::string_view line);

}  // namespace shardwright

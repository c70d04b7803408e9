// Unigram: of all ways to write a word as pieces that with the largest sum of scores (Kudo 2018), by Viterbi's
// algorithm over the places in the word: best(end) = max over pieces of best(start) + score. A character that no piece
// is of scores 10 less than the smallest score, and a run of such characters is one unknown token.
#include <algorithm>
#include <limits>
#include <memory>

#include "shardwright/tokenizer/text_tree.h"
#include "shardwright/tokenizer/unicode.h"
#include "shardwright/tokenizer/vocabulary.h"

namespace shardwright {
namespace {

constexpr double unknown_penalty = 10;

class Unigram {
 public:
  Unigram(const Fields& model, Vocabulary& vocabulary);
  void encode(std::string_view word, TokenIds& out) const;

 private:
  struct Step {
    double score = 0;
    std::size_t start = none;
    std::int32_t id = 0;
  };
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

  std::vector<Step> best_steps(std::string_view word) const;
  void add_unknown(std::string_view text, TokenIds& out) const;

  std::vector<double> scores_;  // by id
  double unknown_score_ = 0;
  std::optional<std::int32_t> unknown_;
  TokenIds bytes_;  // tokens of bytes; empty: unknown characters are not written so
  TextTree pieces_;
};

Unigram::Unigram(const Fields& model, Vocabulary& vocabulary) {
  model.check_known({"type", "unk_id", "vocab", "byte_fallback"});
  const nlohmann::json& pieces = model.array("vocab");
  for (const nlohmann::json& piece : pieces) {
    const std::string place = fmt::format("{}[{}]", model.place("vocab"), scores_.size());
    if (!piece.is_array() || piece.size() != 2 || !piece[0].is_string() || !piece[1].is_number())
      throw error("{}: must be a piece and its score, as [\"a\", -2.5]", place);
    const std::string text = piece[0].get<std::string>();
    if (text.empty()) throw error("{}: the piece is empty", place);
    const auto id = static_cast<std::int32_t>(scores_.size());
    vocabulary.add(text, id);
    scores_.push_back(piece[1].get<double>());
    pieces_.add(text, id);
  }
  if (scores_.empty()) throw model.wrong("vocab", "is empty");
  unknown_score_ = *std::ranges::min_element(scores_) - unknown_penalty;
  if (model.has("unk_id"))
    unknown_ =
        static_cast<std::int32_t>(model.integer("unk_id", 0, static_cast<std::int64_t>(scores_.size()) - 1));
  for (int b = 0; b < 256 && model.flag("byte_fallback", false); ++b)
    if (const auto id = vocabulary.id_of(byte_token(static_cast<unsigned char>(b)))) bytes_.push_back(*id);
  if (bytes_.size() < 256) bytes_.clear();
  if (!unknown_) throw model.wrong("unk_id", "is missing; a text with other characters would have no tokens");
}

std::vector<Unigram::Step> Unigram::best_steps(std::string_view word) const {
  std::vector<Step> steps(word.size() + 1);  // that end there
  const auto offer = [&](std::size_t start, std::size_t end, double score, std::int32_t id) {
    Step& step = steps[end];
    const double sum = steps[start].score + score;
    if (step.start == none || sum > step.score) step = {sum, start, id};
  };
  for (std::size_t start = 0; start < word.size();) {
    const std::size_t char_end = start + char_at(word, start).bytes;
    bool is_known = false;
    TextTree::Node node = TextTree::root();
    for (std::size_t end = start; end < word.size();) {
      node = pieces_.next(node, word[end++]);
      if (node == TextTree::none) break;
      const std::int32_t id = pieces_.value(node);
      if (id < 0) continue;
      offer(start, end, scores_[static_cast<std::size_t>(id)], id);
      is_known = is_known || end == char_end;
    }
    if (!is_known) offer(start, char_end, unknown_score_, *unknown_);
    start = char_end;
  }
  return steps;
}

void Unigram::add_unknown(std::string_view text, TokenIds& out) const {
  if (bytes_.empty()) return out.push_back(*unknown_);
  for (const char byte : text) out.push_back(bytes_[static_cast<unsigned char>(byte)]);
}

void Unigram::encode(std::string_view word, TokenIds& out) const {
  const std::vector<Step> steps = best_steps(word);
  std::vector<std::size_t> ends;
  for (std::size_t end = word.size(); end > 0; end = steps[end].start) ends.push_back(end);
  std::size_t unknown_from = none;
  for (auto end = ends.rbegin(); end != ends.rend(); ++end) {
    const Step& step = steps[*end];
    if (step.id == *unknown_) {
      unknown_from = std::min(unknown_from, step.start);
      continue;
    }
    if (unknown_from != none) add_unknown(word.substr(unknown_from, step.start - unknown_from), out);
    unknown_from = none;
    out.push_back(step.id);
  }
  if (unknown_from != none) add_unknown(word.substr(unknown_from), out);
}

}  // namespace

WordModel unigram_model(const Fields& model, Vocabulary& vocabulary) {
  const auto unigram = std::make_shared<const Unigram>(model, vocabulary);
  return {.encode = [unigram](std::string_view word, TokenIds& out) { unigram->encode(word, out); },
          .end_of_part = nullptr};
}

}  // namespace shardwright

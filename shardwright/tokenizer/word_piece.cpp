// WordPiece: from the start of a word always the longest piece that there is (Wu et al. 2016); pieces that do not begin
// a word are written behind a prefix. A word that cannot be written so, or is too long, is one unknown token.
#include <algorithm>
#include <memory>

#include "shardwright/tokenizer/text_tree.h"
#include "shardwright/tokenizer/unicode.h"
#include "shardwright/tokenizer/vocabulary.h"

namespace shardwright {
namespace {

struct WordPiece {
  TextTree pieces;
  TextTree::Node behind_prefix = TextTree::none;
  std::int32_t unknown = 0;
  std::size_t most_chars = 100;

  void encode(std::string_view word, TokenIds& out) const;
  struct Piece {
    std::int32_t id = -1;  // -1: there is none
    std::size_t bytes = 0;
  };
  Piece longest(TextTree::Node from, std::string_view rest) const;
};

WordPiece::Piece WordPiece::longest(TextTree::Node from, std::string_view rest) const {
  Piece out;
  TextTree::Node node = from;
  for (std::size_t i = 0; i < rest.size() && node != TextTree::none; ++i) {
    node = pieces.next(node, rest[i]);
    if (node != TextTree::none && pieces.value(node) >= 0) out = {pieces.value(node), i + 1};
  }
  return out;
}

void WordPiece::encode(std::string_view word, TokenIds& out) const {
  if (chars_of(word).size() > most_chars) return out.push_back(unknown);
  const std::size_t first = out.size();
  for (std::size_t at = 0; at < word.size();) {
    const Piece piece = longest(at == 0 ? TextTree::root() : behind_prefix, word.substr(at));
    if (piece.id < 0) {
      out.resize(first);
      return out.push_back(unknown);
    }
    out.push_back(piece.id);
    at += piece.bytes;
  }
}

}  // namespace

WordModel word_piece_model(const Fields& model, Vocabulary& vocabulary) {
  model.check_known({"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"});
  const auto pieces = std::make_shared<WordPiece>();
  const Fields vocab = model.object("vocab");
  for (const auto& [token, id] : vocab.json().items()) {
    vocabulary.add(token, vocab.integer(token, 0, most_tokens - 1));
    pieces->pieces.add(token, id.get<std::int32_t>());
  }
  const auto unknown = vocabulary.id_of(model.text("unk_token", "[UNK]"));
  if (!unknown)
    throw model.wrong("unk_token", "'{}' is not in the vocabulary", model.text("unk_token", "[UNK]"));
  pieces->unknown = *unknown;
  pieces->behind_prefix = pieces->pieces.behind(model.text("continuing_subword_prefix", "##"));
  if (model.has("max_input_chars_per_word"))
    pieces->most_chars = static_cast<std::size_t>(model.integer("max_input_chars_per_word", 1, 1 << 20));
  return {.encode = [pieces](std::string_view word, TokenIds& out) { pieces->encode(word, out); },
          .end_of_part = nullptr};
}

}  // namespace shardwright

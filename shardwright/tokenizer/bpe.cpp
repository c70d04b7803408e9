// Byte-pair encoding: a word is a row of symbols, characters or bytes, and as long as two neighbours are a pair of the
// list of merges, those that stand earliest in the list are joined, the leftmost of them first (Sennrich et al. 2016).
// Characters without a symbol are written as bytes (`byte_fallback`), or as the unknown token.
#include <algorithm>
#include <array>
#include <memory>
#include <queue>

#include "shardwright/base/text.h"
#include "shardwright/tokenizer/flat_map.h"
#include "shardwright/tokenizer/unicode.h"
#include "shardwright/tokenizer/vocabulary.h"

namespace shardwright {
namespace {

constexpr char32_t lower_block = 0x2581;  // ▁, which stands for a blank

std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
         static_cast<std::uint32_t>(right);
}

struct BpeSettings {
  std::optional<std::int32_t> unknown;
  std::string prefix, suffix;  // of symbols that do not begin a word, and of that which ends it
  bool fuses_unknown = false, falls_back_to_bytes = false, ignores_merges = false, is_of_bytes = false;
};

class Bpe {
 public:
  Bpe(const Fields& model, Vocabulary& vocabulary, const BpeForm& form);

  void encode(std::string_view word, TokenIds& out) const {
    if (word.empty()) return;
    if (settings_.ignores_merges)
      if (const auto whole = whole_word(word)) return out.push_back(*whole);
    const std::size_t first = out.size();
    add_symbols(word, out);
    const std::size_t count = out.size() - first;
    constexpr std::size_t few = 48;  // a heap takes longer for these
    if (count > few)
      merge_many(out, first);
    else if (count > 1)
      merge_few(out, first);
  }
  bool never_joins_before_block() const { return never_joins_before_block_; }

 private:
  void read_vocabulary(const Fields& model, Vocabulary& vocabulary);
  void read_merges(const Fields& model);
  void note_first_symbols(const Vocabulary& vocabulary);
  void learn_where_blocks_begin(const Fields& model, const Vocabulary& vocabulary);

  std::optional<std::int32_t> whole_word(std::string_view word) const;
  void add_symbols(std::string_view word, TokenIds& out) const;
  std::int32_t symbol(std::string_view word, std::size_t at, const Char& c) const;
  void merge_few(TokenIds& out, std::size_t first) const;
  void merge_many(TokenIds& out, std::size_t first) const;

  BpeSettings settings_;
  const Vocabulary& vocabulary_;
  TextMap words_;                          // tokens as bytes, where whole words count and are bytes
  FlatMap merges_;                         // a pair to its rank and what comes of it
  std::array<std::int32_t, 256> bytes_{};  // -1: none
  std::vector<std::int32_t> chars_;        // symbol by code point; -1: none
  bool never_joins_before_block_ = false;
};

std::pair<std::string, std::string> pair_in(const nlohmann::json& merge, const std::string& place) {
  if (merge.is_string()) {
    const std::string text = merge.get<std::string>();
    const std::size_t blank = text.find(' ');
    if (blank != std::string::npos && text.find(' ', blank + 1) == std::string::npos)
      return {text.substr(0, blank), text.substr(blank + 1)};
  }
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  throw error("{}: must be two tokens, as \"a b\" or [\"a\", \"b\"]", place);
}

Bpe::Bpe(const Fields& model, Vocabulary& vocabulary, const BpeForm& form) : vocabulary_(vocabulary) {
  model.check_known({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                     "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"});
  if (model.has("dropout") && model.value("dropout") != 0)
    throw model.wrong("dropout", "leaves out merges by chance, which is not done; must be null");
  settings_ = {.prefix = model.text("continuing_subword_prefix", ""),
               .suffix = model.text("end_of_word_suffix", ""),
               .fuses_unknown = model.flag("fuse_unk", false),
               .falls_back_to_bytes = model.flag("byte_fallback", false),
               .ignores_merges = model.flag("ignore_merges", false),
               .is_of_bytes = form.is_of_bytes};
  read_vocabulary(model, vocabulary);
  if (model.has("unk_token")) {
    settings_.unknown = vocabulary.id_of(model.text("unk_token"));
    if (!settings_.unknown)
      throw model.wrong("unk_token", "'{}' is not in the vocabulary", model.text("unk_token"));
  }
  note_first_symbols(vocabulary);
  read_merges(model);
  learn_where_blocks_begin(model, vocabulary);
}

void Bpe::read_vocabulary(const Fields& model, Vocabulary& vocabulary) {
  const Fields vocab = model.object("vocab");
  for (const auto& [token, id] : vocab.json().items())
    vocabulary.add(token, vocab.integer(token, 0, most_tokens - 1));
  if (!settings_.is_of_bytes || !settings_.ignores_merges) return;
  for (std::int64_t id = 0; id < vocabulary.size(); ++id)
    if (const std::string* token = vocabulary.token(id))
      if (auto bytes = bytes_of_visible(*token))
        words_.emplace(std::move(*bytes), static_cast<std::int32_t>(id));
}

void Bpe::note_first_symbols(const Vocabulary& vocabulary) {
  bytes_.fill(-1);
  for (int b = 0; b < 256; ++b) {
    const std::string byte(1, static_cast<char>(b));
    const auto id = vocabulary.id_of(settings_.is_of_bytes ? visible_of_bytes(byte) : byte_token(byte[0]));
    if (id) bytes_[static_cast<std::size_t>(b)] = *id;
  }
  for (std::int64_t id = 0; id < vocabulary.size() && !settings_.is_of_bytes; ++id) {
    const std::string* token = vocabulary.token(id);
    if (token == nullptr || token->empty() || token->size() > 4) continue;
    const Char c = char_at(*token, 0);
    if (c.bytes != token->size() || c.code == broken_char) continue;
    if (c.code >= chars_.size()) chars_.resize(c.code + 1, -1);
    chars_[c.code] = static_cast<std::int32_t>(id);
  }
}

void Bpe::read_merges(const Fields& model) {
  const nlohmann::json& merges = model.array("merges");
  merges_ = FlatMap(merges.size());
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string place = fmt::format("{}[{}]", model.place("merges"), rank);
    const auto [left, right] = pair_in(merges[rank], place);
    const auto known = [&](const std::string& token) {
      const auto id = vocabulary_.id_of(token);
      if (!id) throw error("{}: '{}' is not in the vocabulary", place, token);
      return *id;
    };
    if (right.size() < settings_.prefix.size()) throw error("{}: '{}' has no prefix", place, right);
    const std::int32_t joined = known(left + right.substr(settings_.prefix.size()));
    const std::uint64_t pair = pair_of(known(left), known(right));
    const std::uint64_t merge = static_cast<std::uint64_t>(rank) << 32 | static_cast<std::uint32_t>(joined);
    merges_.put(pair, merge) = merge;  // of a pair that stands there twice the last counts
  }
}

/// Whether no pair has ▁ at the start of its right half and something else at the end of its left. Then nothing is
/// joined over such a place, and a long text may be cut there.
void Bpe::learn_where_blocks_begin(const Fields& model, const Vocabulary& vocabulary) {
  const std::string block = utf8_of(lower_block);
  if (settings_.is_of_bytes || settings_.ignores_merges || !settings_.prefix.empty() ||
      !settings_.suffix.empty() || !vocabulary.id_of(block))
    return;
  never_joins_before_block_ = std::ranges::none_of(model.array("merges"), [&](const nlohmann::json& merge) {
    const auto [left, right] = pair_in(merge, "");
    return right.starts_with(block) && !left.ends_with(block);
  });
}

std::optional<std::int32_t> Bpe::whole_word(std::string_view word) const {
  if (!settings_.is_of_bytes) return vocabulary_.id_of(word);
  const auto found = words_.find(word);
  return found == words_.end() ? std::nullopt : std::optional(found->second);
}

/// -1: none.
std::int32_t Bpe::symbol(std::string_view word, std::size_t at, const Char& c) const {
  const bool has_prefix = at > 0 && !settings_.prefix.empty();
  const bool has_suffix = at + c.bytes == word.size() && !settings_.suffix.empty();
  if (!has_prefix && !has_suffix) {
    if (settings_.is_of_bytes) return bytes_[static_cast<unsigned char>(word[at])];
    return c.code < chars_.size() ? chars_[c.code] : -1;
  }
  const std::string_view own = word.substr(at, c.bytes);
  const std::string written = settings_.is_of_bytes ? visible_of_bytes(own) : std::string(own);
  return vocabulary_
      .id_of(fmt::format("{}{}{}", has_prefix ? settings_.prefix : "", written,
                         has_suffix ? settings_.suffix : ""))
      .value_or(-1);
}

void Bpe::add_symbols(std::string_view word, TokenIds& out) const {
  bool is_unknown_open = false;
  for (std::size_t at = 0; at < word.size();) {
    const Char c = settings_.is_of_bytes ? Char{} : char_at(word, at);
    const std::int32_t id = symbol(word, at, c);
    const std::string_view own = word.substr(at, c.bytes);
    at += c.bytes;
    if (id >= 0) {
      out.push_back(id);
      is_unknown_open = false;
      continue;
    }
    const auto has_token = [&](char b) { return bytes_[static_cast<unsigned char>(b)] >= 0; };
    if (settings_.falls_back_to_bytes && !settings_.is_of_bytes && std::ranges::all_of(own, has_token)) {
      for (const char b : own) out.push_back(bytes_[static_cast<unsigned char>(b)]);
      is_unknown_open = false;
      continue;
    }
    if (!settings_.unknown) continue;  // it leaves no trace
    if (!is_unknown_open || !settings_.fuses_unknown) out.push_back(*settings_.unknown);
    is_unknown_open = true;
  }
}

/// Looks through the ranks of all pairs for each merge.
void Bpe::merge_few(TokenIds& out, std::size_t first) const {
  std::array<std::uint64_t, 64> pairs;  // rank and result of the pair that begins there
  std::size_t count = out.size() - first;
  std::int32_t* const ids = out.data() + first;
  for (std::size_t i = 0; i + 1 < count; ++i) pairs[i] = merges_.at(pair_of(ids[i], ids[i + 1]));
  pairs[count - 1] = FlatMap::none;
  while (count > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i)
      if (pairs[i] < pairs[best]) best = i;
    if (pairs[best] == FlatMap::none) break;
    ids[best] = static_cast<std::int32_t>(pairs[best] & 0xFFFFFFFF);
    std::copy(ids + best + 2, ids + count, ids + best + 1);
    std::copy(pairs.begin() + static_cast<std::ptrdiff_t>(best) + 2,
              pairs.begin() + static_cast<std::ptrdiff_t>(count),
              pairs.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    --count;
    if (best > 0) pairs[best - 1] = merges_.at(pair_of(ids[best - 1], ids[best]));
    if (best + 1 < count) pairs[best] = merges_.at(pair_of(ids[best], ids[best + 1]));
  }
  out.resize(first + count);
}

/// The same with the pairs in a heap, by rank and place: O(n log n).
void Bpe::merge_many(TokenIds& out, std::size_t first) const {
  const auto count = static_cast<std::int64_t>(out.size() - first);
  std::int32_t* const ids = out.data() + first;
  std::vector<std::int64_t> before(static_cast<std::size_t>(count)), after(before.size());
  struct Pair {
    std::uint64_t merge;  // its rank, and what comes of it
    std::int64_t at;
    std::int32_t left, right;
    bool operator>(const Pair& other) const {
      return merge != other.merge ? merge > other.merge : at > other.at;
    }
  };
  std::priority_queue<Pair, std::vector<Pair>, std::greater<>> heap;
  const auto offer = [&](std::int64_t at) {
    const std::int64_t next = at < 0 ? count : after[static_cast<std::size_t>(at)];
    if (next >= count) return;
    const std::uint64_t merge = merges_.at(pair_of(ids[at], ids[next]));
    if (merge != FlatMap::none) heap.push({merge, at, ids[at], ids[next]});
  };
  for (std::int64_t i = 0; i < count; ++i) {
    before[static_cast<std::size_t>(i)] = i - 1;
    after[static_cast<std::size_t>(i)] = i + 1;
  }
  for (std::int64_t i = 0; i < count; ++i) offer(i);
  constexpr std::int32_t gone = -1;
  while (!heap.empty()) {
    const Pair pair = heap.top();
    heap.pop();
    const auto at = static_cast<std::size_t>(pair.at);
    const std::int64_t next = after[at];
    if (ids[pair.at] != pair.left || next >= count || ids[next] != pair.right) continue;
    ids[pair.at] = static_cast<std::int32_t>(pair.merge & 0xFFFFFFFF);
    ids[next] = gone;
    after[at] = after[static_cast<std::size_t>(next)];
    if (after[at] < count) before[static_cast<std::size_t>(after[at])] = pair.at;
    offer(before[at]);
    offer(pair.at);
  }
  std::int64_t kept = 0;
  for (std::int64_t i = 0; i < count; i = after[static_cast<std::size_t>(i)]) ids[kept++] = ids[i];
  out.resize(first + static_cast<std::size_t>(kept));
}

/// Before the next ▁ that does not follow another.
std::size_t end_before_block(std::string_view word, std::size_t at) {
  static const std::string block = utf8_of(lower_block);
  for (std::size_t next = word.find(block, at + 1); next != std::string_view::npos;
       next = word.find(block, next + 1))
    if (!word.substr(at, next - at).ends_with(block)) return next;
  return word.size();
}

}  // namespace

WordModel bpe_model(const Fields& model, Vocabulary& vocabulary, const BpeForm& form) {
  const auto bpe = std::make_shared<const Bpe>(model, vocabulary, form);
  WordModel out{.encode = [bpe](std::string_view word, TokenIds& to) { bpe->encode(word, to); }};
  if (bpe->never_joins_before_block()) out.end_of_part = end_before_block;
  return out;
}

}  // namespace shardwright

#include <map>
#include <memory>

#include "shardwright/tokenizer/pattern.h"
#include "shardwright/tokenizer/steps.h"
#include "shardwright/tokenizer/unicode.h"

namespace shardwright {
namespace {

using Ranges = std::vector<TextRange>;

PreTokenizer by_ranges(std::function<Ranges(std::string_view)> words) {
  return [words = std::move(words)](const TextPiece& piece, const TakePiece& take) {
    for (const TextRange& r : words(piece.text))
      take({piece.text.substr(r.begin, r.end - r.begin), piece.begins_text && r.begin == 0});
  };
}

PreTokenizer by_matches(Finder find, Cut cut, bool is_inverted = false) {
  return by_ranges([find = std::move(find), cut, is_inverted](std::string_view text) {
    return pieces(text, find(text), cut, is_inverted);
  });
}

/// Each character that is one of those.
Finder chars(std::function<bool(char32_t)> is_one) {
  return [is_one = std::move(is_one)](std::string_view text) {
    Ranges out;
    for (std::size_t at = 0; at < text.size();) {
      const Char c = char_at(text, at);
      if (is_one(c.code)) out.push_back({at, at + c.bytes});
      at += c.bytes;
    }
    return out;
  };
}

/// Runs of such characters.
Finder runs(std::function<bool(char32_t)> is_one) {
  return [find = chars(std::move(is_one))](std::string_view text) {
    Ranges out;
    for (const TextRange& r : find(text))
      if (!out.empty() && out.back().end == r.begin)
        out.back().end = r.end;
      else
        out.push_back(r);
    return out;
  };
}

PreTokenizer with_blank_in_front(std::string blank) {
  return [blank = std::move(blank)](const TextPiece& piece, const TakePiece& take) {
    if (piece.text.starts_with(blank)) return take(piece);
    const std::string longer = blank + std::string(piece.text);
    take({longer, piece.begins_text});
  };
}

Cut cut_of(const Fields& fields, const std::string& otherwise) {
  static const std::map<std::string, Cut> cuts = {{"Removed", Cut::removed},
                                                  {"Isolated", Cut::isolated},
                                                  {"MergedWithPrevious", Cut::merged_with_previous},
                                                  {"MergedWithNext", Cut::merged_with_next},
                                                  {"Contiguous", Cut::contiguous}};
  const std::string said = fields.text("behavior", otherwise);
  const auto found = cuts.find(said);
  if (found != cuts.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [name, cut] : cuts) known.push_back(name);
  throw with_context(unknown("behavior", said, known), fields.place("behavior"));
}

PreTokenizing one(PreTokenizer step) {
  PreTokenizing out;
  out.steps.push_back(std::move(step));
  return out;
}

PreTokenizing byte_level_words(const Fields& fields) {
  fields.check_known({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  PreTokenizing out{.steps = {}, .is_of_bytes = true};
  if (fields.flag("add_prefix_space", true)) out.steps.push_back(with_blank_in_front(" "));
  if (fields.flag("use_regex", true))
    out.steps.push_back(
        known_words(R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"));
  return out;
}

PreTokenizing split_words(const Fields& fields) {
  fields.check_known({"type", "pattern", "behavior", "invert"});
  const Fields pattern = fields.object("pattern");
  pattern.check_known({"String", "Regex"});
  const Cut cut = cut_of(fields, "Removed");
  const bool is_inverted = fields.flag("invert", false);
  if (pattern.has("String")) return one(by_matches(literal(pattern.text("String")), cut, is_inverted));
  const std::string expression = pattern.text("Regex");
  // All of a text is in their matches: nothing is left to remove, and no match has a neighbour that is none.
  if ((cut == Cut::isolated && !is_inverted) || (cut == Cut::removed && is_inverted))
    if (PreTokenizer known = known_words(expression)) return one(std::move(known));
  return one(by_matches(regular_expression(expression), cut, is_inverted));
}

/// Blanks become `replacement`; one is put in front of all pieces, or of that which begins the text.
PreTokenizing metaspace_words(const Fields& fields) {
  fields.check_known({"type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"});
  const std::string block = fields.text("replacement");
  if (chars_of(block).size() != 1) throw fields.wrong("replacement", "is '{}', must be one character", block);
  const std::string scheme =
      fields.text("prepend_scheme", fields.flag("add_prefix_space", true) ? "always" : "never");
  if (scheme != "always" && scheme != "first" && scheme != "never")
    throw fields.wrong("prepend_scheme", "is '{}', must be always, first or never", scheme);
  PreTokenizing out;
  out.steps.push_back([block, scheme](const TextPiece& piece, const TakePiece& take) {
    std::string text = replaced(piece.text, literal(" ")(piece.text), block);
    const bool wants_one = scheme == "always" || (scheme == "first" && piece.begins_text);
    if (wants_one && !text.starts_with(block)) text.insert(0, block);
    take({text, piece.begins_text});
  });
  if (fields.flag("split", true)) out.steps.push_back(by_matches(literal(block), Cut::merged_with_next));
  return out;
}

PreTokenizing bert_words(const Fields& fields) {
  fields.check_known({"type"});
  PreTokenizing out = one(by_matches(chars(is_space), Cut::removed));
  out.steps.push_back(by_matches(chars(is_punctuation), Cut::isolated));
  return out;
}

PreTokenizing digits_words(const Fields& fields) {
  fields.check_known({"type", "individual_digits"});
  const auto is_number = [](char32_t c) { return kind_of(c) == CharKind::number; };
  if (fields.flag("individual_digits", false)) return one(by_matches(chars(is_number), Cut::isolated));
  return one(by_matches(runs(is_number), Cut::isolated));
}

PreTokenizing punctuation_words(const Fields& fields) {
  fields.check_known({"type", "behavior"});
  return one(by_matches(chars(is_punctuation), cut_of(fields, "Isolated")));
}

/// Runs of word characters, and of what is neither these nor white space.
PreTokenizing whitespace_words(const Fields& fields) {
  fields.check_known({"type"});
  const auto is_between = [](char32_t c) { return !is_word(c) && !is_space(c); };
  PreTokenizing out = one(by_matches(chars(is_space), Cut::removed));
  out.steps.push_back(by_matches(runs(is_between), Cut::isolated));
  return out;
}

PreTokenizing whitespace_split_words(const Fields& fields) {
  fields.check_known({"type"});
  return one(by_matches(chars(is_space), Cut::removed));
}

PreTokenizing sequence_words(const Fields& fields) {
  fields.check_known({"type", "pretokenizers"});
  PreTokenizing out;
  for (const Fields& each : fields.objects("pretokenizers")) {
    if (out.is_of_bytes)
      throw error("{}: must stand before ByteLevel, behind which words are bytes", each.where());
    PreTokenizing next = pre_tokenizing_of(each);
    out.is_of_bytes = next.is_of_bytes;
    for (PreTokenizer& step : next.steps) out.steps.push_back(std::move(step));
  }
  return out;
}

}  // namespace

PreTokenizing pre_tokenizing_of(const Fields& fields) {
  static const std::map<std::string, std::function<PreTokenizing(const Fields&)>> kinds = {
      {"Sequence", sequence_words},
      {"ByteLevel", byte_level_words},
      {"Split", split_words},
      {"Metaspace", metaspace_words},
      {"BertPreTokenizer", bert_words},
      {"Digits", digits_words},
      {"Punctuation", punctuation_words},
      {"Whitespace", whitespace_words},
      {"WhitespaceSplit", whitespace_split_words}};
  return made_of_kind(kinds, fields, "pre-tokenizer");
}

}  // namespace shardwright

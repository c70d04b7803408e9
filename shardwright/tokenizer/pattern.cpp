#include "shardwright/tokenizer/pattern.h"

#include <unicode/regex.h>
#include <unicode/unistr.h>

#include <algorithm>

#include "shardwright/base/error.h"
#include "shardwright/tokenizer/unicode.h"

namespace shardwright {
namespace {

/// A text as the library wants it, and where each of its units begins in ours.
struct WideText {
  icu::UnicodeString units;
  std::vector<std::size_t> places;
};

WideText widened(std::string_view text) {
  WideText out;
  out.places.reserve(text.size() + 1);
  for (std::size_t at = 0; at < text.size();) {
    const Char c = char_at(text, at);
    const std::int32_t before = out.units.length();
    out.units.append(static_cast<UChar32>(c.code == broken_char ? 0xFFFD : c.code));
    out.places.insert(out.places.end(), static_cast<std::size_t>(out.units.length() - before), at);
    at += c.bytes;
  }
  out.places.push_back(text.size());
  return out;
}

std::vector<TextRange> matches_of(const icu::RegexPattern& pattern, const std::string& shown,
                                  std::string_view text) {
  const WideText wide = widened(text);
  UErrorCode status = U_ZERO_ERROR;
  const std::unique_ptr<icu::RegexMatcher> matcher(pattern.matcher(wide.units, status));
  std::vector<TextRange> out;
  while (U_SUCCESS(status) && matcher->find(status)) {
    const auto begin = static_cast<std::size_t>(matcher->start(status)),
               end = static_cast<std::size_t>(matcher->end(status));
    if (end > begin) out.push_back({wide.places[begin], wide.places[end]});
  }
  if (U_FAILURE(status)) throw error("the pattern {} gave up on a text: {}", shown, u_errorName(status));
  return out;
}

/// One of these, or none.
struct Part {
  TextRange range;
  bool is_match = false;
};

std::vector<Part> parts_of(std::string_view text, const std::vector<TextRange>& matches, bool inverted) {
  std::vector<Part> out;
  std::size_t at = 0;
  for (const TextRange& m : matches) {
    if (m.begin > at) out.push_back({{at, m.begin}, inverted});
    out.push_back({m, !inverted});
    at = m.end;
  }
  if (at < text.size()) out.push_back({{at, text.size()}, inverted});
  return out;
}

/// Runs of two blanks or more, which the files of T5's kind look for in every text.
std::vector<TextRange> runs_of_blanks(std::string_view text) {
  std::vector<TextRange> out;
  for (std::size_t at = text.find("  "); at != std::string_view::npos; at = text.find("  ", at)) {
    const std::size_t end = std::min(text.find_first_not_of(' ', at), text.size());
    out.push_back({at, end});
    at = end;
  }
  return out;
}

}  // namespace

Finder regular_expression(const std::string& pattern) {
  if (pattern == " {2,}") return runs_of_blanks;
  UErrorCode status = U_ZERO_ERROR;
  UParseError where{};
  std::shared_ptr<const icu::RegexPattern> compiled(
      icu::RegexPattern::compile(icu::UnicodeString::fromUTF8(pattern), 0, where, status));
  const std::string shown =
      fmt::format("'{}'", pattern.size() > 200 ? repaired(pattern.substr(0, 200)) + "…" : pattern);
  if (U_FAILURE(status))
    throw error("the pattern {} is not understood at character {}: {}", shown, where.offset,
                u_errorName(status));
  return [compiled = std::move(compiled), shown](std::string_view text) {
    return matches_of(*compiled, shown, text);
  };
}

Finder literal(std::string what) {
  if (what.empty()) throw error("the pattern is empty; there must be something to find");
  return [what = std::move(what)](std::string_view text) {
    std::vector<TextRange> out;
    for (std::size_t at = text.find(what); at != std::string_view::npos;
         at = text.find(what, at + what.size()))
      out.push_back({at, at + what.size()});
    return out;
  };
}

std::vector<TextRange> pieces(std::string_view text, const std::vector<TextRange>& matches, Cut cut,
                              bool inverted) {
  std::vector<Part> parts = parts_of(text, matches, inverted);
  std::vector<TextRange> out;
  if (cut == Cut::merged_with_next) std::ranges::reverse(parts);
  bool was_match = false;
  for (const Part& part : parts) {
    const bool joins =
        !out.empty() && (cut == Cut::contiguous ? part.is_match == was_match : part.is_match && !was_match);
    if (cut == Cut::removed) {
      if (!part.is_match) out.push_back(part.range);
    } else if (cut == Cut::isolated || !joins) {
      out.push_back(part.range);
    } else if (cut == Cut::merged_with_next) {
      out.back().begin = part.range.begin;
    } else {
      out.back().end = part.range.end;
    }
    was_match = part.is_match;
  }
  if (cut == Cut::merged_with_next) std::ranges::reverse(out);
  return out;
}

std::string replaced(std::string_view text, const std::vector<TextRange>& matches, std::string_view content) {
  std::string out;
  std::size_t at = 0;
  for (const TextRange& m : matches) {
    out.append(text.substr(at, m.begin - at)).append(content);
    at = m.end;
  }
  return out.append(text.substr(at));
}

}  // namespace shardwright

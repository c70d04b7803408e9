#include <map>
#include <memory>

#include "shardwright/base/unknown.h"
#include "shardwright/tokenizer/pattern.h"
#include "shardwright/tokenizer/steps.h"
#include "shardwright/tokenizer/unicode.h"

namespace shardwright {
namespace {

/// `put(out, code)` puts behind `out` what becomes of a character: it, something else, or nothing.
template <class Put>
Normalizer of_chars(Put put) {
  return [put](std::string& text) {
    std::string out;
    out.reserve(text.size() + text.size() / 4);
    for (std::size_t at = 0; at < text.size();) {
      const Char c = char_at(text, at);
      put(out, c.code == broken_char ? 0xFFFD : c.code);
      at += c.bytes;
    }
    text = std::move(out);
  };
}

Normalizer in_form(NormalForm form) {
  return [form](std::string& text) {
    if (!is_ascii(text)) text = normal_form(repaired(text), form);
  };
}

Normalizer prepend_normalizer(const Fields& fields) {
  fields.check_known({"type", "prepend"});
  return [what = fields.text("prepend")](std::string& text) {
    if (!text.empty()) text.insert(0, what);
  };
}

Finder finder_of(const Fields& pattern) {
  pattern.check_known({"String", "Regex"});
  if (pattern.has("String")) return literal(pattern.text("String"));
  return regular_expression(pattern.text("Regex"));
}

Normalizer replace_normalizer(const Fields& fields) {
  fields.check_known({"type", "pattern", "content"});
  return [find = finder_of(fields.object("pattern")), content = fields.text("content")](std::string& text) {
    if (const auto found = find(text); !found.empty()) text = replaced(text, found, content);
  };
}

Normalizer strip_normalizer(const Fields& fields) {
  fields.check_known({"type", "strip_left", "strip_right"});
  return
      [left = fields.flag("strip_left", true), right = fields.flag("strip_right", true)](std::string& text) {
        std::size_t from = 0, to = text.size();
        while (left && from < to && is_space(char_at(text, from).code)) from += char_at(text, from).bytes;
        while (right && from < to) {
          const Char c = last_char(std::string_view(text).substr(from, to - from));
          if (!is_space(c.code)) break;
          to -= c.bytes;
        }
        text = text.substr(from, to - from);
      };
}

/// As SentencePiece has it: some control characters go, other white space and ▁ become blanks.
constexpr auto put_nmt = [](std::string& out, char32_t c) {
  if ((c >= 0x1 && c <= 0x8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F)
    return;
  const bool is_blank = c == 0x9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
                        (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                        c == 0xFEFF || c == 0xFFFD;
  append_char(out, is_blank ? U' ' : c);
};

bool is_chinese(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

constexpr auto put_clean = [](std::string& out, char32_t c) {
  const bool is_blank = c == U'\t' || c == U'\n' || c == U'\r';
  if (c == 0 || c == 0xFFFD || (!is_blank && is_control(c))) return;
  append_char(out, is_blank || is_space(c) ? U' ' : c);
};

constexpr auto put_apart = [](std::string& out, char32_t c) {
  if (is_chinese(c)) out.push_back(' ');
  append_char(out, c);
  if (is_chinese(c)) out.push_back(' ');
};

constexpr auto put_no_accent = [](std::string& out, char32_t c) {
  if (!is_nonspacing_mark(c)) append_char(out, c);
};

constexpr auto put_no_mark = [](std::string& out, char32_t c) {
  if (!is_mark(c)) append_char(out, c);
};

constexpr auto put_lower = [](std::string& out, char32_t c) { append_lower(out, c); };

Normalizer in_order(std::vector<Normalizer> all) {
  return [all = std::move(all)](std::string& text) {
    for (const Normalizer& each : all) each(text);
  };
}

Normalizer bert_normalizer(const Fields& fields) {
  fields.check_known({"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"});
  const bool is_lower = fields.flag("lowercase", true);
  std::vector<Normalizer> all;
  if (fields.flag("clean_text", true)) all.push_back(of_chars(put_clean));
  if (fields.flag("handle_chinese_chars", true)) all.push_back(of_chars(put_apart));
  if (fields.flag("strip_accents", is_lower)) {
    all.push_back(in_form(NormalForm::nfd));
    all.push_back(of_chars(put_no_accent));
  }
  if (is_lower) all.push_back(of_chars(put_lower));
  return in_order(std::move(all));
}

Normalizer sequence_normalizer(const Fields& fields) {
  fields.check_known({"type", "normalizers"});
  std::vector<Normalizer> all;
  for (const Fields& each : fields.objects("normalizers")) all.push_back(normalizer_of(each));
  return in_order(std::move(all));
}

/// That says nothing but its kind.
template <class Make>
auto plain(Make make) {
  return [make](const Fields& fields) -> Normalizer {
    fields.check_known({"type"});
    return make();
  };
}

}  // namespace

Normalizer normalizer_of(const Fields& fields) {
  static const std::map<std::string, std::function<Normalizer(const Fields&)>> kinds = {
      {"Sequence", sequence_normalizer},
      {"Prepend", prepend_normalizer},
      {"Replace", replace_normalizer},
      {"Strip", strip_normalizer},
      {"BertNormalizer", bert_normalizer},
      {"Precompiled", precompiled_normalizer},
      {"Nmt", plain([] { return of_chars(put_nmt); })},
      {"Lowercase", plain([] { return of_chars(put_lower); })},
      {"StripAccents", plain([] { return of_chars(put_no_mark); })},
      {"NFC", plain([] { return in_form(NormalForm::nfc); })},
      {"NFD", plain([] { return in_form(NormalForm::nfd); })},
      {"NFKC", plain([] { return in_form(NormalForm::nfkc); })},
      {"NFKD", plain([] { return in_form(NormalForm::nfkd); })},
  };
  return made_of_kind(kinds, fields, "normalizer");
}

}  // namespace shardwright

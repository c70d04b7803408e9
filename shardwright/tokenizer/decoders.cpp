#include <map>

#include "shardwright/base/text.h"
#include "shardwright/tokenizer/pattern.h"
#include "shardwright/tokenizer/steps.h"
#include "shardwright/tokenizer/unicode.h"

namespace shardwright {
namespace {

using Tokens = std::vector<std::string>;

Decoder of_each(std::function<std::string(const std::string&)> f) {
  return [f = std::move(f)](Tokens& tokens, Broken) {
    for (std::string& token : tokens) token = f(token);
  };
}

void fuse(Tokens& tokens, Broken) { tokens = {join(tokens, "")}; }

Decoder fuse_decoder(const Fields& fields) {
  fields.check_known({"type"});
  return fuse;
}

/// A token of which a character stands for no byte is what it is.
Decoder byte_level_decoder(const Fields& fields) {
  fields.check_known({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  return [](Tokens& tokens, Broken broken) {
    for (std::string& token : tokens) token = bytes_of_visible(token).value_or(token);
    fuse(tokens, broken);
  };
}

Decoder replace_decoder(const Fields& fields) {
  fields.check_known({"type", "pattern", "content"});
  const Fields pattern = fields.object("pattern");
  pattern.check_known({"String", "Regex"});
  const Finder find =
      pattern.has("String") ? literal(pattern.text("String")) : regular_expression(pattern.text("Regex"));
  return of_each([find, content = fields.text("content")](const std::string& token) {
    return replaced(token, find(token), content);
  });
}

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

/// Of `<0x0A>`
std::optional<char> byte_in(const std::string& token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  const int high = digit_of(token[3]), low = digit_of(token[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<char>(high * 16 + low);
}

std::string replacements(std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) append_char(out, 0xFFFD);
  return out;
}

/// A run of bytes is one text: broken as a whole, if a part is.
Decoder byte_fallback_decoder(const Fields& fields) {
  fields.check_known({"type"});
  return [](Tokens& tokens, Broken broken) {
    Tokens out;
    std::string run;
    const auto end_run = [&] {
      const bool is_broken = broken == Broken::replaced && end_of_utf8(run).has_value();
      if (!run.empty()) out.push_back(is_broken ? replacements(run.size()) : run);
      run.clear();
    };
    for (std::string& token : tokens) {
      if (const auto byte = byte_in(token)) {
        run.push_back(*byte);
        continue;
      }
      end_run();
      out.push_back(std::move(token));
    }
    end_run();
    tokens = std::move(out);
  };
}

Decoder strip_decoder(const Fields& fields) {
  fields.check_known({"type", "content", "start", "stop"});
  const std::string content = fields.text("content");
  if (content.empty()) throw fields.wrong("content", "is empty; must be a character");
  return of_each([content, start = fields.integer("start", 0, 1 << 20),
                  stop = fields.integer("stop", 0, 1 << 20)](const std::string& token) {
    std::string_view rest = token;
    for (std::int64_t i = 0; i < start && rest.starts_with(content); ++i) rest.remove_prefix(content.size());
    for (std::int64_t i = 0; i < stop && rest.ends_with(content); ++i) rest.remove_suffix(content.size());
    return std::string(rest);
  });
}

/// Blanks again; in the first token none.
Decoder metaspace_decoder(const Fields& fields) {
  fields.check_known({"type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"});
  const Finder find = literal(fields.text("replacement"));
  const bool has_prefix =
      fields.text("prepend_scheme", fields.flag("add_prefix_space", true) ? "always" : "never") != "never";
  return [find, has_prefix](Tokens& tokens, Broken) {
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = replaced(tokens[i], find(tokens[i]), i == 0 && has_prefix ? "" : " ");
  };
}

/// Of English, by the pieces: `it ' s` stays.
std::string cleaned(std::string text) {
  constexpr std::pair<const char*, const char*> changes[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : changes) text = replaced(text, literal(from)(text), to);
  return text;
}

Decoder word_piece_decoder(const Fields& fields) {
  fields.check_known({"type", "prefix", "cleanup"});
  return
      [prefix = fields.text("prefix", "##"), cleans = fields.flag("cleanup", true)](Tokens& tokens, Broken) {
        for (std::size_t i = 0; i < tokens.size(); ++i) {
          if (i > 0)
            tokens[i] = tokens[i].starts_with(prefix) ? tokens[i].substr(prefix.size()) : " " + tokens[i];
          if (cleans) tokens[i] = cleaned(tokens[i]);
        }
      };
}

/// Of the suffix that ends words.
Decoder bpe_decoder(const Fields& fields) {
  fields.check_known({"type", "suffix"});
  return [find = literal(fields.text("suffix", "</w>"))](Tokens& tokens, Broken) {
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = replaced(tokens[i], find(tokens[i]), i + 1 == tokens.size() ? "" : " ");
  };
}

Decoder sequence_decoder(const Fields& fields) {
  fields.check_known({"type", "decoders"});
  std::vector<Decoder> all;
  for (const Fields& each : fields.objects("decoders")) all.push_back(decoder_of(each));
  return [all = std::move(all)](Tokens& tokens, Broken broken) {
    for (const Decoder& each : all) each(tokens, broken);
  };
}

}  // namespace

Decoder decoder_of(const Fields& fields) {
  static const std::map<std::string, std::function<Decoder(const Fields&)>> kinds = {
      {"Sequence", sequence_decoder},   {"ByteLevel", byte_level_decoder},       {"Replace", replace_decoder},
      {"Fuse", fuse_decoder},           {"ByteFallback", byte_fallback_decoder}, {"Strip", strip_decoder},
      {"Metaspace", metaspace_decoder}, {"WordPiece", word_piece_decoder},       {"BPEDecoder", bpe_decoder}};
  return made_of_kind(kinds, fields, "decoder");
}

}  // namespace shardwright

#include "shardwright/tokenizer/tokenizer.h"

#include <algorithm>
#include <filesystem>

#include "shardwright/base/file.h"
#include "shardwright/base/text.h"
#include "shardwright/tokenizer/tokenizer_parts.h"
#include "shardwright/tokenizer/unicode.h"

namespace shardwright {
namespace {

using TakeWord = std::function<void(std::string_view)>;

/// A text on its way to words and added tokens.
class Walk {
 public:
  Walk(const TokenizerParts& parts, const TakeWord& take_word,
       const std::function<void(std::int32_t)>& take_token)
      : parts_(parts), take_word_(take_word), take_token_(take_token) {}

  void text(std::string_view text) const {
    if (!parts_.in_text) return raw({text, true});
    parts_.in_text->split(
        text,
        [&](std::string_view part, std::size_t at) {
          raw({part, at == 0});
        },
        take_token_);
  }

 private:
  void raw(const TextPiece& piece) const {
    if (piece.text.empty()) return;
    if (!parts_.normalizer) return normalized(piece);
    std::string changed{piece.text};
    parts_.normalizer(changed);
    normalized({changed, piece.begins_text});
  }
  void normalized(const TextPiece& piece) const {
    if (!parts_.in_normalized) return cut(piece, 0);
    parts_.in_normalized->split(
        piece.text,
        [&](std::string_view part, std::size_t at) {
          cut({part, piece.begins_text && at == 0}, 0);
        },
        take_token_);
  }
  void cut(const TextPiece& piece, std::size_t step) const {
    if (piece.text.empty()) return;
    if (step == parts_.pre.steps.size()) return take_word_(piece.text);
    parts_.pre.steps[step](piece, [this, step](const TextPiece& next) { cut(next, step + 1); });
  }

  const TokenizerParts& parts_;
  const TakeWord& take_word_;
  const std::function<void(std::int32_t)>& take_token_;
};

/// Of a word, part by part, where a model allows that.
template <class Encode>
void for_each_part(const WordModel& model, std::string_view word, Encode encode) {
  if (!model.end_of_part) return encode(word);
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t end = model.end_of_part(word, at);
    encode(word.substr(at, end - at));
    at = end;
  }
}

std::string decoded(const TokenizerParts& parts, std::span<const std::int32_t> ids, Special special,
                    Broken broken) {
  std::vector<std::string> tokens;
  for (const std::int32_t id : ids) {
    const std::string* token = parts.vocabulary.token(id);
    if (token == nullptr) continue;
    if (special == Special::kept || !parts.is_special[static_cast<std::size_t>(id)]) tokens.push_back(*token);
  }
  if (parts.decoder)
    parts.decoder(tokens, broken);
  else
    tokens = {join(tokens, " ")};
  return join(tokens, "");
}

/// What tokenizer_config.json calls `eos_token`: a text, or an object with `content`.
std::optional<std::string> end_in_config(const std::string& path) {
  std::error_code none;
  if (!std::filesystem::exists(path, none)) return std::nullopt;
  const nlohmann::json document = parse_tokenizer_json(read_text(path));
  const Fields root(document, "");
  if (!root.has("eos_token")) return std::nullopt;
  return root.value("eos_token").is_string() ? root.text("eos_token")
                                             : root.object("eos_token").text("content");
}

std::optional<std::int32_t> usual_end(const TokenizerParts& parts) {
  for (const char* name : {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "[SEP]"})
    for (const AddedToken& token : parts.added)
      if (token.content == name) return token.id;
  return std::nullopt;
}

}  // namespace

/// Words by hash: what comes again is found where it was put last, or is encoded again.
struct Encoder::Words {
  static constexpr std::size_t count = 1 << 14, longest = 64;
  struct Slot {
    std::string word;
    TokenIds ids;
  };
  std::vector<Slot> slots = std::vector<Slot>(count);

  void encode(const WordModel& model, std::string_view word, TokenIds& out) {
    if (word.size() > longest) return model.encode(word, out);
    Slot& slot = slots[std::hash<std::string_view>{}(word) % count];
    if (slot.word != word) {
      slot.ids.clear();
      model.encode(word, slot.ids);
      slot.word = word;
    }
    out.insert(out.end(), slot.ids.begin(), slot.ids.end());
  }
};

Encoder::Encoder(const Tokenizer& tokenizer) : parts_(tokenizer.parts_), words_(std::make_unique<Words>()) {}
Encoder::~Encoder() = default;

void Encoder::encode(std::string_view text, Around around, TokenIds& out) {
  const TakeWord take_word = [&](std::string_view word) {
    for_each_part(parts_->model, word,
                  [&](std::string_view part) { words_->encode(parts_->model, part, out); });
  };
  const std::function<void(std::int32_t)> take_token = [&](std::int32_t id) { out.push_back(id); };
  const Walk walk(*parts_, take_word, take_token);
  if (around == Around::nothing) return walk.text(text);
  for (const TemplatePart& part : parts_->around.single)
    if (part.text == 0)
      walk.text(text);
    else
      out.insert(out.end(), part.ids.begin(), part.ids.end());
}

namespace {

TokenIds encoded(const TokenizerParts& parts, std::string_view text) {
  TokenIds out;
  const TakeWord take_word = [&](std::string_view word) {
    for_each_part(parts.model, word, [&](std::string_view part) { parts.model.encode(part, out); });
  };
  const std::function<void(std::int32_t)> take_token = [&](std::int32_t id) { out.push_back(id); };
  Walk(parts, take_word, take_token).text(text);
  return out;
}

EncodedPair with_template(const TokenizerParts& parts, const std::vector<TemplatePart>& around,
                          std::span<const std::string_view> texts) {
  EncodedPair out;
  for (const TemplatePart& part : around) {
    const TokenIds ids =
        part.text < 0 ? part.ids : encoded(parts, texts[static_cast<std::size_t>(part.text)]);
    out.ids.insert(out.ids.end(), ids.begin(), ids.end());
    out.types.resize(out.ids.size(), part.type);
  }
  return out;
}

}  // namespace

Tokenizer Tokenizer::parse(std::string_view json) {
  const auto parts = parts_of_tokenizer(json);
  Tokenizer out(parts);
  out.end_ = usual_end(*parts);
  return out;
}

Tokenizer Tokenizer::read(const std::string& path) {
  std::error_code none;
  const bool is_folder = std::filesystem::is_directory(path, none);
  const std::string file = is_folder ? path + "/tokenizer.json" : path;
  const std::string text = read_text(file);
  const auto in_file = [](const std::string& name, auto f) {
    try {
      return f();
    } catch (const Error& e) {
      throw with_context(e, name);
    }
  };
  Tokenizer out = in_file(file, [&] { return parse(text); });
  if (!is_folder) return out;
  const std::string config = path + "/tokenizer_config.json";
  in_file(config, [&] {
    const auto end = end_in_config(config);
    if (!end) return;
    out.end_ = out.id_of(*end);
    if (!out.end_) throw error("eos_token: '{}' is not in the vocabulary", *end);
  });
  return out;
}

TokenIds Tokenizer::encode(std::string_view text, Around around) const {
  if (around == Around::nothing) return encoded(*parts_, text);
  return with_template(*parts_, parts_->around.single, std::span(&text, 1)).ids;
}

EncodedPair Tokenizer::encode_pair(std::string_view text, std::string_view second) const {
  const std::string_view texts[] = {text, second};
  return with_template(*parts_, parts_->around.pair, texts);
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, Special special) const {
  return repaired(decoded(*parts_, ids, special, Broken::replaced));
}
std::string Tokenizer::decode_bytes(std::span<const std::int32_t> ids, Special special) const {
  return decoded(*parts_, ids, special, Broken::kept);
}

std::int64_t Tokenizer::vocabulary() const { return parts_->vocabulary.size(); }
std::optional<std::int32_t> Tokenizer::id_of(std::string_view token) const {
  return parts_->vocabulary.id_of(token);
}
std::string Tokenizer::token(std::int32_t id) const {
  const std::string* found = parts_->vocabulary.token(id);
  return found == nullptr ? "" : *found;
}

}  // namespace shardwright

#include "shardwright/tokenizer/tokenizer_parts.h"

#include <map>
#include <memory>

namespace shardwright {
namespace {

/// Old files do not say it.
std::string kind_of_model(const Fields& model) {
  if (model.has("type")) return model.text("type");
  if (model.has("merges")) return "BPE";
  return model.value("vocab").is_array() ? "Unigram" : "WordPiece";
}

WordModel model_of(const Fields& model, TokenizerParts& parts) {
  const std::string kind = kind_of_model(model);
  if (kind == "BPE") return bpe_model(model, parts.vocabulary, {.is_of_bytes = parts.pre.is_of_bytes});
  const std::vector<std::string> known = {"BPE", "Unigram", "WordPiece"};
  if (kind != "Unigram" && kind != "WordPiece")
    throw with_context(unknown("model", kind, known), model.place("type"));
  if (parts.pre.is_of_bytes)
    throw error("pre_tokenizer: ByteLevel stands before a BPE model, not before {}", kind);
  return kind == "Unigram" ? unigram_model(model, parts.vocabulary)
                           : word_piece_model(model, parts.vocabulary);
}

AddedToken added_token_of(const Fields& fields) {
  fields.check_known({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
  const bool is_special = fields.flag("special", false);
  AddedToken out{.id = static_cast<std::int32_t>(fields.integer("id", 0, most_tokens - 1)),
                 .content = fields.text("content"),
                 .is_special = is_special,
                 .is_word = fields.flag("single_word", false),
                 .takes_left = fields.flag("lstrip", false),
                 .takes_right = fields.flag("rstrip", false),
                 .is_normalized = fields.flag("normalized", !is_special)};
  if (out.content.empty()) throw fields.wrong("content", "is empty; must be a token");
  return out;
}

void read_added_tokens(const Fields& root, TokenizerParts& parts) {
  std::vector<AddedToken> raw, normalized;
  std::vector<std::string> raw_contents, normalized_contents;
  for (const Fields& fields : root.objects("added_tokens")) {
    const AddedToken token = added_token_of(fields);
    try {
      parts.vocabulary.add_again(token.content, token.id);
    } catch (const Error& e) {
      throw with_context(e, fields.where());
    }
    parts.added.push_back(token);
    (token.is_normalized ? normalized : raw).push_back(token);
    std::string content = token.content;
    if (token.is_normalized && parts.normalizer) parts.normalizer(content);
    (token.is_normalized ? normalized_contents : raw_contents).push_back(std::move(content));
  }
  if (!raw.empty()) parts.in_text.emplace(raw, raw_contents);
  if (!normalized.empty()) parts.in_normalized.emplace(normalized, normalized_contents);
  parts.is_special.resize(static_cast<std::size_t>(parts.vocabulary.size()));
  for (const AddedToken& token : parts.added)
    if (token.is_special) parts.is_special[static_cast<std::size_t>(token.id)] = true;
}

/// Tokens that a template puts there are in the vocabulary.
void check_around(const TokenizerParts& parts) {
  for (const auto* side : {&parts.around.single, &parts.around.pair})
    for (const TemplatePart& part : *side)
      for (const std::int32_t id : part.ids)
        if (parts.vocabulary.token(id) == nullptr)
          throw error("post_processor: puts id {} around texts, which is in no vocabulary", id);
}

}  // namespace

std::shared_ptr<TokenizerParts> parts_of_tokenizer(std::string_view text) {
  const nlohmann::json document = parse_tokenizer_json(text);
  const Fields root(document, "");
  root.check_known({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
                    "post_processor", "decoder", "model"});
  auto parts = std::make_shared<TokenizerParts>();
  if (root.has("normalizer")) parts->normalizer = normalizer_of(root.object("normalizer"));
  if (root.has("pre_tokenizer")) parts->pre = pre_tokenizing_of(root.object("pre_tokenizer"));
  parts->model = model_of(root.object("model"), *parts);
  if (root.has("added_tokens")) read_added_tokens(root, *parts);
  parts->is_special.resize(static_cast<std::size_t>(parts->vocabulary.size()));
  parts->around =
      root.has("post_processor")
          ? template_of(root.object("post_processor"))
          : Template{.single = {{.text = 0}}, .pair = {{.text = 0}, {.text = 1, .ids = {}, .type = 1}}};
  check_around(*parts);
  if (root.has("decoder")) parts->decoder = decoder_of(root.object("decoder"));
  return parts;
}

}  // namespace shardwright

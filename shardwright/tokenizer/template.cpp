// Post-processors: which tokens stand around a text, or around two.
#include <map>

#include "shardwright/tokenizer/steps.h"

namespace shardwright {
namespace {

Template nothing_around() {
  return {.single = {{.text = 0}}, .pair = {{.text = 0}, {.text = 1, .ids = {}, .type = 1}}};
}

std::map<std::string, TokenIds> special_tokens(const Fields& fields) {
  std::map<std::string, TokenIds> out;
  if (!fields.has("special_tokens")) return out;
  const Fields all = fields.object("special_tokens");
  for (const auto& [name, said] : all.json().items()) {
    const Fields token = all.object(name);
    for (const auto& id : token.array("ids")) {
      if (!id.is_number_integer() || id < 0 || id >= most_tokens)
        throw token.wrong("ids", "must be ids, from 0 to {}", most_tokens - 1);
      out[name].push_back(id.get<std::int32_t>());
    }
  }
  return out;
}

std::vector<TemplatePart> parts_of(const Fields& fields, const std::string& key) {
  const auto special = special_tokens(fields);
  std::vector<TemplatePart> out;
  for (const Fields& part : fields.objects(key)) {
    part.check_known({"SpecialToken", "Sequence"});
    const bool is_token = part.has("SpecialToken");
    const Fields said = part.object(is_token ? "SpecialToken" : "Sequence");
    const std::string id = said.text("id");
    TemplatePart made{
        .type = static_cast<std::int32_t>(said.has("type_id") ? said.integer("type_id", 0, 1 << 20) : 0)};
    if (is_token) {
      const auto found = special.find(id);
      if (found == special.end()) throw said.wrong("id", "'{}' is not among the special_tokens", id);
      made.ids = found->second;
    } else if (id == "A" || id == "B") {
      made.text = id == "A" ? 0 : 1;
    } else {
      throw said.wrong("id", "is '{}', must be A or B", id);
    }
    out.push_back(std::move(made));
  }
  return out;
}

Template processing_template(const Fields& fields) {
  fields.check_known({"type", "single", "pair", "special_tokens"});
  return {.single = parts_of(fields, "single"), .pair = parts_of(fields, "pair")};
}

/// `["[SEP]", 3]`
TokenIds named_token(const Fields& fields, const std::string& key) {
  const nlohmann::json& said = fields.array(key);
  if (said.size() != 2 || !said[1].is_number_integer() || said[1] < 0 || said[1] >= most_tokens)
    throw fields.wrong(key, "must be a token and its id");
  return {said[1].get<std::int32_t>()};
}

Template bert_template(const Fields& fields) {
  fields.check_known({"type", "sep", "cls"});
  const TokenIds sep = named_token(fields, "sep"), cls = named_token(fields, "cls");
  return {.single = {{.ids = cls}, {.text = 0}, {.ids = sep}},
          .pair = {{.ids = cls},
                   {.text = 0},
                   {.ids = sep},
                   {.text = 1, .ids = {}, .type = 1},
                   {.ids = sep, .type = 1}}};
}

/// Offsets are not asked for, so how they are trimmed has no effect.
Template roberta_template(const Fields& fields) {
  fields.check_known({"type", "sep", "cls", "trim_offsets", "add_prefix_space"});
  const TokenIds sep = named_token(fields, "sep"), cls = named_token(fields, "cls");
  return {.single = {{.ids = cls}, {.text = 0}, {.ids = sep}},
          .pair = {{.ids = cls}, {.text = 0}, {.ids = sep}, {.ids = sep}, {.text = 1}, {.ids = sep}}};
}

Template byte_level_template(const Fields& fields) {
  fields.check_known({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  return nothing_around();
}

/// One template, and what puts nothing around.
Template sequence_template(const Fields& fields) {
  fields.check_known({"type", "processors"});
  Template out = nothing_around();
  bool has_one = false;
  for (const Fields& each : fields.objects("processors")) {
    if (each.text("type") == "ByteLevel") {
      byte_level_template(each);
      continue;
    }
    if (has_one) throw error("{}: a second template around the first is not understood", each.where());
    out = template_of(each);
    has_one = true;
  }
  return out;
}

}  // namespace

Template template_of(const Fields& fields) {
  static const std::map<std::string, std::function<Template(const Fields&)>> kinds = {
      {"Sequence", sequence_template},
      {"TemplateProcessing", processing_template},
      {"BertProcessing", bert_template},
      {"RobertaProcessing", roberta_template},
      {"ByteLevel", byte_level_template}};
  return made_of_kind(kinds, fields, "post-processor");
}

}  // namespace shardwright

#include "shardwright/frontend/model_sizes.h"

#include <algorithm>
#include <array>

#include "shardwright/base/text.h"
#include "shardwright/frontend/model.h"

namespace shardwright {
namespace {

/// Of whose architecture models are whose names begin so; a recipe's family becomes the model called `base`.
struct Family {
  std::string_view name, begins, base;
};
constexpr std::array model_families{Family{"llama", "llama", "llama"}, Family{"gpt", "gpt", "gpt"},
                                    Family{"qwen", "qwen", "qwen-7b"}};

/// What others call the sizes of a decoder's model, by our keys.
constexpr std::array<std::string_view, 7> size_keys{"layers", "hidden", "heads", "kv_heads",
                                                    "ffn",    "vocab",  "seq"};
/// Keys that say nothing of its architecture.
constexpr std::array<std::string_view, 4> other_keys{"batch", "documents", "labels", "places"};

/// The default of a key in figures, where it is that of another: `heads`, `4*hidden`.
std::int64_t resolved(const std::map<std::string, std::string>& keys, const std::string& text) {
  const std::size_t star = text.find('*');
  if (star != text.npos) {
    const std::int64_t factor = to_integer(text.substr(0, star)).value_or(0);
    return factor * resolved(keys, text.substr(star + 1));
  }
  if (const auto n = to_integer(text)) return *n;
  const auto other = keys.find(text);
  return other == keys.end() || other->second == text ? 0 : resolved(keys, other->second);
}

}  // namespace

ModelSizes sizes_of_model(const std::string& spec) {
  ModelSizes out;
  const std::string name = spec.substr(0, spec.find(':'));
  const auto def = std::ranges::find(all_models(), name, &ModelDef::name);
  if (def == all_models().end() || !def->keys.contains("layers")) return out;
  std::map<std::string, std::string> keys = def->keys;
  if (spec.size() > name.size())
    for (const std::string_view part : split(std::string_view(spec).substr(name.size() + 1), ','))
      if (const std::size_t eq = part.find('='); eq != part.npos)
        keys[std::string(part.substr(0, eq))] = part.substr(eq + 1);
  for (const auto& [key, text] : keys)
    if (const std::int64_t n = resolved(keys, text); n > 0 && std::ranges::count(size_keys, key) > 0)
      out.sizes[key] = n;
  const auto is_usual = [&](const auto& said) {
    const auto usual = def->keys.find(said.first);
    return (usual != def->keys.end() && usual->second == said.second) ||
           std::ranges::count(size_keys, said.first) > 0 || std::ranges::count(other_keys, said.first) > 0;
  };
  if (!std::ranges::all_of(keys, is_usual)) return out;  // none of a family by name
  for (const Family& f : model_families)
    if (name.starts_with(f.begins)) out.family = f.name;
  return out;
}

namespace {

void check_agrees(const Recipe& recipe, const std::string& named) {
  const ModelSizes has = sizes_of_model(named);
  for (const Recipe::Size& size : recipe.sizes)
    if (has.has(size.name) && has.of(size.name) != size.value)
      throw error("{} is {}, but {} has {}={}", size.key, size.value, named, size.name, has.of(size.name));
}

}  // namespace

std::string model_of_recipe(const Recipe& recipe, const std::string& named) {
  if (!named.empty()) {
    check_agrees(recipe, named);
    return named;
  }
  const auto family = std::ranges::find(model_families, recipe.family, &Family::name);
  if (family == model_families.end() || recipe.sizes.empty()) return "";
  std::string out(family->base);
  char separator = ':';
  const ModelSizes usual = sizes_of_model(out);
  const auto is_said = [&](const std::string& key) {
    return std::ranges::find(recipe.sizes, key, &Recipe::Size::name) != recipe.sizes.end();
  };
  for (const char* key : {"layers", "hidden", "heads", "seq", "vocab"})
    if (!is_said(key))
      throw error("says nothing of the model's {}; add it, or name the model with --model", key);
  for (const Recipe::Size& size : recipe.sizes) {
    if (!usual.has(size.name))
      throw error("{} is {}, but models of the family {} have no {}", size.key, size.value, family->name,
                  size.name);
    out += fmt::format("{}{}={}", std::exchange(separator, ','), size.name, size.value);
  }
  const auto follow = [&](const char* key, std::int64_t n) {
    if (usual.has(key) && !is_said(key) && usual.of(key) != n) out += fmt::format(",{}={}", key, n);
  };
  const auto said = [&](const char* key) {
    return std::ranges::find(recipe.sizes, key, &Recipe::Size::name)->value;
  };
  if (family->name == "gpt") return out;  // its ffn follows by itself
  follow("ffn", 4 * said("hidden"));
  return out;
}

}  // namespace shardwright

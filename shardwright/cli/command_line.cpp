#include "shardwright/cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "shardwright/base/text.h"
#include "shardwright/base/unknown.h"
#include "shardwright/cli/meanings.h"
#include "shardwright/frontend/model.h"

namespace shardwright {
namespace {

struct Parsed {
  std::map<std::string, std::vector<std::string>> values;  // of each time that the flag is given
  std::map<std::string, bool> switches;
};

void declare(CLI::App& app, const Verb& verb, Parsed& parsed) {
  app.allow_extras();
  for (const Flag& flag : verb.flags) {
    const std::string names = flag.alias.empty() ? flag.name : flag.name + "," + flag.alias;
    if (flag.value.empty())
      app.add_flag(names, parsed.switches[flag.name])->disable_flag_override();
    else
      app.add_option(names, parsed.values[flag.name])
          ->expected(1)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
          ->allow_extra_args(false);  // one value each time
  }
}

/// A model's name, with or without keys.
bool names_model(std::string_view word) {
  const std::string_view name = word.substr(0, word.find(':'));
  return std::ranges::any_of(all_models(), [&](const ModelDef& m) { return m.name == name; });
}

/// Under which of its two names a flag is given, time by time.
std::vector<std::string> names_given(const Flag& flag, const std::vector<std::string>& words) {
  std::vector<std::string> out;
  for (const std::string& word : words) {
    const std::string name = word.substr(0, word.find('='));
    if (name == flag.name || name == flag.alias) out.push_back(name);
  }
  return out;
}

/// The value of a flag, which may be given twice if it says the same.
std::string one_value(const std::vector<std::string>& names, const Flag& flag,
                      const std::vector<std::string>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (trim(values[i]).empty()) throw error("{} '{}': should be {}", names[i], values[i], flag.value);
    if (values[i] != values[0])
      throw error("{} {} and {} {} are the same flag with two values; give one", names[0], values[0],
                  names[i], values[i]);
  }
  return values.front();
}

/// `model` with `key=value` (`seq=64`) added, or put in the place of the value that it has; nothing if it has no such key.
std::string with_key(const std::string& model, std::string_view key_value) {
  const std::string_view name = std::string_view(model).substr(0, model.find(':'));
  const std::string key(key_value.substr(0, key_value.find('=')));
  const auto def = std::ranges::find(all_models(), name, &ModelDef::name);
  if (def == all_models().end() || !def->keys.contains(key)) return "";
  std::vector<std::string> keys;
  if (name.size() < model.size())
    for (std::string_view said : split(std::string_view(model).substr(name.size() + 1), ','))
      if (!said.starts_with(key + "=")) keys.emplace_back(said);
  keys.emplace_back(key_value);
  return fmt::format("{}:{}", name, join(keys, ","));
}

/// A hint (` (did you mean MODEL:seq=64?)`) about the model that is among `words`; nothing if the model has no such key.
std::string about_model(const std::string& hint, std::span<const std::string> words) {
  constexpr std::string_view model = "MODEL:";
  const auto it = std::ranges::find_if(words, names_model);
  const std::size_t at = hint.find(model);
  if (at == hint.npos || it == words.end()) return hint;
  const std::size_t begin = at + model.size(), end = hint.find('?', begin);
  const std::string meant = with_key(*it, std::string_view(hint).substr(begin, end - begin));
  return meant.empty() ? "" : hint.substr(0, at) + meant + hint.substr(end);
}

/// Throws: Error if word `i` of what no flag has taken is no flag of the verb.
void check_flag(const Verb& verb, std::span<const std::string> left, std::size_t i) {
  const std::string& word = left[i];
  if (word.size() < 2 || word[0] != '-' || to_number(word)) return;
  const std::size_t end = word.find('=');
  std::string value = end == word.npos ? "" : word.substr(end + 1);
  if (end == word.npos && i + 1 < left.size() && !left[i + 1].starts_with("--") &&
      (word.starts_with("--model") || !names_model(left[i + 1])))
    value = left[i + 1];
  const std::string name = word.substr(0, end);
  throw error("flag '{}' is unknown to {}{}", name, verb.name,
              about_model(meant_by(name, value, verb), left));
}

/// Throws: Error that says so where a flag without its own value has taken the model for it.
void check_positionals(const Verb& verb, const Arguments& arguments) {
  const std::vector<std::string>& given = arguments.positionals;
  // `FILE...` is one or more.
  const bool takes_more = !verb.positionals.empty() && verb.positionals.back().ends_with("...");
  if (given.size() > verb.positionals.size() && !takes_more) {
    const std::string& word = given[verb.positionals.size()];
    const bool is_key = !verb.positionals.empty() && names_model(given[0]) && word.find('=') != word.npos;
    const std::string meant = is_key ? with_key(given[0], word) : "";
    throw error("'{}' is one word too many; {} takes {}{}", word, verb.name,
                verb.positionals.empty() ? "none" : join(verb.positionals, " "),
                meant.empty() ? "" : fmt::format(" (did you mean {}?)", meant));
  }
  for (std::size_t i = given.size(); i < verb.positionals.size(); ++i) {
    if (verb.positionals[i][0] == '[') continue;
    for (const Flag& flag : verb.flags)
      if (const auto it = arguments.flags.find(flag.name);
          it != arguments.flags.end() && names_model(it->second))
        throw error("{} needs {}: {} has taken '{}' as its {}", verb.name, verb.positionals[i],
                    arguments.called(flag.name), it->second, flag.value);
    throw error("{} needs {}", verb.name, verb.positionals[i]);
  }
}

Arguments arguments_of(const Verb& verb, const CLI::App& app, const std::vector<std::string>& words,
                       const Parsed& parsed) {
  Arguments out;
  out.words = words;
  for (const Flag& flag : verb.flags) {
    if (app.count(flag.name) == 0) continue;
    if (flag.value.empty()) {
      out.flags[flag.name] = "true";
      continue;
    }
    const std::vector<std::string>& values = parsed.values.at(flag.name);
    std::vector<std::string> names = names_given(flag, words);
    if (names.size() != values.size()) names.assign(values.size(), flag.name);
    out.flags[flag.name] = one_value(names, flag, values);
    out.names[flag.name] = names.front();
  }
  const std::vector<std::string> left = app.remaining();
  bool may_be_flag = true;  // until `--`
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (may_be_flag && left[i] == "--") {
      may_be_flag = false;
      continue;
    }
    if (may_be_flag) check_flag(verb, left, i);
    out.positionals.push_back(left[i]);
  }
  check_positionals(verb, out);
  return out;
}

/// `--devices: 1 required N missing`: the flag's name is all that is of use.
Error mismatch(const Verb& verb, const std::vector<std::string>& words, const std::string& what) {
  const std::string name = what.substr(0, what.find(':'));
  for (const Flag& flag : verb.flags)
    for (const std::string& word : words)
      if (flag.value.empty() && word.starts_with(flag.name + "="))
        return error("{}: {} is a switch and takes no value", word, flag.name);
  return error("{} needs a value; see shardwright {} --help", name, verb.name);
}

}  // namespace

const Verb& verb_called(const std::string& name) {
  std::vector<std::string> known;
  for (const Verb& v : all_verbs()) {
    if (v.name == name) return v;
    known.push_back(v.name);
  }
  if (name.starts_with('-'))
    throw error("'{}' stands in front of the verb; say shardwright VERB .. {}", name, name);
  if (names_model(name)) throw error("'{}' is a model; say shardwright plan {}, or train", name, name);
  throw unknown("verb", name, known);
}

std::optional<Arguments> arguments_of(const Verb& verb, const std::vector<std::string>& words) {
  CLI::App app;
  Parsed parsed;
  declare(app, verb, parsed);
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend() - 1));
  } catch (const CLI::CallForHelp&) {
    return std::nullopt;
  } catch (const CLI::ArgumentMismatch& e) {
    throw mismatch(verb, words, e.what());
  } catch (const CLI::ParseError& e) {
    throw Error(e.what());
  }
  return arguments_of(verb, app, words, parsed);
}

}  // namespace shardwright

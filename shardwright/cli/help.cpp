#include "shardwright/cli/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "shardwright/base/text.h"

namespace shardwright {
namespace {

constexpr std::size_t width = 100;

/// `text` at column `indent`, in lines of at most `width`.
std::string wrapped(std::string_view text, std::size_t indent) {
  std::string out;
  std::size_t column = indent;
  for (std::string_view word : split(text, ' ')) {
    if (column > indent && column + 1 + word.size() > width) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  return out;
}

/// `left`, and from column `indent` on what it is; on a line of its own where `left` is too long.
std::string entry(const std::string& left, std::string_view doc, std::size_t indent) {
  const std::string gap =
      left.size() + 2 > indent ? "\n" + std::string(indent, ' ') : std::string(indent - left.size(), ' ');
  return left + gap + wrapped(doc, indent) + "\n";
}

std::string name_of(const Flag& flag) {
  std::string out = "  " + flag.name;
  if (!flag.alias.empty()) out += ", " + flag.alias;
  return flag.value.empty() ? out : out + " " + flag.value;
}

/// Of what the verb alone has first, then in the order of the flags.
std::vector<std::string> groups_of(const Verb& verb) {
  std::vector<std::string> out{""};
  for (const Flag& flag : verb.flags)
    if (std::ranges::find(out, flag.group) == out.end()) out.push_back(flag.group);
  return out;
}

}  // namespace

std::string overview() {
  std::string out = "shardwright: plans, proves and trains networks over many devices\n\n";
  for (const Verb& v : all_verbs()) out += entry("  " + v.name, v.doc, 14);
  return out +
         "\nTo begin with:\n"
         "  shardwright plan ffn --devices 8\n"
         "  shardwright plan llama2-7b --cluster a100-80g:8\n"
         "  shardwright train ffn --devices 8 --steps 20\n\n"
         "shardwright help VERB tells the flags of a verb, with examples.\n";
}

std::string help_of(const Verb& verb) {
  constexpr std::size_t indent = 30;
  std::string out = "shardwright " + verb.name;
  for (const std::string& p : verb.positionals) out += " " + p;
  out += verb.flags.empty() ? "\n" : " [FLAGS]\n";
  out += wrapped(verb.doc, 0) + "\n\nFor example:\n";
  for (std::string_view line : split(verb.example, '\n')) out += fmt::format("  {}\n", line);
  for (const std::string& group : groups_of(verb)) {
    out += "\n" + (group.empty() ? "Flags" : group) + ":\n";
    for (const Flag& flag : verb.flags)
      if (flag.group == group) out += entry(name_of(flag), flag.doc, indent);
    if (group.empty()) out += entry("  -h, --help", "print this", indent);
  }
  return out;
}

}  // namespace shardwright

// What a shell completes and `man` shows, from the table of verbs, and what operators mean, from theirs: so that none is
// written by hand.
#include <fmt/format.h>

#include <ostream>

#include "shardwright/base/text.h"
#include "shardwright/cli/operator_list.h"
#include "shardwright/cli/verb.h"

namespace shardwright::verbs {
namespace {

std::string flags_of(const Verb& verb) {
  std::vector<std::string> out{"--help"};
  for (const Flag& flag : verb.flags) {
    out.push_back(flag.name);
    if (!flag.alias.empty()) out.push_back(flag.alias);
  }
  return join(out, " ");
}

std::string names_of_verbs() {
  std::vector<std::string> out;
  for (const Verb& verb : all_verbs()) out.push_back(verb.name);
  return join(out, " ");
}

/// Verbs, then flags of the verb; anything else is a file.
std::string for_bash() {
  std::string out =
      "_shardwright() {\n  local words=() word=${COMP_WORDS[COMP_CWORD]}\n  case ${COMP_WORDS[1]} in\n";
  for (const Verb& verb : all_verbs())
    out += fmt::format("    {}) words=({}) ;;\n", verb.name, flags_of(verb));
  out += fmt::format("  esac\n  ((COMP_CWORD > 1)) || words=({} --help --version)\n", names_of_verbs());
  out +=
      "  if ((COMP_CWORD > 1)) && [[ $word != -* ]]; then\n"
      "    mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n"
      "  else\n"
      "    mapfile -t COMPREPLY < <(compgen -W \"${words[*]}\" -- \"$word\")\n"
      "  fi\n}\n"
      "complete -o filenames -F _shardwright shardwright\n";
  return out;
}

/// In single quotes of zsh, in which brackets and colons part a description.
std::string in_quotes(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '\'') {
      out += "'\\''";
      continue;
    }
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string for_zsh() {
  std::string out = "#compdef shardwright\n_shardwright() {\n  local -a verbs\n  verbs=(\n";
  for (const Verb& verb : all_verbs()) out += fmt::format("    '{}:{}'\n", verb.name, in_quotes(verb.doc));
  out +=
      "  )\n  if ((CURRENT == 2)); then\n    _describe verb verbs\n    return\n  fi\n  case $words[2] in\n";
  for (const Verb& verb : all_verbs()) {
    out += fmt::format("    {}) _arguments '*:file:_files'", verb.name);
    for (const Flag& flag : verb.flags)
      out += fmt::format(" \\\n      '{}[{}]{}'", flag.name, in_quotes(flag.doc),
                         flag.value.empty() ? "" : fmt::format(":{}:_files", in_quotes(flag.value)));
    out += " ;;\n";
  }
  return out + "  esac\n}\n_shardwright \"$@\"\n";
}

/// In single quotes of fish.
std::string quoted_for_fish(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string for_fish() {
  std::string out = "complete -c shardwright -n __fish_use_subcommand -f\n";
  for (const Verb& verb : all_verbs()) {
    out += fmt::format("complete -c shardwright -n __fish_use_subcommand -a {} -d '{}'\n", verb.name,
                       quoted_for_fish(verb.doc));
    for (const Flag& flag : verb.flags)
      out += fmt::format("complete -c shardwright -n '__fish_seen_subcommand_from {}' {} {}{} -d '{}'\n",
                         verb.name, flag.name.starts_with("--") ? "-l" : "-s",
                         flag.name.substr(flag.name.find_first_not_of('-')), flag.value.empty() ? "" : " -r",
                         quoted_for_fish(flag.doc));
  }
  return out;
}

/// A line of a manual page: hyphens as they are typed, and nothing at its begin that would be a request.
std::string plain(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  return out.starts_with('.') || out.starts_with('\'') ? "\\&" + out : out;
}

std::string for_man() {
  std::string out =
      ".TH SHARDWRIGHT 1\n.SH NAME\nshardwright \\- plans, proves and trains networks over many devices\n"
      ".SH SYNOPSIS\n.B shardwright\n.I VERB\n[WORDS] [FLAGS]\n.SH DESCRIPTION\n"
      "A network is written for one device; how it is split over a cluster is found, shown, proven and run.\n"
      "A user's mistake is told in one line, and the exit status is 2.\n.SH VERBS\n";
  for (const Verb& verb : all_verbs()) {
    out += fmt::format(".SS {} {}\n{}.\n", plain(verb.name), plain(join(verb.positionals, " ")),
                       plain(verb.doc));
    for (const Flag& flag : verb.flags)
      out += fmt::format(".TP\n.B {}{}{}\n{}\n", plain(flag.name),
                         flag.alias.empty() ? "" : ", " + plain(flag.alias),
                         flag.value.empty() ? "" : " " + plain(flag.value), plain(flag.doc));
    out += fmt::format(".PP\nExample:\n.EX\n{}\n.EE\n", plain(verb.example));
  }
  return out;
}

int run(const Arguments& arguments, Terminal& terminal) {
  const std::string& what = arguments.positionals[0];
  if (what != "operators" && arguments.is_on("--json"))
    throw error("describe {}: has no --json; describe operators has", what);
  if (what == "bash")
    terminal.out << for_bash();
  else if (what == "zsh")
    terminal.out << for_zsh();
  else if (what == "fish")
    terminal.out << for_fish();
  else if (what == "man")
    terminal.out << for_man();
  else if (what == "operators")
    terminal.out << (arguments.is_on("--json") ? operators_json() : operators_text());
  else
    throw error("describe {}: there are bash, zsh, fish, man, operators", what);
  return 0;
}

}  // namespace

std::vector<Verb> describe() {
  return {
      {.name = "describe",
       .doc = "print what a shell completes (bash, zsh, fish), the manual page (man), or what operators mean",
       .positionals = {"bash|zsh|fish|man|operators"},
       .flags = {{"--json", "", "operators as one JSON document", ""}},
       .example = "shardwright describe bash > ~/.local/share/bash-completion/completions/shardwright",
       .run = run}};
}

}  // namespace shardwright::verbs

// Templates as `chat_template` of tokenizer_config.json writes them: the part of Jinja that such templates are made of.
//
//   {{ expression }}   {% for %} {% if %} {% elif %} {% else %} {% set %} {% generation %} {% break %} {% continue %}
//   or and not == != < <= > >= in, is, + - ~ * / // %, | filters, .name [index] [from:to] calls, a if b else c
//
// `trim_blocks` and `lstrip_blocks` are on, as transformers has them. What else there is in Jinja (macros, includes) is an
// error with its line.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/tokenizer/text_part.h"

namespace shardwright::jinja {

/// What an expression is worth; `discarded`: it is not defined.
using Value = nlohmann::ordered_json;

struct Expression {
  enum class Kind {
    literal,
    name,
    list,
    dict,
    item,
    slice,
    call,
    filter,
    test,
    negation,
    minus,
    binary,
    conditional
  };
  Kind kind = Kind::literal;
  std::string text;  // of a name, an operator, a filter, a test
  Value value;       // of a literal
  std::vector<Expression>
      parts;  // operands; of an item what it is of, and the index; of a dict keys and values
  std::vector<std::string> names;  // of a call: those of its arguments, empty where there is none
};

struct Node {
  enum class Kind { text, output, loop, choice, set, block, leave, skip };
  Kind kind = Kind::text;
  int line = 1;
  std::string text;
  std::vector<std::string> targets;  // of a loop, or of set: a name, or a namespace and a name
  std::vector<Expression>
      expressions;  // the output, the row, the value; of a choice a condition for each body
  std::vector<std::vector<Node>> bodies;  // of a choice one more than conditions, if there is an else
};

/// Throws: Error with the line.
std::vector<Node> parse(std::string_view text);

/// A text, and where in it what stood in {% generation %} is.
struct Rendered {
  std::string text;
  std::vector<TextPart> generated;
};
/// Throws: Error with the line; of `raise_exception` what it says.
Rendered rendered(const std::vector<Node>& nodes, const Value& variables);
/// Whether there is {% generation %} anywhere.
bool marks_generation(const std::vector<Node>& nodes);

}  // namespace shardwright::jinja

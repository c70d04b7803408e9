#include "shardwright/tokenizer/jinja_expression.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "shardwright/base/error.h"
#include "shardwright/base/text.h"

namespace shardwright::jinja {
namespace {

struct Word {
  char kind = 0;  // n: name, s: text, i: number, o: operator, 0: the end
  std::string text;
};

std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out.push_back(text[i]);
      continue;
    }
    const char c = text[++i];
    out.push_back(c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c);
  }
  return out;
}

std::vector<Word> words_of(std::string_view text) {
  static constexpr std::array<std::string_view, 24> operators = {"==", "!=", "<=", ">=", "//", "(", ")", "[",
                                                                 "]",  "{",  "}",  ",",  ":",  ".", "|", "+",
                                                                 "-",  "~",  "*",  "/",  "%",  "<", ">", "="};
  std::vector<Word> out;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    std::size_t end = at + 1;
    if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      at = end;
      continue;
    }
    if (std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_') {
      while (end < text.size() &&
             (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '_'))
        ++end;
      out.push_back({'n', std::string(text.substr(at, end - at))});
    } else if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      while (end < text.size() &&
             (std::isdigit(static_cast<unsigned char>(text[end])) != 0 || text[end] == '.'))
        ++end;
      out.push_back({'i', std::string(text.substr(at, end - at))});
    } else if (c == '\'' || c == '"') {
      while (end < text.size() && text[end] != c) end += text[end] == '\\' ? 2 : 1;
      if (end >= text.size()) throw error("a text is never closed by {}", c);
      out.push_back({'s', unescaped(text.substr(at + 1, end - at - 1))});
      ++end;
    } else {
      const auto op =
          std::ranges::find_if(operators, [&](std::string_view o) { return text.substr(at).starts_with(o); });
      if (op == operators.end()) throw error("'{}' is not understood", c);
      out.push_back({'o', std::string(*op)});
      end = at + op->size();
    }
    at = end;
  }
  out.push_back({});
  return out;
}

Expression made(Expression::Kind kind, std::string text, std::vector<Expression> parts) {
  return {.kind = kind, .text = std::move(text), .value = {}, .parts = std::move(parts), .names = {}};
}
Expression literal_of(Value value) {
  return {.kind = Expression::Kind::literal, .text = {}, .value = std::move(value), .parts = {}, .names = {}};
}

class Expressions {
 public:
  /// What is read, evaluated and freed part by part is no deeper than it has words.
  explicit Expressions(std::string_view text) : words_(words_of(text)) {
    constexpr std::size_t most_words = 500;
    if (words_.size() > most_words) throw error("an expression has more than {} words", most_words);
  }

  Expression whole() {
    Expression out = conditional();
    expect_end();
    return out;
  }
  void expect_end() const {
    if (word().kind != 0) throw error("'{}' is not understood behind an expression", word().text);
  }
  Expression conditional() {
    Expression value = disjunction();
    if (!take('n', "if")) return value;
    Expression condition = disjunction();
    Expression other = take('n', "else") ? conditional() : literal_of("");
    return made(Expression::Kind::conditional, "",
                {std::move(condition), std::move(value), std::move(other)});
  }
  std::string name() {
    if (word().kind != 'n') throw error("'{}' stands where a name should", word().text);
    return words_[at_++].text;
  }
  bool take(char kind, std::string_view text) {
    if (word().kind != kind || word().text != text) return false;
    ++at_;
    return true;
  }
  void expect(std::string_view text) {
    if (!take('o', text)) throw error("'{}' stands where '{}' should", word().text, text);
  }

 private:
  using Kind = Expression::Kind;
  const Word& word() const { return words_[at_]; }

  /// Operators of one strength, from the left.
  template <class Next>
  Expression chain(std::initializer_list<std::string_view> operators, char kind, Next next) {
    Expression left = next();
    for (;;) {
      const auto op =
          std::find_if(operators.begin(), operators.end(), [&](std::string_view o) { return take(kind, o); });
      if (op == operators.end()) return left;
      Expression right = next();
      left = made(Kind::binary, std::string(*op), {std::move(left), std::move(right)});
    }
  }
  Expression disjunction() {
    return chain({"or"}, 'n', [&] { return chain({"and"}, 'n', [&] { return negation(); }); });
  }
  void deepen() {
    if (++depth_ > 100) throw error("an expression is nested more than 100 deep");
  }
  Expression negation() {
    deepen();
    const bool is_negated = take('n', "not");
    Expression out = is_negated ? made(Kind::negation, "", {negation()}) : comparison();
    --depth_;
    return out;
  }
  Expression comparison() {
    Expression left = sum();
    for (;;) {
      std::string op;
      for (const char* o : {"==", "!=", "<=", ">=", "<", ">"})
        if (op.empty() && take('o', o)) op = o;
      if (op.empty() && take('n', "in")) op = "in";
      const bool is_not_in =
          op.empty() && word().kind == 'n' && word().text == "not" && words_[at_ + 1].text == "in";
      if (is_not_in) at_ += 2;
      if (op.empty() && !is_not_in) return left;
      Expression compared = made(Kind::binary, is_not_in ? "in" : op, {std::move(left), sum()});
      left = is_not_in ? made(Kind::negation, "", {std::move(compared)}) : std::move(compared);
    }
  }
  Expression sum() {
    return chain({"+", "-"}, 'o', [&] {
      return chain({"~"}, 'o', [&] { return chain({"*", "//", "/", "%"}, 'o', [&] { return filtered(); }); });
    });
  }
  Expression filtered() {
    if (take('o', "-")) {
      deepen();
      Expression out = made(Kind::minus, "", {filtered()});
      --depth_;
      return out;
    }
    Expression out = postfix(primary());
    for (;;) {
      if (take('o', "|")) {
        out = made(Kind::filter, name(), {std::move(out)});
        if (take('o', "(")) arguments(out);
      } else if (take('n', "is")) {
        const bool is_negated = take('n', "not");
        out = made(Kind::test, name(), {std::move(out)});
        if (is_negated) out = made(Kind::negation, "", {std::move(out)});
      } else {
        return out;
      }
    }
  }
  Expression postfix(Expression out) {
    for (;;) {
      if (take('o', ".")) {
        out = made(Kind::item, "", {std::move(out), literal_of(name())});
      } else if (take('o', "[")) {
        out = subscript(std::move(out));
      } else if (take('o', "(")) {
        out = made(Kind::call, "", {std::move(out)});
        arguments(out);
      } else {
        return out;
      }
    }
  }
  Expression subscript(Expression of) {
    const auto bound = [&](std::string_view end) {
      return word().text == end && word().kind == 'o' ? literal_of(nullptr) : conditional();
    };
    Expression first = bound(":");
    if (!take('o', ":")) {
      expect("]");
      return made(Kind::item, "", {std::move(of), std::move(first)});
    }
    Expression last = bound(word().text == ":" ? ":" : "]");
    Expression step = take('o', ":") ? bound("]") : literal_of(nullptr);
    expect("]");
    return made(Kind::slice, "", {std::move(of), std::move(first), std::move(last), std::move(step)});
  }
  void arguments(Expression& of) {
    of.names.emplace_back();
    while (!take('o', ")")) {
      const bool is_named = word().kind == 'n' && words_[at_ + 1].kind == 'o' && words_[at_ + 1].text == "=";
      of.names.push_back(is_named ? name() : "");
      if (is_named) expect("=");
      of.parts.push_back(conditional());
      if (word().text != ")") expect(",");
    }
  }
  Expression primary() {
    const Word w = word();
    if (w.kind != 0) ++at_;
    if (w.kind == 's') {
      std::string text = w.text;
      while (word().kind == 's') text += words_[at_++].text;
      return literal_of(text);
    }
    if (w.kind == 'i') {
      if (const auto number = to_integer(w.text)) return literal_of(*number);
      if (const auto number = to_number(w.text)) return literal_of(*number);
    }
    if (w.kind == 'n') return named(w.text);
    if (w.text == "(") {
      Expression out = conditional();
      expect(")");
      return out;
    }
    if (w.text == "[" || w.text == "{") return collection(w.text == "[");
    throw error("'{}' is not understood in an expression", w.text);
  }
  static Expression named(const std::string& name) {
    if (name == "true" || name == "True") return literal_of(true);
    if (name == "false" || name == "False") return literal_of(false);
    if (name == "none" || name == "None") return literal_of(nullptr);
    return made(Kind::name, name, {});
  }
  Expression collection(bool is_list) {
    Expression out = made(is_list ? Kind::list : Kind::dict, "", {});
    const std::string_view end = is_list ? "]" : "}";
    while (!take('o', end)) {
      out.parts.push_back(conditional());
      if (!is_list) {
        expect(":");
        out.parts.push_back(conditional());
      }
      if (word().text != end) expect(",");
    }
    return out;
  }

  std::vector<Word> words_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Expression parse_expression(std::string_view text) { return Expressions(text).whole(); }

std::vector<std::string> parse_names(std::string_view text, std::string_view separator) {
  Expressions words(text);
  std::vector<std::string> out;
  do {
    out.push_back(words.name());
  } while (words.take('o', separator));
  words.expect_end();
  return out;
}

}  // namespace shardwright::jinja

#include <algorithm>
#include <cctype>

#include "shardwright/base/error.h"
#include "shardwright/base/text.h"
#include "shardwright/tokenizer/jinja.h"
#include "shardwright/tokenizer/jinja_expression.h"

namespace shardwright::jinja {
namespace {

/// A piece of the template: text, or what stands between {{ }} or {% %}.
struct Piece {
  char kind = 't';  // t, {, %
  std::string text;
  int line = 1;
};

bool is_blank(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

void strip_end(std::string& text) {
  while (!text.empty() && is_blank(text.back())) text.pop_back();
}

/// Whether nothing but blanks stands before it in its line.
bool begins_line(std::string_view text, std::size_t at) {
  while (at > 0 && (text[at - 1] == ' ' || text[at - 1] == '\t')) --at;
  return at == 0 || text[at - 1] == '\n';
}

/// Where `close` stands outside of quotes.
std::size_t end_of_tag(std::string_view text, std::size_t from, std::string_view close, int line) {
  char quote = 0;
  for (std::size_t i = from; i < text.size(); ++i) {
    if (quote != 0) {
      if (text[i] == '\\')
        ++i;
      else if (text[i] == quote)
        quote = 0;
    } else if (close != "#}" && (text[i] == '\'' || text[i] == '"')) {
      quote = text[i];
    } else if (text.substr(i).starts_with(close)) {
      return i;
    }
  }
  throw error("line {}: is opened, and never closed by {}", line, close);
}

std::vector<Piece> pieces_of(std::string_view text) {
  std::vector<Piece> out;
  bool strips_next = false, is_behind_block = false;
  const auto put_text = [&](std::string_view part, int line) {
    if (is_behind_block && part.starts_with('\n')) part.remove_prefix(1);
    while (strips_next && !part.empty() && is_blank(part.front())) part.remove_prefix(1);
    out.push_back({'t', std::string(part), line});
  };
  int line = 1;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t open = text.find('{', at);
    while (
        open != std::string_view::npos &&
        (open + 1 == text.size() || std::string_view("{%#").find(text[open + 1]) == std::string_view::npos))
      open = text.find('{', open + 1);
    put_text(text.substr(at, open == std::string_view::npos ? open : open - at), line);
    if (open == std::string_view::npos) break;
    line += static_cast<int>(std::count(text.begin() + static_cast<std::ptrdiff_t>(at),
                                        text.begin() + static_cast<std::ptrdiff_t>(open), '\n'));
    const char kind = text[open + 1];
    const std::string close{kind == '{' ? '}' : kind, '}'};
    const std::size_t end = end_of_tag(text, open + 2, close, line);
    std::string_view inside = text.substr(open + 2, end - open - 2);
    if (inside.starts_with('-'))
      strip_end(out.back().text), inside.remove_prefix(1);
    else if (inside.starts_with('+'))
      inside.remove_prefix(1);
    else if (kind != '{' && begins_line(text, open))
      while (out.back().text.ends_with(' ') || out.back().text.ends_with('\t')) out.back().text.pop_back();
    strips_next = inside.ends_with('-');
    if (strips_next || inside.ends_with('+')) inside.remove_suffix(1);
    is_behind_block = kind != '{';
    if (kind != '#') out.push_back({kind, std::string(trim(inside)), line});
    line += static_cast<int>(std::count(inside.begin(), inside.end(), '\n'));
    at = end + 2;
  }
  return out;
}

class Statements {
 public:
  explicit Statements(std::vector<Piece> pieces) : pieces_(std::move(pieces)) {}

  std::vector<Node> whole() {
    std::vector<Node> out = body({});
    if (at_ < pieces_.size())
      throw error("line {}: '{}' ends nothing that is open", pieces_[at_].line, pieces_[at_].text);
    return out;
  }

 private:
  static std::string keyword(const Piece& piece) {
    return piece.kind == '%' ? piece.text.substr(0, piece.text.find_first_of(" \t\n")) : "";
  }
  static std::string rest(const Piece& piece) {
    return piece.text.substr(std::min(piece.text.size(), keyword(piece).size()));
  }

  /// Up to one of these keywords, which is next then.
  std::vector<Node> body(const std::vector<std::string>& ends) {
    std::vector<Node> out;
    if (++depth_ > 60) throw error("blocks are nested more than 60 deep");
    for (; at_ < pieces_.size();) {
      const Piece& piece = pieces_[at_];
      const std::string word = keyword(piece);
      if (piece.kind == '%' && (std::ranges::find(ends, word) != ends.end() || word.starts_with("end") ||
                                word == "else" || word == "elif"))
        break;
      ++at_;
      try {
        out.push_back(node(piece, word));
      } catch (const Error& e) {
        if (std::string_view(e.what()).starts_with("line ")) throw;
        throw error("line {}: {}", piece.line, e.what());
      }
    }
    --depth_;
    return out;
  }
  void end(const std::string& word, int line) {
    if (at_ == pieces_.size() || keyword(pieces_[at_]) != word)
      throw error("line {}: what is opened there is not closed by {}", line, word);
    ++at_;
  }
  Node node(const Piece& piece, const std::string& word) {
    Node out{.line = piece.line};
    if (piece.kind == 't') {
      out.text = piece.text;
    } else if (piece.kind == '{') {
      out.kind = Node::Kind::output;
      out.expressions.push_back(parse_expression(piece.text));
    } else if (word == "for") {
      loop(rest(piece), out);
    } else if (word == "if") {
      choice(rest(piece), out);
    } else if (word == "set") {
      set(rest(piece), out);
    } else if (word == "generation") {
      out.kind = Node::Kind::block;
      out.bodies.push_back(body({}));
      end("endgeneration", piece.line);
    } else if (word == "break" || word == "continue") {
      out.kind = word == "break" ? Node::Kind::leave : Node::Kind::skip;
    } else {
      throw error("'{}' is not understood; there are for, if, set, generation, break, continue", word);
    }
    return out;
  }
  void loop(const std::string& text, Node& out) {
    out.kind = Node::Kind::loop;
    const std::size_t in = text.find(" in ");
    if (in == std::string::npos) throw error("'for{}' says nothing behind in", text);
    out.targets = parse_names(text.substr(0, in), ",");
    out.expressions.push_back(parse_expression(text.substr(in + 4)));
    out.bodies.push_back(body({}));
    if (at_ < pieces_.size() && keyword(pieces_[at_]) == "else") {
      ++at_;
      out.bodies.push_back(body({}));
    }
    end("endfor", out.line);
  }
  void choice(const std::string& text, Node& out) {
    out.kind = Node::Kind::choice;
    out.expressions.push_back(parse_expression(text));
    out.bodies.push_back(body({}));
    while (at_ < pieces_.size() && keyword(pieces_[at_]) == "elif") {
      out.expressions.push_back(parse_expression(rest(pieces_[at_++])));
      out.bodies.push_back(body({}));
    }
    if (at_ < pieces_.size() && keyword(pieces_[at_]) == "else") {
      ++at_;
      out.bodies.push_back(body({}));
    }
    end("endif", out.line);
  }
  static void set(const std::string& text, Node& out) {
    out.kind = Node::Kind::set;
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) throw error("'set{}' has no =", text);
    out.targets = parse_names(text.substr(0, equals), ".");
    if (out.targets.size() > 2) throw error("'set{}' sets more than a name of a namespace", text);
    out.expressions.push_back(parse_expression(text.substr(equals + 1)));
  }

  std::vector<Piece> pieces_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::vector<Node> parse(std::string_view text) { return Statements(pieces_of(text)).whole(); }

}  // namespace shardwright::jinja

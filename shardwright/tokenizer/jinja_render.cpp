#include <algorithm>
#include <map>

#include "shardwright/base/error.h"
#include "shardwright/tokenizer/jinja.h"
#include "shardwright/tokenizer/jinja_values.h"

namespace shardwright::jinja {
namespace {

using Named = std::map<std::string, Value>;

constexpr std::size_t most_output = std::size_t{1} << 26;

enum class Flow { on, leave, skip };

class Renderer {
 public:
  explicit Renderer(const Value& variables) {
    scopes_.emplace_back();
    for (const auto& [name, value] : variables.items()) scopes_[0][name] = value;
  }

  Flow render(const std::vector<Node>& nodes) {
    for (const Node& node : nodes) {
      Flow flow = Flow::on;
      try {
        flow = render(node);
      } catch (const Error& e) {
        const std::string_view told = e.what();
        if (is_raised_ || told.starts_with("line ")) throw;
        throw error("line {}: {}", node.line, told);
      }
      if (flow != Flow::on) return flow;
    }
    return Flow::on;
  }
  Rendered take() { return {std::move(out_), std::move(generated_)}; }

 private:
  using Kind = Expression::Kind;

  void put(const std::string& text) {
    out_ += text;
    if (out_.size() > most_output) throw error("the text is longer than {} bytes", most_output);
  }
  Flow render(const Node& node) {
    switch (node.kind) {
      case Node::Kind::text: put(node.text); return Flow::on;
      case Node::Kind::output: put(printed(value(node.expressions[0]))); return Flow::on;
      case Node::Kind::block: {
        const std::size_t begin = out_.size();
        const Flow flow = render(node.bodies[0]);
        generated_.push_back({begin, out_.size()});
        return flow;
      }
      case Node::Kind::leave: return Flow::leave;
      case Node::Kind::skip: return Flow::skip;
      case Node::Kind::set: set(node); return Flow::on;
      case Node::Kind::loop: loop(node); return Flow::on;
      case Node::Kind::choice: break;
    }
    std::size_t which = 0;
    while (which < node.expressions.size() && !is_true(value(node.expressions[which]))) ++which;
    return which < node.bodies.size() ? render(node.bodies[which]) : Flow::on;
  }
  void set(const Node& node) {
    Value made = value(node.expressions[0]);
    if (node.targets.size() == 1) {
      scopes_.back()[node.targets[0]] = std::move(made);
      return;
    }
    Value* space = find(node.targets[0]);
    if (space == nullptr || !space->is_object()) throw error("'{}' is no namespace", node.targets[0]);
    (*space)[node.targets[1]] = std::move(made);
  }
  void loop(const Node& node) {
    Value rows = value(node.expressions[0]);
    if (is_undefined(rows)) rows = Value::array();
    if (rows.is_object()) {
      Value keys = Value::array();
      for (const auto& [key, part] : rows.items()) keys.push_back(key);
      rows = std::move(keys);
    }
    if (!rows.is_array()) throw error("for goes over lists and mappings");
    if (rows.empty() && node.bodies.size() > 1) render(node.bodies[1]);
    const auto count = std::ssize(rows);
    for (std::int64_t i = 0; i < count; ++i) {
      scopes_.push_back({{"loop",
                          {{"index0", i},
                           {"index", i + 1},
                           {"first", i == 0},
                           {"last", i + 1 == count},
                           {"length", count},
                           {"revindex0", count - 1 - i},
                           {"revindex", count - i}}}});
      if (i > 0) scopes_.back()["loop"]["previtem"] = rows[static_cast<std::size_t>(i - 1)];
      if (i + 1 < count) scopes_.back()["loop"]["nextitem"] = rows[static_cast<std::size_t>(i + 1)];
      const Value& row = rows[static_cast<std::size_t>(i)];
      if (node.targets.size() > 1 && (!row.is_array() || row.size() != node.targets.size()))
        throw error("for has {} names for what is no row of so many", node.targets.size());
      for (std::size_t t = 0; t < node.targets.size(); ++t)
        scopes_.back()[node.targets[t]] = node.targets.size() == 1 ? row : row[t];
      const Flow flow = render(node.bodies[0]);
      scopes_.pop_back();
      if (flow == Flow::leave) break;
    }
  }

  Value* find(const std::string& name) {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (const auto found = scope->find(name); found != scope->end()) return &found->second;
    return nullptr;
  }
  Values all(const Expression& e, std::size_t from) {
    Values out;
    for (std::size_t i = from; i < e.parts.size(); ++i) out.push_back(value(e.parts[i]));
    return out;
  }
  Value value(const Expression& e) {
    switch (e.kind) {
      case Kind::literal: return e.value;
      case Kind::name: {
        const Value* found = find(e.text);
        return found == nullptr ? undefined() : *found;
      }
      case Kind::list: return Value(all(e, 0));
      case Kind::dict: {
        Value out = Value::object();
        for (std::size_t i = 0; i + 1 < e.parts.size(); i += 2)
          out[text_in(value(e.parts[i]), "a key")] = value(e.parts[i + 1]);
        return out;
      }
      case Kind::item: return item_of(value(e.parts[0]), value(e.parts[1]));
      case Kind::slice:
        return slice_of(value(e.parts[0]), value(e.parts[1]), value(e.parts[2]), value(e.parts[3]));
      case Kind::negation: return !is_true(value(e.parts[0]));
      case Kind::minus: return computed("-", 0, value(e.parts[0]));
      case Kind::conditional: return value(e.parts[is_true(value(e.parts[0])) ? 1 : 2]);
      case Kind::test: return passes(e.text, value(e.parts[0]));
      case Kind::call: return called(e);
      case Kind::binary: return binary(e);
      case Kind::filter: break;
    }
    auto out = applied(e.text, value(e.parts[0]), all(e, 1));
    if (!out) throw error("the filter '{}' is not understood", e.text);
    return *out;
  }
  Value binary(const Expression& e) {
    Value left = value(e.parts[0]);
    if (e.text == "and") return is_true(left) ? value(e.parts[1]) : left;
    if (e.text == "or") return is_true(left) ? left : value(e.parts[1]);
    return computed(e.text, left, value(e.parts[1]));
  }
  Value called(const Expression& e) {
    const Expression& callee = e.parts[0];
    const Values arguments = all(e, 1);
    if (callee.kind == Kind::item && callee.parts[1].kind == Kind::literal) {
      const std::string name = text_in(callee.parts[1].value, "what is called");
      auto out = applied(name, value(callee.parts[0]), arguments);
      if (!out) throw error("'.{}()' is not understood", name);
      return *out;
    }
    if (callee.text == "raise_exception") {
      is_raised_ = true;
      throw error("the template refuses it: {}", arguments.empty() ? "" : printed(arguments[0]));
    }
    if (callee.text == "namespace") {
      Value out = Value::object();
      for (std::size_t i = 0; i < arguments.size(); ++i) out[e.names[i + 1]] = arguments[i];
      return out;
    }
    if (callee.text == "range" && (arguments.size() == 1 || arguments.size() == 2)) {
      const std::int64_t from = arguments.size() == 1 ? 0 : whole(arguments[0]), to = whole(arguments.back());
      Value out = Value::array();
      if (to - from > 100'000) throw error("a range of more than 100000 numbers");
      for (std::int64_t i = from; i < to; ++i) out.push_back(i);
      return out;
    }
    throw error("'{}()' is not understood", callee.text);
  }

  std::vector<Named> scopes_;
  std::string out_;
  std::vector<TextPart> generated_;
  bool is_raised_ = false;
};

}  // namespace

bool marks_generation(const std::vector<Node>& nodes) {
  return std::ranges::any_of(nodes, [](const Node& node) {
    return node.kind == Node::Kind::block || std::ranges::any_of(node.bodies, marks_generation);
  });
}

Rendered rendered(const std::vector<Node>& nodes, const Value& variables) {
  Renderer renderer(variables);
  renderer.render(nodes);
  return renderer.take();
}

}  // namespace shardwright::jinja

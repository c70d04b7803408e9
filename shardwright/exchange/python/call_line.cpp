#include "shardwright/exchange/python/call_line.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <ranges>

#include "shardwright/base/index.h"
#include "shardwright/base/text.h"

namespace shardwright {
namespace {

std::string python_number(double value) {
  if (std::isinf(value)) return value > 0 ? "math.inf" : "-math.inf";
  if (std::isnan(value)) return "math.nan";
  if (value == std::floor(value) && std::abs(value) < 1e15) return fmt::format("{:.1f}", value);
  return fmt::format("{}", value);  // the shortest that is the same number
}

std::string python_quoted(std::string_view text) {
  std::string out = "'";
  for (char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

template <class T>
bool all_equal(const std::vector<T>& values) {
  return std::ranges::all_of(values, [&](const T& v) { return v == values.front(); });
}

/// The axes along which a value that each rank has differs.
Axes axes_that_matter(const std::vector<std::string>& of_ranks, const Mesh& mesh) {
  Axes out;
  for (int axis = 0; axis < mesh.axis_count(); ++axis) {
    int stride = 1;
    for (int a = axis + 1; a < mesh.axis_count(); ++a) stride *= mesh.size_of(a);
    const bool matters = std::ranges::any_of(std::views::iota(0, mesh.size()), [&](int r) {
      return (r / stride) % mesh.size_of(axis) > 0 && of_ranks[at(r)] != of_ranks[at(r - stride)];
    });
    if (matters) out.push_back(axis);
  }
  return out;
}

/// `dp`, `dp * 2 + tp`
std::string index_text(const Axes& axes, const Mesh& mesh) {
  std::string out;
  for (int a : axes) {
    const std::string name = mesh.axes[at(a)].name;
    if (out.empty())
      out = name;
    else
      out = fmt::format("{} * {} + {}", out.find('+') == out.npos ? out : "(" + out + ")", mesh.size_of(a),
                        name);
  }
  return out;
}

/// `16 * tp` where values go up in equal steps.
std::optional<std::string> as_product(const std::vector<std::string>& values, const std::string& index) {
  std::vector<std::int64_t> numbers;
  for (const std::string& text : values) {
    const auto number = to_integer(text);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  const std::int64_t step = numbers[1] - numbers[0];
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (numbers[i] != numbers[0] + static_cast<std::int64_t>(i) * step) return std::nullopt;
  const std::string factor = index.find(' ') == index.npos ? index : "(" + index + ")";
  const std::string product = step == 1 ? factor : fmt::format("{} * {}", step, factor);
  return numbers[0] == 0 ? product : fmt::format("{} + {}", numbers[0], product);
}

/// `[1, 2]`, in JAX `(1, 2)`
std::string list_text(const std::vector<std::string>& elements, Engine engine) {
  const std::string inside = join(elements, ", ");
  if (engine == Engine::torch) return "[" + inside + "]";
  return elements.size() == 1 ? "(" + inside + ",)" : "(" + inside + ")";
}

std::string dtype_text(DType dtype, Engine engine) {
  return engine == Engine::torch ? torch_dtype(dtype) : jax_dtype(dtype);
}

/// What stands at one place on every rank.
class Place {
 public:
  Place(const TorchCall& call, std::string_view name, Engine engine)
      : call_(call), name_(name), engine_(engine) {}

  std::string text() const {
    if (name_ == "*") return join(call_.operands, ", ");
    if (const auto number = to_integer(name_)) return call_.operands.at(at(*number));
    if (name_ == "in_place") return engine_ == Engine::torch && call_.is_in_place ? "_in_place" : "";
    if (name_ == "dtype") return dtype_text(call_.whole.results[0].dtype, engine_);
    if (name_ == "shape") return lists([](const KernelCall& c) { return c.results[0].shape; });
    if (const std::size_t dot = name_.find('.'); dot != name_.npos)
      return of_loop(name_.substr(0, dot), name_.substr(dot + 1));
    return of_attribute();
  }

 private:
  template <class F>
  std::vector<std::string> texts(F f) const {
    std::vector<std::string> out;
    for (int r = 0; r < call_.mesh.size(); ++r) out.push_back(f(call_.on_rank(r)));
    return out;
  }
  template <class F>
  std::string lists(F f) const {
    std::vector<std::vector<std::int64_t>> out;
    for (int r = 0; r < call_.mesh.size(); ++r) out.push_back(f(call_.on_rank(r)));
    return by_rank(out, call_.mesh, engine_);
  }

  std::string of_loop(std::string_view loop, std::string_view what) const {
    return by_rank(texts([&](const KernelCall& c) {
                     const LoopBox::Part& part = c.loop(loop);
                     require(what == "offset" || what == "extent" || what == "size", "{} of a loop", what);
                     return fmt::format("{}", what == "offset"   ? part.offset
                                              : what == "extent" ? part.extent
                                                                 : part.size);
                   }),
                   call_.mesh, engine_);
  }

  /// The call's number, its attribute, or the attribute's default.
  Attribute value_on(const KernelCall& c) const {
    if (call_.op.torch.numbers) {
      const Attributes numbers = call_.op.torch.numbers(c);
      if (const Attribute* a = numbers.find(name_)) return *a;
    }
    if (const Attribute* a = c.attributes.find(name_)) return *a;
    const Attributes known = with_defaults(call_.op, call_.whole);
    const Attribute* a = known.find(name_);
    require(a != nullptr, "{} has nothing that is called {}", call_.op.name, name_);
    return *a;
  }

  std::string of_attribute() const {
    const Attribute first = value_on(call_.on_rank(0));
    if (const auto* text = std::get_if<std::string>(&first)) {
      const auto dtype = dtype_of(*text);
      return dtype && name_ != "name" ? dtype_text(*dtype, engine_) : python_quoted(*text);
    }
    if (!std::holds_alternative<std::vector<std::int64_t>>(first))
      return by_rank(texts([&](const KernelCall& c) { return python_literal(value_on(c)); }), call_.mesh,
                     engine_);
    return lists([&](const KernelCall& c) { return std::get<std::vector<std::int64_t>>(value_on(c)); });
  }

  const TorchCall& call_;
  std::string_view name_;
  Engine engine_;
};

std::string filled(const TorchCall& call, std::string_view line, Engine engine,
                   const TorchCall* next = nullptr) {
  constexpr std::string_view of_next = "other.";
  std::string out;
  for (std::size_t i = 0; i < line.size();) {
    if (line[i] != '{') {
      out += line[i++];
      continue;
    }
    const std::size_t end = line.find('}', i);
    require(end != line.npos, "a place in '{}' does not end", line);
    const std::string_view place = line.substr(i + 1, end - i - 1);
    out += next && place.starts_with(of_next) ? Place(*next, place.substr(of_next.size()), engine).text()
                                              : Place(call, place, engine).text();
    i = end + 1;
  }
  return out;
}

/// Whether it is Python that no engine alone has.
bool names_torch(std::string_view text) {
  return std::ranges::any_of(std::array<std::string_view, 3>{"torch.", "F.", "aten."},
                             [&](std::string_view word) { return text.find(word) != text.npos; });
}

}  // namespace

std::string python_literal(const Attribute& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "True" : "False";
  if (const auto* text = std::get_if<std::string>(&value)) return python_quoted(*text);
  if (const auto* number = std::get_if<double>(&value)) return python_number(*number);
  return to_text(value);
}

std::string short_dtype(DType dtype) {
  switch (dtype) {
    case DType::f64: return "float64";
    case DType::f32: return "float32";
    case DType::f16: return "float16";
    case DType::bf16: return "bfloat16";
    case DType::i64: return "int64";
    case DType::i32: return "int32";
    case DType::u8: return "uint8";
    case DType::boolean: break;
  }
  return "bool";
}

std::string torch_dtype(DType dtype) { return "torch." + short_dtype(dtype); }

std::string jax_dtype(DType dtype) {
  return "jnp." + (dtype == DType::boolean ? "bool_" : short_dtype(dtype));
}

std::string by_rank(std::vector<std::string> of_ranks, const Mesh& mesh, Engine engine) {
  require(of_ranks.size() == at(mesh.size()), "{} values for {} ranks", of_ranks.size(), mesh.size());
  if (all_equal(of_ranks)) return of_ranks.front();
  const Axes axes = axes_that_matter(of_ranks, mesh);
  std::vector<std::string> values(at(mesh.count(axes)));
  for (int r = 0; r < mesh.size(); ++r) values[at(mesh.index_along(r, axes))] = of_ranks[at(r)];
  const std::string index = index_text(axes, mesh);
  const bool is_table = engine == Engine::jax;  // coordinates are no numbers of Python there
  const std::string table =
      is_table ? fmt::format("jnp.array([{}])", join(values, ", ")) : fmt::format("({})", join(values, ", "));
  return as_product(values, index).value_or(fmt::format("{}[{}]", table, index));
}

std::string by_rank(const std::vector<std::vector<std::int64_t>>& of_ranks, const Mesh& mesh, Engine engine) {
  const bool are_alike =
      std::ranges::all_of(of_ranks, [&](const auto& l) { return l.size() == of_ranks[0].size(); });
  if (!are_alike) {
    std::vector<std::string> lists;
    for (const auto& list : of_ranks) lists.push_back(python_literal(list));
    return by_rank(std::move(lists), mesh, engine);
  }
  std::vector<std::string> elements;
  for (std::size_t i = 0; i < of_ranks[0].size(); ++i) {
    std::vector<std::string> texts;
    for (const auto& list : of_ranks) texts.push_back(fmt::format("{}", list[i]));
    elements.push_back(by_rank(std::move(texts), mesh, engine));
  }
  return list_text(elements, engine);
}

std::string torch_line(const TorchCall& call) {
  const TorchFacet& facet = call.op.torch;
  const Attributes known = with_defaults(call.op, call.whole);
  const Call complete{call.whole.operands, call.whole.results, known};
  const std::string line = facet.line_for ? facet.line_for(complete) : facet.line;
  if (line.empty()) throw error("{} is not written in PyTorch yet", call.op.name);
  return filled(call, line, Engine::torch);
}

std::string joint_line(const JointForm& form, const TorchCall& call, const TorchCall& next) {
  return filled(call, form.line, Engine::torch, &next);
}

std::string jax_line(const TorchCall& call) {
  const JaxFacet& facet = call.op.jax;
  const TorchFacet& otherwise = call.op.torch;
  const Attributes known = with_defaults(call.op, call.whole);
  const Call complete{call.whole.operands, call.whole.results, known};
  std::string line = facet.line_for ? facet.line_for(complete) : facet.line;
  if (line.empty()) line = otherwise.line_for ? otherwise.line_for(complete) : otherwise.line;
  if (line.empty() || names_torch(line)) throw error("{} is not written in JAX yet", call.op.name);
  return filled(call, line, Engine::jax);
}

std::string_view jax_functions(const OpDef& op) {
  if (!op.jax.functions.empty() || names_torch(op.torch.functions)) return op.jax.functions;
  return op.torch.functions;
}

std::vector<std::pair<std::string, std::string>> python_functions(std::string_view source) {
  std::vector<std::pair<std::string, std::string>> out;
  constexpr std::string_view begin = "def ";
  for (std::string_view line : split(source, '\n')) {
    if (line.starts_with(begin))
      out.emplace_back(line.substr(begin.size(), line.find('(') - begin.size()), "");
    if (!out.empty()) out.back().second += fmt::format("{}\n", line);
  }
  for (auto& [name, text] : out) text = std::string(trim(text)) + "\n";
  return out;
}

}  // namespace shardwright

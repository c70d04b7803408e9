#include "shardwright/layout/rule.h"

#include <algorithm>
#include <unordered_map>

#include "shardwright/base/error.h"

namespace shardwright {
namespace {

constexpr std::int64_t unknown = -1;

/// One tensor dim as written: its loop dims, or `...`.
struct DimText {
  std::vector<std::string> names;
  bool is_ellipsis = false;
  std::string window = "";
};
using TensorText = std::vector<DimText>;

struct SideText {
  std::vector<TensorText> tensors;
  std::vector<bool> is_sharded;
};

struct RuleText {
  SideText operands, results;
  std::vector<std::vector<int>> linear;
};

/// Which tensor of a call.
struct Place {
  bool is_result = false;
  std::size_t index = 0;
};
std::string called(const Place& p) {
  return fmt::format("{} {}", p.is_result ? "result" : "operand", p.index);
}

bool is_blank(char c) { return c == ' '; }

TensorText read_tensor(std::string_view text) {
  TensorText dims;
  std::size_t i = 0;
  const auto word = [&] {
    const std::size_t start = i;
    while (i < text.size() && !is_blank(text[i]) && text[i] != ')' && text[i] != '(' && text[i] != '~') ++i;
    return std::string(text.substr(start, i - start));
  };
  const auto window = [&] {
    const std::size_t start = i;
    if (i < text.size() && text[i] == '~') i = std::min(text.find(')', i), text.size() - 1) + 1;
    return std::string(text.substr(start, i - start));
  };
  while (i < text.size()) {
    if (is_blank(text[i])) {
      ++i;
    } else if (text[i] == '(') {
      ++i;
      DimText dim;
      while (i < text.size() && text[i] != ')') {
        if (is_blank(text[i]))
          ++i;
        else
          dim.names.push_back(word());
      }
      ++i;
      dims.push_back(std::move(dim));
    } else {
      std::string w = word();
      if (w == "...")
        dims.push_back({{}, true});
      else if (w == "1")
        dims.push_back({{}, false});
      else
        dims.push_back({{std::move(w)}, false, window()});
    }
  }
  return dims;
}

SideText read_side(std::string_view text) {
  SideText side;
  if (trim(text).empty()) return side;
  for (std::string_view part : split(text, ',')) {
    const bool is_sharded = trim(part) != "?";
    side.is_sharded.push_back(is_sharded);
    side.tensors.push_back(is_sharded ? read_tensor(trim(part)) : TensorText{});
    // `.` stands for a scalar, which has no dims to name.
    if (trim(part) == ".") side.tensors.back().clear();
  }
  return side;
}

std::vector<std::vector<int>> read_groups(std::string_view text) {
  std::vector<std::vector<int>> groups;
  Scanner in(text, "linear groups");
  while (in.accept("{")) {
    auto& group = groups.emplace_back();
    do group.push_back(static_cast<int>(in.integer("an operand")));
    while (in.accept(","));
    in.expect("}");
  }
  return groups;
}

RuleText read_rule(std::string_view text, std::string_view linear) {
  const std::size_t arrow = text.find("->");
  require(arrow != std::string_view::npos, "rule '{}' has no ->", text);
  return {read_side(text.substr(0, arrow)), read_side(text.substr(arrow + 2)), read_groups(linear)};
}

/// The same, read once: graphs bind few rules to many shapes. Valid until the next call.
const RuleText& known_rule(std::string_view text, std::string_view linear) {
  thread_local std::unordered_map<std::string, RuleText> known;
  constexpr std::size_t most = 4096;  // windows make texts of their own
  std::string key(text);
  key.append(1, '\n').append(linear);
  if (const auto it = known.find(key); it != known.end()) return it->second;
  if (known.size() >= most) known.clear();
  return known.emplace(std::move(key), read_rule(text, linear)).first->second;
}

std::size_t plain_dims(const TensorText& tensor) {
  return static_cast<std::size_t>(
      std::count_if(tensor.begin(), tensor.end(), [](const DimText& d) { return !d.is_ellipsis; }));
}

bool has_ellipsis(const TensorText& tensor) { return plain_dims(tensor) != tensor.size(); }

class Binder {
 public:
  explicit Binder(Rule& rule) : rule_(rule) {}

  int loop(std::string_view word) {
    LoopKind kind = LoopKind::plain;
    if (word.back() == '+') kind = LoopKind::sum;
    if (word.back() == '>') kind = LoopKind::max;
    if (word.back() == '^') kind = LoopKind::whole;
    if (word.back() == '*') kind = LoopKind::expandable;
    if (word.back() == '@') kind = LoopKind::round;
    if (kind != LoopKind::plain) word.remove_suffix(1);
    int at = rule_.loop(word);
    if (at < 0) {
      at = static_cast<int>(rule_.loops.size());
      rule_.loops.push_back({std::string(word), unknown, LoopKind::plain});
    }
    if (kind != LoopKind::plain) rule_.loops[static_cast<std::size_t>(at)].kind = kind;
    return at;
  }

  RuleTensor tensor(const TensorText& text, std::size_t ellipsis, bool is_sharded) {
    RuleTensor out;
    out.is_sharded = is_sharded;
    for (const DimText& dim : text) {
      if (dim.is_ellipsis) {
        for (std::size_t i = 0; i < ellipsis; ++i) out.dims.push_back({loop(fmt::format("i{}", i))});
      } else {
        std::vector<int> loops;
        for (const std::string& n : dim.names) loops.push_back(loop(n));
        out.dims.push_back(std::move(loops));
        if (!dim.window.empty()) add_window(out, dim.window);
      }
    }
    if (!out.windows.empty()) out.windows.resize(out.dims.size());
    return out;
  }

  /// Reads `~(num den low high)`, maybe `round`; the loop's size is set once it is known.
  static void add_window(RuleTensor& tensor, std::string_view text) {
    Scanner in(text, "window");
    Window w{.loop = 1};
    in.expect("~");
    in.expect("(");
    for (std::int64_t* n : {&w.num, &w.den, &w.low, &w.high}) *n = in.integer("a number");
    w.goes_round = in.accept("round");
    in.expect(")");
    tensor.windows.resize(tensor.dims.size());
    tensor.windows.back() = w;
  }

  /// Learns loop sizes from one tensor's shape.
  void learn(const RuleTensor& tensor, const Shape& shape, const Place& who) {
    if (!tensor.is_sharded) return;
    if (tensor.dims.size() != shape.size())
      throw error("{} {} has {} dims but should have {}", called(who), to_text(shape), shape.size(),
                  tensor.dims.size());
    for (std::size_t d = 0; d < shape.size(); ++d)
      if (tensor.windows.empty() || tensor.windows[d].loop == 0) learn_dim(tensor.dims[d], shape[d], who);
  }

  /// Deduces sizes that stand only in groups: in `a, (a b) c` with a known, b follows. True if any was.
  bool deduce(const RuleTensor& tensor, const Shape& shape) {
    bool is_any = false;
    for (std::size_t d = 0; tensor.is_sharded && d < shape.size(); ++d) {
      std::int64_t known = 1;
      LoopDim* missing = nullptr;
      int missing_count = 0;
      for (int l : tensor.dims[d]) {
        LoopDim& dim = rule_.loops[static_cast<std::size_t>(l)];
        if (dim.size != unknown) known *= dim.size;
        if (dim.size == unknown) missing = &dim, ++missing_count;
      }
      if (missing_count != 1 || known == 0 || shape[d] % known != 0) continue;
      missing->size = shape[d] / known;
      is_any = true;
    }
    return is_any;
  }

 private:
  void learn_dim(const std::vector<int>& loops, std::int64_t size, const Place& who) {
    if (loops.empty()) {
      if (size != 1) throw error("{} has a dim of {} where 1 is needed", called(who), size);
    } else if (loops.size() == 1) {
      LoopDim& l = rule_.loops[static_cast<std::size_t>(loops[0])];
      if (l.size == unknown) {
        l.size = size;
        seen_in_.resize(rule_.loops.size());
        seen_in_[static_cast<std::size_t>(loops[0])] = who;
      } else if (l.size != size) {
        throw error("dim {} is {} in {} but {} in {}", l.name, l.size,
                    called(seen_in_[static_cast<std::size_t>(loops[0])]), size, called(who));
      }
    }
  }

  Rule& rule_;
  std::vector<Place> seen_in_;
};

std::int64_t product(const Rule& rule, const std::vector<int>& loops) {
  std::int64_t n = 1;
  for (int l : loops) n *= rule.loops[static_cast<std::size_t>(l)].size;
  return n;
}

/// Windows that read exactly their part of the dim are none; but of an uneven part they would read another.
void settle_windows(const Rule& rule, RuleTensor& tensor, const Shape& shape) {
  bool is_any = false;
  for (std::size_t d = 0; d < tensor.windows.size(); ++d) {
    Window& w = tensor.windows[d];
    if (w.loop == 0) continue;
    w.loop = rule.loops[static_cast<std::size_t>(tensor.dims[d].front())].size;
    const bool is_plain = w.den == 1 && w.low == 0 && w.high < w.num && w.num * w.loop == shape[d];
    if (is_plain) w = {};
    is_any = is_any || !is_plain;
  }
  if (!tensor.windows.empty()) tensor.shape = shape;
  if (!is_any) tensor.windows.clear();
}

}  // namespace

int Rule::loop(std::string_view name) const {
  for (std::size_t i = 0; i < loops.size(); ++i)
    if (loops[i].name == name) return static_cast<int>(i);
  return -1;
}

Rule bind_rule(std::string_view text, std::string_view linear, std::span<const Shape> operands,
               std::span<const Shape> results) {
  const auto& [left, right, groups] = known_rule(text, linear);
  if (left.tensors.size() != operands.size())
    throw error("has {} operands but takes {}", operands.size(), left.tensors.size());

  std::size_t ellipsis = 0;
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (has_ellipsis(left.tensors[i]) && operands[i].size() > plain_dims(left.tensors[i]))
      ellipsis = std::max(ellipsis, operands[i].size() - plain_dims(left.tensors[i]));
  for (std::size_t i = 0; i < results.size() && i < right.tensors.size(); ++i)
    if (has_ellipsis(right.tensors[i]) && results[i].size() > plain_dims(right.tensors[i]))
      ellipsis = std::max(ellipsis, results[i].size() - plain_dims(right.tensors[i]));

  Rule rule;
  Binder binder(rule);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    rule.operands.push_back(binder.tensor(left.tensors[i], ellipsis, left.is_sharded[i]));
    if (!left.is_sharded[i]) rule.operands[i].dims.resize(operands[i].size());
  }
  for (std::size_t i = 0; i < right.tensors.size(); ++i)
    rule.results.push_back(binder.tensor(right.tensors[i], ellipsis, right.is_sharded[i]));
  for (std::size_t i = 0; i < operands.size(); ++i) binder.learn(rule.operands[i], operands[i], {false, i});
  for (std::size_t i = 0; i < results.size() && i < rule.results.size(); ++i)
    binder.learn(rule.results[i], results[i], {true, i});
  for (bool is_any = true; is_any;) {
    is_any = false;
    for (std::size_t i = 0; i < operands.size(); ++i) is_any |= binder.deduce(rule.operands[i], operands[i]);
    for (std::size_t i = 0; i < results.size() && i < rule.results.size(); ++i)
      is_any |= binder.deduce(rule.results[i], results[i]);
  }
  for (const LoopDim& l : rule.loops)
    require(l.size != unknown, "rule '{}': size of {} is unknown", text, l.name);
  for (std::size_t i = 0; i < operands.size(); ++i) settle_windows(rule, rule.operands[i], operands[i]);

  const auto check_groups = [&](const RuleTensor& t, const Shape& shape, std::string_view side,
                                std::size_t i) {
    for (std::size_t d = 0; t.is_sharded && d < shape.size(); ++d)
      if (t.dims[d].size() > 1 && product(rule, t.dims[d]) != shape[d])
        throw error("dim {} of {} {} is {} but {} is needed", d, side, i, shape[d], product(rule, t.dims[d]));
  };
  for (std::size_t i = 0; i < operands.size(); ++i) check_groups(rule.operands[i], operands[i], "operand", i);
  for (std::size_t i = 0; i < results.size(); ++i) check_groups(rule.results[i], results[i], "result", i);
  rule.linear = groups;
  return rule;
}

std::vector<Shape> result_shapes(const Rule& rule) {
  std::vector<Shape> out;
  for (const RuleTensor& t : rule.results) {
    Shape shape;
    for (const auto& loops : t.dims) shape.push_back(product(rule, loops));
    out.push_back(std::move(shape));
  }
  return out;
}

}  // namespace shardwright

// The same elements in the same order under another shape. No data moves.
//
// The rule is told by the two shapes. In row-major order a dim boundary is a number of equal parts into which
// the leading dims cut the tensor: [4,6] has 4 and 24. The boundaries of both shapes together, as long as
// each divides the next, are the loop dims: [4,6] -> [8,3] has 4, 8, 24, thus `i0 (i1 i2) -> (i0 i1) i2` of
// sizes 4, 2, 3. From the first that does not divide up to where both shapes have a boundary again, dims
// stay whole: [6,4] -> [4,6] is `i0^ i3^ -> i1^ i2^`.

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

#include "shardwright/graph/builder.h"
#include "shardwright/ops/dims.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops {
namespace {

/// Writes one side's dims as the loop dims between its boundaries.
class RuleWriter {
 public:
  RuleWriter(const Shape& from, const Shape& to) : shapes_{&from, &to} {
    for (auto& side : text_) side.resize(2);
    text_[0].assign(from.size(), "");
    text_[1].assign(to.size(), "");
  }

  std::string write() {
    while (skip_ones(0), skip_ones(1), dim_[0] < shapes_[0]->size() && dim_[1] < shapes_[1]->size())
      if (left(0) % left(1) == 0 || left(1) % left(0) == 0)
        share(std::min(left(0), left(1)));
      else
        keep_whole();
    return fmt::format("{} -> {}", side_text(0), side_text(1));
  }

 private:
  /// What is left of the current dim of a side after the loop dims written so far.
  std::int64_t left(std::size_t side) const { return (*shapes_[side])[dim_[side]] / done_[side]; }

  void skip_ones(std::size_t side) {
    for (; dim_[side] < shapes_[side]->size() && (*shapes_[side])[dim_[side]] == 1; ++dim_[side])
      text_[side][dim_[side]] = "1";
  }

  void append(std::size_t side, const std::string& loop) {
    std::string& dim = text_[side][dim_[side]];
    dim += dim.empty() ? loop : " " + loop;
  }

  /// Passes `size` parts of the current dim.
  void advance(std::size_t side, std::int64_t size) {
    done_[side] *= size;
    if (done_[side] < (*shapes_[side])[dim_[side]]) return;
    done_[side] = 1;
    ++dim_[side];
    skip_ones(side);
  }

  void share(std::int64_t size) {
    const std::string loop = loop_name(loops_++);
    for (std::size_t side : {0, 1}) {
      append(side, loop);
      advance(side, size);
    }
  }

  /// Marks dims whole until both sides have passed equally many elements.
  void keep_whole() {
    std::int64_t passed[2] = {1, 1};
    do {
      const std::size_t side = passed[0] <= passed[1] ? 0 : 1;
      passed[side] *= left(side);
      append(side, loop_name(loops_++, "^"));
      advance(side, left(side));
    } while (passed[0] != passed[1]);
  }

  std::string side_text(std::size_t side) const {
    std::vector<std::string> dims;
    for (const std::string& d : text_[side])
      dims.push_back(d.find(' ') == std::string::npos ? d : "(" + d + ")");
    return tensor_text(dims);
  }

  const Shape* shapes_[2];
  std::vector<std::string> text_[2];  // per side and dim the loop dims, separated by blanks
  std::size_t dim_[2] = {0, 0};
  std::int64_t done_[2] = {1, 1};
  std::size_t loops_ = 0;
};

std::string rule_between(const Shape& from, const Shape& to) {
  if (element_count(from) > 0) return RuleWriter(from, to).write();
  std::size_t loops = 0;
  const auto whole = [&](const Shape& shape) {
    std::vector<std::string> dims(shape.size());
    std::generate(dims.begin(), dims.end(), [&] { return loop_name(loops++, "^"); });
    return tensor_text(dims);
  };
  const std::string left = whole(from);
  return fmt::format("{} -> {}", left, whole(to));
}

std::vector<Type> infer_reshape(const Call& call) {
  check_count(call, 1);
  const Type& x = call.operands[0];
  Shape shape = call.attributes.integers("shape");
  if (element_count(shape) != element_count(x.shape))
    throw error("{} has {} elements but shape={} has {}", to_text(x), element_count(x.shape), to_text(shape),
                element_count(shape));
  return {{x.dtype, std::move(shape)}};
}

std::vector<Type> infer_flatten(const Call& call) {
  check_count(call, 1);
  const Type& x = call.operands[0];
  const std::size_t start = dim_of(call.attributes.integer("start", 1), x.shape);
  const auto first = x.shape.begin() + static_cast<std::ptrdiff_t>(start);
  Shape shape(x.shape.begin(), first);
  shape.push_back(std::accumulate(first, x.shape.end(), std::int64_t{1}, std::multiplies<>()));
  return {{x.dtype, std::move(shape)}};
}

/// Per dim of `shape` whether `dims` names it. Throws: Error if there are none or one is named twice.
std::vector<bool> named_dims(const Attributes& attributes, const Shape& shape) {
  const std::vector<std::int64_t> dims = attributes.integers("dims");
  std::vector<bool> named(shape.size());
  for (std::int64_t d : dims) {
    if (named[dim_of(d, shape)]) throw error("dims={} names dim {} twice", to_text(dims), d);
    named[dim_of(d, shape)] = true;
  }
  if (dims.empty()) throw error("dims should say which; write for example (dims=[0])");
  return named;
}

std::vector<Type> infer_squeeze(const Call& call) {
  check_count(call, 1);
  const Type& x = call.operands[0];
  const std::vector<bool> goes = named_dims(call.attributes, x.shape);
  Type y{x.dtype, {}};
  for (std::size_t d = 0; d < x.shape.size(); ++d) {
    if (goes[d] && x.shape[d] != 1) throw error("dim {} of {} is {} and not 1", d, to_text(x), x.shape[d]);
    if (!goes[d]) y.shape.push_back(x.shape[d]);
  }
  return {y};
}

/// `dims` are those of the result.
std::vector<Type> infer_expand_dims(const Call& call) {
  check_count(call, 1);
  const Type& x = call.operands[0];
  Type y{x.dtype, Shape(x.shape.size() + call.attributes.integers("dims").size(), 1)};
  const std::vector<bool> comes = named_dims(call.attributes, y.shape);
  for (std::size_t d = 0, from = 0; d < y.shape.size(); ++d)
    if (!comes[d]) y.shape[d] = x.shape[from++];
  return {y};
}

std::vector<ValueId> gradient(Gradient& g) {
  return {g.call("reshape", {g.dy()}, {{"shape", g.type(g.in(0)).shape}})};
}

void kernel(const KernelCall& call) {
  const TensorView &x = call.operands[0], &y = call.results[0];
  require(x.size() == y.size(), "reshape of {} to {}", to_text(x.shape), to_text(y.shape));
  if (x.data != y.data && x.size() > 0)
    std::memcpy(y.data, x.data, static_cast<std::size_t>(x.size()) * size_of(x.dtype));
}

/// The result's shape, where it is known already, counts more than the attributes, which may be local.
std::function<std::string(const Call&)> rule_with(std::vector<Type> (*infer)(const Call&)) {
  return [infer](const Call& call) {
    const std::vector<Type> results = call.results.empty() ? infer(call) : std::vector{call.results[0]};
    return rule_between(call.operands[0].shape, results[0].shape);
  };
}

}  // namespace

std::vector<OpDef> reshape() {
  return {{.name = "reshape",
           .doc = "the elements of x in the same order, as `shape`",
           .attributes = {"shape"},
           .rule_for = rule_with(infer_reshape),
           .linear = "{0}",
           .infer = infer_reshape,
           .gradient = gradient,
           .localize =
               [](const Call& local) {
                 Attributes a = local.attributes;
                 a.set("shape", local.results[0].shape);
                 return a;
               },
           .kernel = kernel,
           .samples = {"f32[4,6] (shape=[24])", "f32[6,12] (shape=[6,3,4])", "f32[4,6] (shape=[8,3])",
                       "f32[6,4] (shape=[4,6])", "f32[2,6,4] (shape=[12,1,4])", "f32[] (shape=[1,1])",
                       "f32[2,9,2] (shape=[4,9])"},
           .is_alias = true,
           .torch = {.line = "{0}.reshape({shape})", .may_share = true}},
          {.name = "flatten",
           .doc = "dims from `start` on made into one",
           .attributes = {"start"},
           .defaults = {{"start", std::int64_t{1}}},
           .rule_for = rule_with(infer_flatten),
           .linear = "{0}",
           .infer = infer_flatten,
           .gradient = gradient,
           .kernel = kernel,
           .samples = {"f32[4,6,2]", "f32[2,6,2] (start=0)"},
           .is_alias = true,
           .torch = {.line = "{0}.reshape({shape})", .may_share = true}},
          {.name = "squeeze",
           .doc = "x without the dims `dims`, which are of size 1",
           .attributes = {"dims"},
           .rule_for = rule_with(infer_squeeze),
           .linear = "{0}",
           .infer = infer_squeeze,
           .gradient = gradient,
           .kernel = kernel,
           .samples = {"f32[4,1,6] (dims=[1])", "f32[1,6,1] (dims=[-1,0])"},
           .is_alias = true,
           .torch = {.line = "{0}.reshape({shape})", .may_share = true}},
          {.name = "expand_dims",
           .doc = "x with dims of size 1 put in, so that they are dims `dims` of y",
           .attributes = {"dims"},
           .rule_for = rule_with(infer_expand_dims),
           .linear = "{0}",
           .infer = infer_expand_dims,
           .gradient = gradient,
           .kernel = kernel,
           .samples = {"f32[4,6] (dims=[1])", "f32[6] (dims=[0,-1])"},
           .is_alias = true,
           .torch = {.line = "{0}.reshape({shape})", .may_share = true}}};
}

}  // namespace shardwright::ops

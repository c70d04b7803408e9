// y = f(x), where f is a function from outside: what a user's program does with a value between two operators, such as a
// collective among processes each of which runs a program of its own. The library knows neither what f does nor what it
// waits for: it is called where the plan has it, on a whole tensor, and no proof covers it.
//
// dx = g(dy): f is linear, or g knows what else it needs.

#include "shardwright/ops/call_back.h"

#include <cstring>
#include <deque>
#include <mutex>

#include "shardwright/graph/builder.h"
#include "shardwright/ops/dims.h"
#include "shardwright/ops/types.h"

namespace shardwright {
namespace {

struct Functions {
  std::mutex mutex;
  std::deque<CalledBack> all{[](const TensorView& x, const TensorView& y) {
    std::memcpy(y.data, x.data, static_cast<std::size_t>(y.size()) * size_of(y.dtype));
  }};
};
Functions& functions() {
  static Functions of_process;
  return of_process;
}

/// Of the attribute called `name`. Throws: Error if there is no such function.
const CalledBack& function_of(const Attributes& attributes, std::string_view name) {
  Functions& f = functions();
  const std::int64_t number = attributes.integer(name, 0);
  const std::lock_guard lock(f.mutex);
  if (number < 0 || number >= static_cast<std::int64_t>(f.all.size()))
    throw error("{} is number {}, but the functions are 0 to {}", name, number, f.all.size() - 1);
  return f.all[static_cast<std::size_t>(number)];
}

}  // namespace

std::int64_t add_call_back(CalledBack function) {
  Functions& f = functions();
  const std::lock_guard lock(f.mutex);
  f.all.push_back(std::move(function));
  return static_cast<std::int64_t>(f.all.size()) - 1;
}

namespace ops {
namespace {

std::vector<Type> infer(const Call& call) {
  check_count(call, 1);
  for (const char* which : {"function", "gradient"}) function_of(call.attributes, which);
  Type out = call.operands[0];
  if (call.attributes.find("shape")) {
    out.shape = call.attributes.integers("shape");
    element_count(out.shape);  // none is negative
  }
  if (call.attributes.integer("function", 0) == 0 && out != call.operands[0])
    throw error("function 0 copies, but {} shall become {}", to_text(call.operands[0]), to_text(out));
  return {std::move(out)};
}

/// All of it on each rank.
std::string rule(const Call& call) {
  std::vector<std::string> to;
  for (std::size_t d = 0; d < infer(call)[0].shape.size(); ++d) to.push_back(loop_name(d, "^"));
  return fmt::format("? -> {}", tensor_text(to));
}

std::vector<ValueId> gradient(Gradient& g) {
  Attributes back = g.attributes();
  back.set("function", g.attributes().integer("gradient", 0));
  back.set("gradient", g.attributes().integer("function", 0));
  back.set("shape", g.type(g.in(0)).shape);
  return {g.call("call_back", {g.dy()}, std::move(back))};
}

void kernel(const KernelCall& call) {
  function_of(call.attributes, "function")(call.operands[0], call.results[0]);
}

}  // namespace

std::vector<OpDef> call_back() {
  return {{
      .name = "call_back",
      .doc = "y = f(x), a function from outside by its number, with another for its gradient; 0 copies",
      .attributes = {"function", "gradient", "shape"},
      .rule_for = rule,
      .linear_for = [](const Call& call) { return call.attributes.integer("function", 0) ? "" : "{0}"; },
      .infer = infer,
      .gradient = gradient,
      .kernel = kernel,
      .samples = {"f32[4,6]", "f32[6] (function=0, gradient=0, shape=[6])"},
  }};
}

}  // namespace ops
}  // namespace shardwright

#include "shardwright/exchange/recipe_words.h"

#include "shardwright/base/index.h"
#include "shardwright/base/text.h"
#include "shardwright/plan/constraints.h"

namespace shardwright {
namespace {

constexpr std::int64_t most = 1LL << 40;

/// `96 or 128`: the multiples of `step` beside `n`.
std::string near_multiples(std::int64_t n, std::int64_t step) {
  const std::int64_t below = n / step * step;
  return below == 0 ? fmt::format("{}", step) : fmt::format("{} or {}", below, below + step);
}

}  // namespace

std::string product_text(const std::vector<Keyed>& factors) {
  std::vector<std::string> out;
  for (const Keyed& f : factors) out.push_back(fmt::format("{} {}", f.key, f.value));
  return join(out, " x ");
}

std::int64_t product_of(const std::vector<Keyed>& factors) {
  std::int64_t out = 1;
  for (const Keyed& f : factors) {
    if (f.value < 1) throw error("{} {}: should be an integer from 1 on", f.key, f.value);
    if (out > most / f.value) throw error("{} is more than any cluster has", product_text(factors));
    out *= f.value;
  }
  return out;
}

std::int64_t data_degree(int devices, const std::vector<Keyed>& others) {
  const std::int64_t product = product_of(others);
  if (devices % product == 0) return devices / product;
  if (others.size() == 1)
    throw error("{}: does not divide the {} devices of the cluster; {} would do", product_text(others),
                devices, near_multiples(devices, product));
  throw error("{} = {}: does not divide the {} devices of the cluster; {} would do", product_text(others),
              product, devices, near_multiples(devices, product));
}

void check_there_is(std::string_view degree, const Keyed& said) {
  for (const DegreeKind& kind : degree_kinds)
    if (kind.name == degree && !kind.missing.empty() && said.value > 1)
      throw error("{} {}: there is no {} parallelism yet, so it can only be 1", said.key, said.value,
                  kind.missing);
}

std::int64_t micro_batches_of(const Keyed& global, const Keyed& micro, std::int64_t data) {
  const std::vector<Keyed> factors{micro, {"data parallelism", data}};
  const std::int64_t at_once = product_of(factors);
  if (global.value % at_once)
    throw error("{} {}: should be a multiple of {} = {}; {} would be", global.key, global.value,
                product_text(factors), at_once, near_multiples(global.value, at_once));
  return global.value / at_once;
}

void check_product(const Keyed& total, const std::vector<Keyed>& factors) {
  const std::int64_t product = product_of(factors);
  if (total.value != product)
    throw error("{} is {}, but {} = {}", total.key, total.value, product_text(factors), product);
}

std::string context_of(std::int64_t exchanged, std::int64_t all) {
  if (exchanged == 1) return "ring";
  return exchanged == all ? "exchange" : fmt::format("exchange:{}+ring", exchanged);
}

void SetWords::add(std::string_view name, std::string_view value) {
  add_word(fmt::format("{}={}", name, value));
}

void SetWords::add_word(std::string_view word) {
  if (!text_.empty()) text_ += ",";
  text_ += word;
}

void SetWords::add_stages(const std::vector<int>& layers) {
  int first = 0;
  const auto last = static_cast<int>(layers.size()) - 1;
  add("embedding", "stage 0");
  for (int s = 0; s <= last; ++s) {
    if (layers[at(s)] > 0) add(layer_range(first, layers[at(s)]), fmt::format("stage {}", s));
    first += layers[at(s)];
  }
  for (const char* name : {"norm", "head"}) add(name, fmt::format("stage {}", last));
}

std::string layer_range(int first, int count) {
  return count == 1 ? fmt::format("layers.{}", first) : fmt::format("layers.{}-{}", first, first + count - 1);
}

int layers_of_chunk(const Keyed& layers, const std::vector<Keyed>& chunks) {
  const std::int64_t parts = product_of(chunks);
  if (layers.value % parts)
    throw error("{} {}: should be a multiple of {} = {}; {} would be", layers.key, layers.value,
                product_text(chunks), parts, near_multiples(layers.value, parts));
  return static_cast<int>(layers.value / parts);
}

}  // namespace shardwright

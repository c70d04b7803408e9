// What readers of recipes share: counts with the key that says them, products that must come out, and stages of layers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/exchange/plan_format.h"

namespace shardwright {

/// A count, and what the file calls it.
struct Keyed {
  std::string key;
  std::int64_t value = 1;
};
/// `--tensor-model-parallel-size 8 x --pipeline-model-parallel-size 4`
std::string product_text(const std::vector<Keyed>& factors);
std::int64_t product_of(const std::vector<Keyed>& factors);

/// What is left of `devices` beside `others`: the degree of data parallelism.
/// Throws: Error with the right numbers if their product does not divide them.
std::int64_t data_degree(int devices, const std::vector<Keyed>& others);

/// Throws: Error if there is no parallelism of that kind yet, and the file wants it.
void check_there_is(std::string_view degree, const Keyed& said);

/// Micro-batches of a step. Throws: Error with the right numbers if `global` is no multiple of `micro` times `data`.
std::int64_t micro_batches_of(const Keyed& global, const Keyed& micro, std::int64_t data);

/// Throws: Error with the right number if `total` is not the product of `factors`.
void check_product(const Keyed& total, const std::vector<Keyed>& factors);

/// `context` of --set where heads are exchanged among so many of all the devices of cp, and keys go round among the others.
std::string context_of(std::int64_t exchanged, std::int64_t all);

/// Words of --set, one behind the other.
class SetWords {
 public:
  void add(std::string_view name, std::int64_t value) { add(name, std::to_string(value)); }
  void add(std::string_view name, std::string_view value);
  void add_word(std::string_view word);
  /// Stages of a decoder: the first has the embedding, the last the norm and the head, and so many layers each.
  void add_stages(const std::vector<int>& layers);
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// `layers.0-3`, `layers.0`
std::string layer_range(int first, int count);

/// Throws: Error with the right numbers if so many chunks do not share the layers evenly.
int layers_of_chunk(const Keyed& layers, const std::vector<Keyed>& chunks);

}  // namespace shardwright

// Low-rank adapters (LoRA): a model is trained in what stands beside some of its weights, which themselves stay as they are.
//
//   y = x W   becomes   y = x W + (alpha / rank) (x A) B        A [in, rank], B [rank, out]
//
// A starts uniform in +-1/sqrt(in) and B at 0, as PEFT's do, so that the first step is the model's own. What a forward graph says of
// products and parameters is all that is asked: names, folders, ONNX files and graphs as text are adapted alike. Every other parameter
// is frozen (graph/node_kinds.h): no gradient, no states, no master; it may be short, and it is read from where the model has it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "shardwright/frontend/model.h"

namespace shardwright {

struct AdapterOptions {
  std::int64_t rank = 16;
  double alpha = 32;
  /// Modules by the last part of their names, ours (`q`) or those of the model's folder (`q_proj`); `all`: every product with a weight
  /// but that of the prediction.
  std::vector<std::string> targets{"q", "v"};
};

/// Beside one weight.
struct Adapter {
  std::string weight, a, b;    // names of parameters
  bool is_transposed = false;  // as the weight is in its product: A [rank, in], B [out, rank]
};

struct Adapters {
  AdapterOptions options;
  std::vector<Adapter> all;
  std::map<std::string, std::int64_t> columns = {};  // of each weight, which B has, too

  double scale() const { return options.alpha / static_cast<double>(options.rank); }
};

/// Throws: Error that says which targets there are, if one is not there; or if the model has adapters, or says its split itself.
Model with_adapters(Model model, const AdapterOptions& options);

/// How many elements the parameters of a network have, and how many of them are trained.
struct ParameterCount {
  double all = 0, trained = 0;
};
ParameterCount parameters_of(const Graph& graph);

}  // namespace shardwright

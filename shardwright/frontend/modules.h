// Modules: operators with their parameters. A network is a struct of modules with a call operator:
//
//   struct FFN {
//     Operator flatten1 = flatten("flatten");
//     Dense dense1{"dense1", 28 * 28, 512};
//     Operator relu1 = relu("relu1");
//     ...
//     Traced operator()(Traced x) const { return dense2(relu1(dense1(flatten1(x)))); }
//   };
#pragma once

#include <string>

#include "shardwright/frontend/operator.h"

namespace shardwright {

/// y = x w + b. Parameters `NAME.weight` (in, out) and `NAME.bias`; operators `NAME.matmul` and `NAME.add`.
/// Both start uniform in +-1/sqrt(in).
struct Dense {
  struct Options {
    bool bias = true;
  };
  Dense(const std::string& name, std::int64_t in, std::int64_t out) : Dense(name, in, out, Options{}) {}
  Dense(const std::string& name, std::int64_t in, std::int64_t out, Options options);

  /// Shapes: x [..., in] -> [..., out]
  Traced operator()(Traced x) const;

  Operator matmul;
  Operator add;
  Parameter weight;
  Parameter bias;
  bool has_bias;
};

/// Mean over the batch of the cross entropy of softmax(logits) and integer labels.
/// Shapes: logits [batch, classes], labels [batch] -> scalar
struct CrossEntropyLoss {
  Traced operator()(Traced logits, Traced labels) const;
};

/// Mean of |x - y|, and of (x - y)^2, over all elements.
struct MeanAbsoluteError {
  Traced operator()(Traced x, Traced y) const;
};
struct MeanSquaredError {
  Traced operator()(Traced x, Traced y) const;
};

/// The loss called `name`, as --loss names it. Throws: Error that lists them.
Traced loss_called(std::string_view name, Traced prediction, Traced label);

}  // namespace shardwright

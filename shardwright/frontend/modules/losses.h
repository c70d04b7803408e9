// Losses: scalars that training minimises.
#pragma once

#include <cstdint>
#include <string_view>

#include "shardwright/frontend/trace.h"

namespace shardwright {

/// Mean over the batch of the cross entropy of softmax(logits) and integer labels.
/// Shapes: logits [..., classes], labels [...] -> scalar. The classes may be split.
struct CrossEntropyLoss {
  Traced operator()(Traced logits, Traced labels) const;
};

/// The same of labels [batch, ...] that are asked for, which are not -100; what weights [batch] say each sample's labels count
/// (frontend/label_weights.h) makes it the mean over those of the whole batch.
struct AskedCrossEntropyLoss {
  Traced operator()(Traced logits, Traced labels, Traced weights) const;
};

/// The same as CrossEntropyLoss, and the share of rows whose label has the largest logit.
struct CrossEntropyAndTop1 {
  struct Result {
    Traced loss, top1;
  };
  Result operator()(Traced logits, Traced labels) const;
};

/// Mean of |x - y|, and of (x - y)^2, over all elements.
struct MeanAbsoluteError {
  Traced operator()(Traced x, Traced y) const;
};
struct MeanSquaredError {
  Traced operator()(Traced x, Traced y) const;
};

/// Mean over all elements of the cross entropy of sigmoid(logits) and targets from 0 to 1.
struct BinaryCrossEntropyLoss {
  Traced operator()(Traced logits, Traced targets) const;
};

/// What a loss compares predictions with.
struct Labels {
  Type type;
  std::int64_t classes = 0;  // they are integers below this; 0: they are numbers
  bool are_shares = false;   // they are numbers from 0 to 1
};
/// Those of the loss called `name` for predictions of this type: classes for the cross entropy over the last dim,
/// else numbers of the same shape.
Labels labels_of(std::string_view name, const Type& prediction);

/// The loss called `name`, as --loss names it. Throws: Error that lists them.
Traced loss_called(std::string_view name, Traced prediction, Traced label);

}  // namespace shardwright

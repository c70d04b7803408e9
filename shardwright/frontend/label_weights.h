// What each sample's labels count, so that the mean of a loss over parts of a batch is the mean over all labels of the batch that are
// asked for: the loss of a part is mean(loss of each label * weight), those that are not asked for having no loss, and
//
//   weight = labels of the whole batch / those of them that are asked for
//
// Nothing of this depends on how the batch is cut, over devices or into micro-batches; a network cannot know it of its part.
#pragma once

#include <cstdint>

#include "shardwright/base/tensor.h"
#include "shardwright/runtime/data/marked_tokens.h"

namespace shardwright {

/// For the first `counted` samples of labels [samples, ...], which are whole batches; the weights of all: [samples].
/// Where no label is asked for they are 0: there is no loss.
Tensor label_weights(const Tensor& labels, std::int64_t counted, DType dtype);

}  // namespace shardwright

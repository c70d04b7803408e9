// Modules: operators with their parameters, one file a family in frontend/modules/. A network is a struct of modules
// with a call operator:
//
//   struct FFN {
//     Operator flatten1 = flatten("flatten");
//     Dense dense1{"dense1", 28 * 28, 512};
//     Operator relu1 = relu("relu1");
//     ...
//     Traced operator()(Traced x) const { return dense2(relu1(dense1(flatten1(x)))); }
//   };
#pragma once

#include "shardwright/frontend/modules/convolution.h"     // IWYU pragma: export
#include "shardwright/frontend/modules/decoder.h"         // IWYU pragma: export
#include "shardwright/frontend/modules/dense.h"           // IWYU pragma: export
#include "shardwright/frontend/modules/embedding.h"       // IWYU pragma: export
#include "shardwright/frontend/modules/feed_forward.h"    // IWYU pragma: export
#include "shardwright/frontend/modules/losses.h"          // IWYU pragma: export
#include "shardwright/frontend/modules/norms.h"           // IWYU pragma: export
#include "shardwright/frontend/modules/resnet.h"          // IWYU pragma: export
#include "shardwright/frontend/modules/self_attention.h"  // IWYU pragma: export
#include "shardwright/frontend/operator.h"                // IWYU pragma: export

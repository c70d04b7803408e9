// A network that is only asked: without what training alone has.
#pragma once

#include "shardwright/frontend/model.h"

namespace shardwright {

class Session;

/// The model's network outside of training (OpDef::outside_training): dropout keeps everything, batch norms take their
/// running statistics, nothing is updated. Its outputs are the prediction, and before it with `has_loss` the loss; what
/// neither needs is left out, the label's input too.
/// Throws: Error if the model has no prediction, or says itself how it is split.
Model inference_of(const Model& model, bool has_loss);

/// Gives a network that is asked the parameters and states that `trained` has of it, whatever their plans. In a run of
/// several processes all of them call it at the same time. Throws: Error if `trained` lacks one.
void take_weights(Session& asked, const Session& trained);

}  // namespace shardwright

// What Megatron-Core calls the decisions of a plan: fields of its configuration, which Megatron-LM takes as flags and
// Megatron-Bridge as members of a recipe.
#pragma once

#include <string>
#include <vector>

#include "shardwright/exchange/words_left.h"
#include "shardwright/plan/json_text.h"

namespace shardwright {

struct MegatronField {
  std::string of;    // whose it is: model, train, ddp, optimizer, architecture
  std::string name;  // `tensor_model_parallel_size`
  Json value;        // true: a switch that is on
};

/// Takes of `left` what they say. Throws: Error if the plan has no degrees, or stages of a network without layers.
std::vector<MegatronField> megatron_fields(const WrittenPlan& plan, WordsLeft& left);

/// Of the network `E` embedding, `t` a layer, `L` the loss, in front of `|` what a chunk of a stage has: `Et*3|t*4|t*4|t*3L`.
/// Empty: the layers are shared out evenly, as they are without it.
std::string megatron_layout(const WrittenPlan& plan);
/// Layers of each part that such a text says, and whether the first begins with E and the last ends with L.
/// Throws: Error that names what is no layout.
std::vector<int> layers_of_layout(const std::string& text);

/// How many of the network's layers each part has; one that is cut counts where it begins. Empty: it has no layers.
std::vector<int> layers_of_parts(const WrittenPlan& plan);

/// The layers of a stage of which as many, from its first on, are computed again as a whole; -1: there is no such number.
int recomputed_layers(const WrittenPlan& plan);

}  // namespace shardwright

// What a configuration file says of a run beside its plan: the optimizer, the learning rate, what it starts from, what is
// saved, evaluated and told. As in the model suite that seed 003 shows:
//
//   optimizer: {type: AdamW, betas: [0.9, 0.95], eps: 1.e-8, weight_decay: 0.1}
//   lr_schedule: {type: CosineWithWarmUpLR, learning_rate: 1.e-5, lr_end: 1.e-6, warmup_ratio: 0.03, total_steps: -1}
//   load_checkpoint: run/step-00000100
//   resume_training: True
//   callbacks:
//     - {type: CheckpointMonitor, save_checkpoint_steps: 100, keep_checkpoint_max: 3}
#pragma once

#include "shardwright/cost/yaml_text.h"
#include "shardwright/exchange/mindformers/config_file.h"

namespace shardwright {

/// Adds what the file `top` says to `config`: in words of flags, and as notices what has no effect.
/// Throws: Error that names a key whose value is none.
void read_training(const YamlMap& top, Config& config);

}  // namespace shardwright

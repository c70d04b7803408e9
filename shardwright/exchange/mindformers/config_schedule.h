// In which order a configuration file has stages take micro-batches:
//
//   parallel: {pipeline_config: {pipeline_scheduler: gpipe, pipeline_interleave: True}}
//   model: {model_config: {pp_interleave_num: 2}}
//
// How many chunks a stage has is a number of the file's model. A stage that has several takes them in turns, whatever the
// scheduler.
#pragma once

#include <string>
#include <vector>

#include "shardwright/cost/yaml_text.h"

namespace shardwright {

struct ConfigSchedule {
  std::string name = {};  // as --schedule takes it; empty if the file says none
  std::string key = {};   // that says it
  std::vector<std::string> notices = {};
};

/// `parallel` and `model` are the sections of these names, the latter as model_config_of has it.
ConfigSchedule config_schedule(const YamlMap& parallel, const YamlMap& model, bool is_pipeline);

/// The section `model.model_config`; empty if the file has none.
YamlMap model_config_of(const YamlMap& top);

}  // namespace shardwright

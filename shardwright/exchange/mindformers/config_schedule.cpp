#include "shardwright/exchange/mindformers/config_schedule.h"

#include <algorithm>
#include <array>

#include "shardwright/base/error.h"

namespace shardwright {

ConfigSchedule config_schedule(const YamlMap& parallel, const YamlMap& model, bool is_pipeline) {
  const std::string scheduler = "pipeline_scheduler", interleave = "pipeline_interleave";
  const std::string chunks = "pp_interleave_num";
  const YamlMap settings = parallel.map("pipeline_config", {interleave, scheduler});
  const auto name = settings.text(scheduler);
  const bool is_interleaved = settings.is_on(interleave);
  const std::int64_t count = model.count(chunks).value_or(1);
  ConfigSchedule out;
  const auto note = [&](std::string text) { out.notices.push_back(std::move(text)); };
  if (is_interleaved && !is_pipeline)
    note(fmt::format("{} has no effect: the file has one stage", interleave));
  else if (is_interleaved && count == 1)
    note(fmt::format("{} has no effect: a stage has one chunk; {} or --schedule interleaved:V says how many",
                     interleave, model.path_of(chunks)));
  else if (count > 1 && !is_interleaved)
    note(fmt::format("{} {} has no effect: {} is not on", model.path_of(chunks), count, interleave));

  constexpr std::array<std::string_view, 3> others{"seqpipe", "seqvpp", "seqsmartvpp"};
  if (name && std::ranges::find(others, *name) != others.end())
    note(fmt::format("{} {} is not active yet", scheduler, *name));
  else if (is_interleaved && is_pipeline && count > 1)
    out.name = fmt::format("interleaved:{}", count), out.key = model.path_of(chunks);
  else if (name && is_pipeline)
    out.name = name == "zero_bubble_v" ? "zb-v" : *name, out.key = settings.path_of(scheduler);
  else if (name)
    note(fmt::format("{} has no effect: the file has one stage", scheduler));
  return out;
}

YamlMap model_config_of(const YamlMap& top) {
  const YAML::Node of_model = top.at("model");  // elsewhere it may be a name
  const YAML::Node settings = of_model.IsMap() ? YamlMap(of_model, "model").at("model_config") : YAML::Node();
  return YamlMap(settings.IsMap() ? settings : YAML::Node(), "model.model_config");
}

}  // namespace shardwright

// Hugging Face folders: `FOLDER` or `FOLDER:seq=512,batch=8`, with config.json and weights; or a bare config.json.

#include <filesystem>

#include "shardwright/frontend/huggingface/folder.h"
#include "shardwright/frontend/source.h"

namespace shardwright::sources {

std::vector<Source> folders() {
  return {
      {.name = "folders",
       .matches = [](const std::string& spec) { return !huggingface::config_of(without_keys(spec)).empty(); },
       .load = [](const std::string& spec, const ModelOptions& options,
                  std::string_view) { return huggingface::load_folder(spec, options); },
       .inputs = huggingface::spec_for_data,
       .tokenizer =
           [](const std::string& spec) {
             const std::string folder = without_keys(spec);
             std::error_code none;
             return std::filesystem::exists(folder + "/tokenizer.json", none) ? folder : "";
           },
       .has_weights = true}};
}

}  // namespace shardwright::sources

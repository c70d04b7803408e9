// Hugging Face folders: `FOLDER` or `FOLDER:seq=512,batch=8`, with config.json and weights; or a bare config.json.

#include <algorithm>
#include <filesystem>

#include "shardwright/frontend/huggingface/folder.h"
#include "shardwright/frontend/model_keys.h"
#include "shardwright/frontend/source.h"

namespace shardwright::sources {

std::vector<Source> folders() {
  return {{.name = "folders",
           .matches =
               [](const std::string& spec) {
                 // A folder that is called as a model of ours is written ./llama.
                 const std::string path = without_keys(spec);
                 return std::ranges::find(all_models(), path, &ModelDef::name) == all_models().end() &&
                        !huggingface::config_of(path).empty();
               },
           .load = [](const std::string& spec, const ModelOptions& options,
                      std::string_view) { return huggingface::load_folder(spec, options); },
           .inputs = huggingface::spec_for_data,
           .of_length =
               [](const std::string& spec, std::int64_t length, std::int64_t) {
                 auto keys = keys_of(spec);
                 keys["seq"] = std::to_string(length);
                 return with_keys(spec, keys);
               },
           .tokenizer =
               [](const std::string& spec) {
                 const std::string folder = without_keys(spec);
                 std::error_code none;
                 return std::filesystem::exists(folder + "/tokenizer.json", none) ? folder : "";
               },
           .has_weights = true}};
}

}  // namespace shardwright::sources

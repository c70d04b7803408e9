#include "tests/fuzz/folder_kinds.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "shardwright/base/file.h"

namespace shardwright::fuzzing {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

const std::string references = "tests/reference/";

/// A folder beside the changed file, and that file in it under its own name.
std::string placed(const std::string& path, const std::string& folder, const std::string& name) {
  const fs::path in = fs::path(path).parent_path() / folder;
  fs::create_directories(in);
  fs::copy_file(path, in / name, fs::copy_options::overwrite_existing);
  return (in / name).string();
}

}  // namespace

/// A config alone is a network without weights; beside weights it must be that of them.
bool try_folder(const std::string& path) {
  const std::string config = placed(path, "bare", "config.json");
  bool is_taken = false;
  for (const char* keys : {"", ":dropout=0,batch=4"})
    is_taken = run({"show", config + keys, "--summary"}).status == 0 || is_taken;
  if (is_taken) prove_and_train({config + ":batch=4", "--devices", "2", "--fix", "tp=2"});
  const std::string beside_weights = placed(path, "net", "config.json");
  run({"train", fs::path(beside_weights).parent_path().string(), "--steps", "1", "--json"});
  return is_taken;
}

bool try_adapters(const std::string& path) {
  placed(path, "adapters", "adapter_config.json");
  const std::string weights = (fs::path(path).parent_path() / "adapters/adapter_model.safetensors").string();
  const std::string model = "lora(" + references + "hf/llama:batch=8,seq=16):rank=4,alpha=8,targets=q.v";
  return run({"train", model, "--init", weights, "--steps", "1", "--json"}).status == 0;
}

bool try_talks(const std::string& path) {
  const std::string tokenizer = (fs::path(path).parent_path() / "talking").string();
  return run({"train", "gpt:layers=1,hidden=8,heads=2,vocab=2000,seq=16,batch=2", "--data", path,
              "--tokenizer", tokenizer, "--chat", "--steps", "1", "--json"})
             .status == 0;
}

void add_folder_seeds(Seeds& seeds, const std::string& folder) {
  for (const auto& entry : fs::directory_iterator(references + "hf"))
    for (const char* name : {"config.json", "config.old.json", "config.short.json"})
      if (fs::exists(entry.path() / name))
        seeds["folder"].push_back(read_text((entry.path() / name).string()));
  fs::create_directories(folder + "/net");
  fs::copy_file(references + "hf/gpt2_hub_names/model.safetensors", folder + "/net/model.safetensors",
                fs::copy_options::overwrite_existing);
  fs::create_directories(folder + "/adapters");
  fs::copy_file(references + "lora/llama_qv/adapter_model.safetensors",
                folder + "/adapters/adapter_model.safetensors", fs::copy_options::overwrite_existing);
  for (const auto& entry : fs::directory_iterator(references + "lora"))
    if (fs::exists(entry.path() / "adapter_config.json"))
      seeds["adapters"].push_back(read_text((entry.path() / "adapter_config.json").string()));

  const Json all = Json::parse(std::ifstream(references + "tokenizer/chat.json"))["templates"];
  const Json& said = all[0];
  fs::create_directories(folder + "/talking");
  fs::copy_file(references + "tokenizer/" + said["tokenizer"].get<std::string>(),
                folder + "/talking/tokenizer.json", fs::copy_options::overwrite_existing);
  std::ofstream(folder + "/talking/tokenizer_config.json") << Json{{"chat_template", said["template"]},
                                                                   {"bos_token", said["bos_token"]},
                                                                   {"eos_token", said["eos_token"]}};
  for (const Json& c : said["cases"]) {
    const std::string line = Json{{"messages", c["messages"]}}.dump() + "\n";
    seeds["talks"].push_back(line + line);
  }
}

}  // namespace shardwright::fuzzing

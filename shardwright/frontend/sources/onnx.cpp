// ONNX files: `FILE.onnx`, or `FILE.onnx:dim=size,...` where it leaves sizes open.

#include "shardwright/frontend/onnx/importer.h"
#include "shardwright/frontend/source.h"

namespace shardwright::sources {

std::vector<Source> onnx() {
  return {{.name = "onnx",
           .matches = [](const std::string& spec) { return without_keys(spec).ends_with(".onnx"); },
           .load =
               [](const std::string& spec, const ModelOptions& options, std::string_view) {
                 return import_onnx(without_keys(spec), arguments_of(spec, options), options.global_batch);
               }}};
}

}  // namespace shardwright::sources

#include "tests/support/onnx_text.h"

#include <google/protobuf/text_format.h>
#include <onnx/onnx_pb.h>

#include "shardwright/base/error.h"

namespace shardwright {

std::string onnx_of_text(std::string_view text) {
  onnx::ModelProto model;
  if (!google::protobuf::TextFormat::ParseFromString(std::string(text), &model))
    throw error("the text is no ONNX model");
  return model.SerializeAsString();
}

}  // namespace shardwright

// Reads the messages of an ONNX file, without looking at what they mean.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "shardwright/frontend/onnx/messages.h"

namespace shardwright {

struct OnnxFile {
  std::string path;
  std::filesystem::path folder;  // where external data must lie
  std::shared_ptr<const onnx::ModelProto> model;
  std::int64_t opset = 0;
};

/// The operator sets that are understood.
constexpr std::int64_t first_opset = 7, last_opset = 28;

/// That of `sets`, a model's or a function's; nothing if they have none of ONNX's own.
/// Throws: Error if it is not understood, or there are two.
std::optional<std::int64_t> opset_of(
    const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& sets);

/// Before any message is made of it, the file's bytes are walked through and counted, so that memory is bounded by
/// the file's size and limits.h, whatever the file says.
/// Throws: Error of kind io if the file cannot be read, Error if it is no ONNX model, too large, of another operator
/// set, or holds what is not supported as a whole (sparse tensors, training information).
OnnxFile read_onnx(const std::string& path);

/// `name` for a message: bytes that are no letters, digits or `_./:-` become `?`, and a long one is cut.
std::string printable(const std::string& name);

}  // namespace shardwright

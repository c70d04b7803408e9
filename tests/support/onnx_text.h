// ONNX models as text, for tests: protobuf's text form of the file's messages.
#pragma once

#include <string>
#include <string_view>

namespace shardwright {

/// The bytes of the file. Throws: Error if `text` is no ModelProto.
std::string onnx_of_text(std::string_view text);

}  // namespace shardwright

// Fields of ONNX messages that the messages of libonnx 1.12 do not know yet. A reader keeps them as bytes.
#pragma once

#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/frontend/onnx/messages.h"

namespace shardwright {

/// The bytes of field `number`, a text or a message, as often as it is there.
inline std::vector<std::string> newer_fields(const google::protobuf::Message& message, int number) {
  const auto& fields = message.GetReflection()->GetUnknownFields(message);
  std::vector<std::string> out;
  for (int i = 0; i < fields.field_count(); ++i)
    if (const auto& field = fields.field(i);
        field.number() == number && field.type() == field.TYPE_LENGTH_DELIMITED)
      out.push_back(field.length_delimited());
  return out;
}

/// What a message says of itself under `key`, in its field `number`, metadata_props.
inline std::optional<std::string> metadata_of(const google::protobuf::Message& message, int number,
                                              std::string_view key) {
  for (const std::string& bytes : newer_fields(message, number)) {
    onnx::StringStringEntryProto entry;
    if (entry.ParseFromString(bytes) && entry.key() == key) return entry.value();
  }
  return std::nullopt;
}

}  // namespace shardwright

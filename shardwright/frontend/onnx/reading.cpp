#include "shardwright/frontend/onnx/reading.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <fstream>
#include <map>
#include <mutex>
#include <system_error>

#include "shardwright/base/file.h"
#include "shardwright/frontend/onnx/limits.h"

namespace shardwright {
namespace {

namespace pb = google::protobuf;

/// Walks over the bytes of a message and of those inside it: whether they are well-formed, and how many there are.
/// A message of two bytes becomes an object of some hundred, so it is their number that bounds memory.
class Survey {
 public:
  explicit Survey(pb::io::CodedInputStream& in) : in_(in) {}

  /// Whether the bytes up to the current limit are fields of `type`.
  bool message(const pb::Descriptor& type, int depth) {
    constexpr int deepest = 32;
    if (depth > deepest) throw error("messages are nested more than {} deep", deepest);
    while (const std::uint32_t tag = in_.ReadTag()) {
      const pb::FieldDescriptor* field = type.FindFieldByNumber(static_cast<int>(tag >> 3));
      if (!field || (tag & 7U) == 2) count();
      if (!value(tag & 7U, field, depth)) return false;
    }
    return in_.ConsumedEntireMessage();
  }

 private:
  void count() {
    if (++messages_ > limits::messages)
      throw error("more than {} nodes, names and attributes", limits::messages);
  }

  bool value(std::uint32_t wire_type, const pb::FieldDescriptor* field, int depth) {
    std::uint64_t number = 0;
    std::uint32_t length = 0;
    switch (wire_type) {
      case 0: return in_.ReadVarint64(&number);
      case 1: return in_.Skip(8);
      case 5: return in_.Skip(4);
      case 2: break;
      default: return false;  // groups are in no ONNX message
    }
    if (!in_.ReadVarint32(&length) || length > limits::file_bytes) return false;
    if (!field || field->cpp_type() != pb::FieldDescriptor::CPPTYPE_MESSAGE)
      return in_.Skip(static_cast<int>(length));
    const auto outer = in_.PushLimit(static_cast<int>(length));
    const bool is_good = in_.BytesUntilLimit() == static_cast<int>(length) &&
                         message(*field->message_type(), depth + 1) && in_.BytesUntilLimit() == 0;
    in_.PopLimit(outer);
    return is_good;
  }

  pb::io::CodedInputStream& in_;
  std::int64_t messages_ = 0;
};

/// Calls `use` with a stream of the file's bytes.
template <class F>
bool with_stream(const std::string& path, F use) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw unreadable(path, errno);
  pb::io::IstreamInputStream bytes(&file);
  pb::io::CodedInputStream in(&bytes);
  return use(in);
}

std::shared_ptr<const onnx::ModelProto> parsed(const std::string& path) {
  const std::int64_t size = readable_bytes(path);
  if (size > limits::file_bytes)
    throw error("the file has {} bytes but at most {} are read; keep weights as external data", size,
                limits::file_bytes);
  auto model = std::make_shared<onnx::ModelProto>();
  const bool is_good = with_stream(path, [](pb::io::CodedInputStream& in) {
    return Survey(in).message(*onnx::ModelProto::descriptor(), 0);
  });
  if (!is_good ||
      !with_stream(path, [&](pb::io::CodedInputStream& in) { return model->ParseFromCodedStream(&in); }))
    throw error("is no ONNX model, or is cut off: its messages cannot be read");
  return model;
}

/// The same as long as somebody has it and the file stays as it is: a search asks for a network once for each size of a
/// micro-batch, and weights of gigabytes take long to read.
std::shared_ptr<const onnx::ModelProto> shared(const std::string& path) {
  struct Known {
    std::filesystem::file_time_type written;
    std::uintmax_t bytes = 0;
    std::weak_ptr<const onnx::ModelProto> model;
  };
  static std::mutex mutex;
  static std::map<std::string, Known> files;
  std::error_code failed;  // then it is parsed, which says why it cannot be read
  const auto written = std::filesystem::last_write_time(path, failed);
  const auto bytes = failed ? 0 : std::filesystem::file_size(path, failed);
  if (failed) return parsed(path);
  const std::lock_guard lock(mutex);
  std::erase_if(files, [](const auto& file) { return file.second.model.expired(); });
  const auto it = files.find(path);
  if (it != files.end() && it->second.written == written && it->second.bytes == bytes)
    if (auto model = it->second.model.lock()) return model;
  auto model = parsed(path);
  files[path] = {written, bytes, model};
  return model;
}

void check_whole(const onnx::ModelProto& model) {
  if (!model.has_graph()) throw error("has no graph");
  if (model.training_info_size() > 0)
    throw error("training_info is not supported; loss and optimizer come from the command line");
  if (model.graph().sparse_initializer_size() > 0) throw error("sparse initializers are not supported");
  if (model.graph().node_size() > limits::nodes)
    throw error("has {} nodes but at most {} are read", model.graph().node_size(), limits::nodes);
}

}  // namespace

std::optional<std::int64_t> opset_of(const pb::RepeatedPtrField<onnx::OperatorSetIdProto>& sets) {
  std::int64_t version = 0;
  for (const auto& set : sets)
    if (set.domain().empty() || set.domain() == "ai.onnx") {
      if (version != 0 && version != set.version())
        throw error("imports operator sets {} and {}; there can be one", version, set.version());
      version = set.version();
    }
  if (version == 0) return std::nullopt;
  if (version < first_opset || version > last_opset)
    throw error("is of operator set {}; {} to {} are supported: export with opset_version={}{}", version,
                first_opset, last_opset, std::clamp(version, first_opset, last_opset),
                version < first_opset ? "" : ", or dynamo=False");
  return version;
}

OnnxFile read_onnx(const std::string& path) {
  OnnxFile file{.path = path, .folder = std::filesystem::path(path).parent_path(), .model = shared(path)};
  const auto opset = opset_of(file.model->opset_import());
  if (!opset) throw error("says no operator set of ONNX's; {} to {} are supported", first_opset, last_opset);
  file.opset = *opset;
  check_whole(*file.model);
  return file;
}

std::string printable(const std::string& name) {
  constexpr std::size_t longest = 100;
  std::string out = name.substr(0, longest);
  std::replace_if(
      out.begin(), out.end(),
      [](char c) {
        return !std::isalnum(static_cast<unsigned char>(c)) &&
               std::string_view("_./:-").find(c) == std::string_view::npos;
      },
      '?');
  return name.size() > longest ? out + "..." : out;
}

}  // namespace shardwright

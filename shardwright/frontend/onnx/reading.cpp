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
#include <utility>
#include <vector>

#include "shardwright/base/file.h"
#include "shardwright/frontend/onnx/limits.h"
#include "shardwright/frontend/onnx/part_of_file.h"

namespace shardwright {
namespace {

namespace pb = google::protobuf;

/// What stands in the parsed bytes instead of `length` bytes of the file from `at` on.
struct Edit {
  std::int64_t at = 0, length = 0;
  std::string instead;
};

std::string varint(std::uint64_t n) {
  std::string out;
  for (; n > 0x7f; n >>= 7) out += static_cast<char>((n & 0x7fU) | 0x80U);
  return out + static_cast<char>(n);
}

/// Walks over the bytes of a message and of those inside it: whether they are well-formed, and how many there are.
/// A message of two bytes becomes an object of some hundred, so it is their number that bounds memory. Elements of large
/// tensors are left in the file: instead of them the parsed bytes say where they are.
class Survey {
 public:
  Survey(pb::io::CodedInputStream& in, FileStamp stamp) : in_(in), stamp_(std::move(stamp)) {}

  /// Whether the bytes up to the current limit are fields of `type`.
  bool message(const pb::Descriptor& type, int depth) {
    constexpr int deepest = 32;
    if (depth > deepest) throw error("messages are nested more than {} deep", deepest);
    for (;;) {
      const std::int64_t at = in_.CurrentPosition();
      const std::uint32_t tag = in_.ReadTag();
      if (tag == 0) return in_.ConsumedEntireMessage();
      const pb::FieldDescriptor* field = type.FindFieldByNumber(static_cast<int>(tag >> 3));
      if (!field || (tag & 7U) == 2) count();
      if (is_tensor(type) && static_cast<int>(tag >> 3) == part_of_file_field)
        throw error("a tensor has a field {}, which is none of ONNX's", part_of_file_field);
      if (!value(tag & 7U, field, depth, at)) return false;
    }
  }

  /// In the order of the file.
  std::vector<Edit> edits() {
    std::ranges::sort(edits_, {}, &Edit::at);
    return std::move(edits_);
  }

 private:
  static bool is_tensor(const pb::Descriptor& type) { return &type == onnx::TensorProto::descriptor(); }

  void count() {
    if (++messages_ > limits::messages)
      throw error("more than {} nodes, names and attributes", limits::messages);
  }

  /// The field's tag is at `at`.
  bool value(std::uint32_t wire_type, const pb::FieldDescriptor* field, int depth, std::int64_t at) {
    std::uint64_t number = 0;
    std::uint32_t length = 0;
    switch (wire_type) {
      case 0: return in_.ReadVarint64(&number);
      case 1: return in_.Skip(8);
      case 5: return in_.Skip(4);
      case 2: break;
      default: return false;  // groups are in no ONNX message
    }
    const std::int64_t at_length = in_.CurrentPosition();
    if (!in_.ReadVarint32(&length) || length > limits::file_bytes) return false;
    const std::int64_t begin = in_.CurrentPosition();
    if (!field || field->cpp_type() != pb::FieldDescriptor::CPPTYPE_MESSAGE) {
      if (field && is_tensor(*field->containing_type()) &&
          field->number() == onnx::TensorProto::kRawDataFieldNumber && length >= limits::held_bytes)
        leave_in_file(at, begin, length);
      return in_.Skip(static_cast<int>(length));
    }
    const std::int64_t outside = std::exchange(saved_, 0);
    const auto outer = in_.PushLimit(static_cast<int>(length));
    const bool is_good = in_.BytesUntilLimit() == static_cast<int>(length) &&
                         message(*field->message_type(), depth + 1) && in_.BytesUntilLimit() == 0;
    in_.PopLimit(outer);
    if (saved_ > 0)
      replace(at_length, begin - at_length, varint(static_cast<std::uint64_t>(length - saved_)));
    saved_ += outside;
    return is_good;
  }

  void leave_in_file(std::int64_t at, std::int64_t begin, std::int64_t length) {
    const std::string place = place_in_file(stamp_, begin, length);
    constexpr std::uint64_t tag = (std::uint64_t{part_of_file_field} << 3) | 2U;
    replace(at, begin + length - at, varint(tag) + varint(place.size()) + place);
  }

  void replace(std::int64_t at, std::int64_t length, std::string instead) {
    saved_ += length - static_cast<std::int64_t>(instead.size());
    edits_.push_back({at, length, std::move(instead)});
  }

  pb::io::CodedInputStream& in_;
  FileStamp stamp_;
  std::int64_t messages_ = 0;
  std::int64_t saved_ = 0;  // bytes that edits take away from the message at work
  std::vector<Edit> edits_;
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

/// The file's bytes, with what stands instead of others.
std::string edited(const std::string& path, std::int64_t size, const std::vector<Edit>& edits) {
  std::ifstream in(path, std::ios::binary);
  std::string out;
  std::int64_t at = 0;
  const auto copy_to = [&](std::int64_t end) {
    const std::size_t before = out.size();
    out.resize(before + static_cast<std::size_t>(end - at));
    in.seekg(at);
    in.read(out.data() + before, end - at);
    if (!in) throw unreadable(path, errno);
  };
  for (const Edit& e : edits) {
    copy_to(e.at);
    out += e.instead;
    at = e.at + e.length;
  }
  copy_to(size);
  return out;
}

std::shared_ptr<const onnx::ModelProto> parsed(const std::string& path) {
  const std::int64_t size = readable_bytes(path);
  if (size > limits::file_bytes)
    throw error("the file has {} bytes but at most {} are read; keep weights as external data", size,
                limits::file_bytes);
  auto model = std::make_shared<onnx::ModelProto>();
  std::vector<Edit> edits;
  const bool is_good = with_stream(path, [&](pb::io::CodedInputStream& in) {
    Survey survey(in, stamp_of(path));
    const bool is_whole = survey.message(*onnx::ModelProto::descriptor(), 0);
    edits = survey.edits();
    return is_whole;
  });
  const auto parse = [&] {
    if (!edits.empty()) return model->ParseFromString(edited(path, size, edits));
    return with_stream(path, [&](pb::io::CodedInputStream& in) { return model->ParseFromCodedStream(&in); });
  };
  if (!is_good || !parse()) throw error("is no ONNX model, or is cut off: its messages cannot be read");
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

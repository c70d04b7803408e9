// open:  read_header (length, JSON) -> SafetensorsHeader (one entry each) -> check_cover (no hole, no
// overlap). Whatever a file holds, the memory used is bounded by a small multiple of its own length.
#include "shardwright/runtime/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "shardwright/base/error.h"
#include "shardwright/base/file.h"
#include "shardwright/base/text.h"
#include "shardwright/layout/transfer.h"

namespace shardwright {
namespace {

using nlohmann::json;
static_assert(std::endian::native == std::endian::little, "the format is little endian");

constexpr std::int64_t largest_header_bytes = 100'000'000;
constexpr std::string_view metadata_key = "__metadata__";

struct FormatName {
  std::string_view name;
  DType dtype;
};
constexpr std::array<FormatName, 8> format_names = {{{"F32", DType::f32},
                                                     {"F64", DType::f64},
                                                     {"F16", DType::f16},
                                                     {"BF16", DType::bf16},
                                                     {"I32", DType::i32},
                                                     {"I64", DType::i64},
                                                     {"U8", DType::u8},
                                                     {"BOOL", DType::boolean}}};

std::optional<DType> dtype_of_format(std::string_view name) {
  for (const FormatName& f : format_names)
    if (f.name == name) return f.dtype;
  return std::nullopt;
}

std::string_view format_name_of(DType dtype) {
  for (const FormatName& f : format_names)
    if (f.dtype == dtype) return f.name;
  require(false, "no safetensors name for {}", name_of(dtype));
  return "";
}

/// The text on one line and not too long, whatever a file put into it.
std::string printable(std::string text) {
  constexpr std::size_t longest = 100;
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  if (text.size() > longest) text = text.substr(0, longest) + "...";
  return text;
}

std::string printable(const json& value) { return printable(value.dump()); }

/// Parses the header and refuses what a plain parser lets pass: keys given twice, deep nesting.
json parse_header(const std::string& path, std::string_view text) {
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int depth, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start || event == json::parse_event_t::array_start) {
      if (depth > 2) throw io_error("{}: header is nested more than 3 deep; not a safetensors file", path);
      keys.emplace_back();
    } else if (event == json::parse_event_t::object_end || event == json::parse_event_t::array_end) {
      keys.pop_back();
    } else if (event == json::parse_event_t::key) {
      auto name = parsed.get<std::string>();
      if (!keys.back().insert(name).second)
        throw io_error("{}: header has the key '{}' twice", path, printable(std::move(name)));
    }
    return true;
  };
  try {
    return json::parse(text, check);
  } catch (const json::parse_error& e) {
    throw io_error("{}: header is not JSON at byte {} of {}; not a safetensors file, or damaged", path,
                   e.byte, text.size());
  }
}

std::ifstream open_for_reading(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw unreadable(path, errno);
  return in;
}

std::string read_header(const std::string& path, std::int64_t bytes_in_file) {
  if (bytes_in_file < 8)
    throw io_error("{}: has {} bytes, the header's length alone takes 8; truncated", path, bytes_in_file);
  std::ifstream in = open_for_reading(path);
  std::uint64_t length = 0;
  in.read(reinterpret_cast<char*>(&length), sizeof length);
  if (!in) throw unreadable(path, errno);
  if (length > static_cast<std::uint64_t>(largest_header_bytes))
    throw io_error("{}: header of {} bytes, at most {} are allowed; not a safetensors file", path, length,
                   largest_header_bytes);
  if (length > static_cast<std::uint64_t>(bytes_in_file - 8))
    throw io_error("{}: header of {} bytes, but only {} follow; truncated", path, length, bytes_in_file - 8);
  std::string text(length, '\0');
  in.read(text.data(), static_cast<std::streamsize>(length));
  if (!in) throw unreadable(path, errno);
  if (!text.starts_with('{'))
    throw io_error("{}: header does not start with '{{'; not a safetensors file", path);
  return text;
}

}  // namespace

/// Turns the parsed header into entries. Not in the public header, because that would pull in the JSON
/// library.
class SafetensorsHeader {
 public:
  SafetensorsHeader(SafetensorsFile& file, std::int64_t data_bytes) : file_(file), data_bytes_(data_bytes) {}

  void take(const json& header) {
    for (const auto& [name, value] : header.items()) {
      if (name == metadata_key) {
        take_metadata(value);
      } else {
        file_.entries_.emplace(name, entry_of(name, value));
      }
    }
    check_cover();
  }

 private:
  using Entry = SafetensorsFile::Entry;

  template <class... A>
  Error tensor_error(const std::string& name, fmt::format_string<A...> text, A&&... a) const {
    return io_error("{}: tensor '{}' {}", file_.path_, printable(name),
                    fmt::format(text, std::forward<A>(a)...));
  }

  void take_metadata(const json& value) {
    if (!value.is_object())
      throw io_error("{}: {} is {}, must be an object", file_.path_, metadata_key, printable(value));
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string())
        throw io_error("{}: {} has '{}': {}, must be a string", file_.path_, metadata_key, printable(key),
                       printable(text));
      file_.metadata_.emplace(key, text.get<std::string>());
    }
  }

  Entry entry_of(const std::string& name, const json& value) const {
    if (!value.is_object()) throw tensor_error(name, "is {}, must be an object", printable(value));
    for (const auto& [key, unused] : value.items())
      if (key != "dtype" && key != "shape" && key != "data_offsets")
        throw tensor_error(name, "has the key '{}'; there are dtype, shape and data_offsets", printable(key));
    const Shape offsets = integers_of(name, value, "data_offsets");
    if (offsets.size() != 2) throw tensor_error(name, "has {} data_offsets, must have 2", offsets.size());
    Entry entry{{dtype_in(name, value), integers_of(name, value, "shape")}, offsets[0], offsets[1]};
    if (entry.begin > entry.end)
      throw tensor_error(name, "begins at byte {} and ends before it, at {}", entry.begin, entry.end);
    if (entry.end > data_bytes_)
      throw tensor_error(name, "ends at byte {}, but the file has {} bytes of data; truncated", entry.end,
                         data_bytes_);
    const std::int64_t bytes = bytes_of(name, entry.type);
    if (bytes != entry.end - entry.begin)
      throw tensor_error(name, "is {} of {} bytes, but its data_offsets span {}",
                         printable(to_text(entry.type)), bytes, entry.end - entry.begin);
    return entry;
  }

  const json& member(const std::string& name, const json& value, const char* key) const {
    const auto found = value.find(key);
    if (found == value.end()) throw tensor_error(name, "has no {}", key);
    return *found;
  }

  DType dtype_in(const std::string& name, const json& value) const {
    const json& word = member(name, value, "dtype");
    const auto dtype = word.is_string() ? dtype_of_format(word.get<std::string>()) : std::nullopt;
    if (!dtype)
      throw tensor_error(name, "has dtype {}; known are F32, F64, F16, BF16, I32, I64, U8, BOOL",
                         printable(word));
    return *dtype;
  }

  Shape integers_of(const std::string& name, const json& value, const char* key) const {
    const json& list = member(name, value, key);
    if (!list.is_array()) throw tensor_error(name, "has {} {}, must be a list", key, printable(list));
    Shape out;
    for (const json& item : list) {
      const bool fits =
          item.is_number_integer() && (!item.is_number_unsigned() ||
                                       item.get<std::uint64_t>() <= std::numeric_limits<std::int64_t>::max());
      if (!fits || item.get<std::int64_t>() < 0)
        throw tensor_error(name, "has {} in its {}, must be an integer from 0 to 2^63-1", printable(item),
                           key);
      out.push_back(item.get<std::int64_t>());
    }
    return out;
  }

  std::int64_t bytes_of(const std::string& name, const Type& type) const try {
    return type.bytes();
  } catch (const Error& e) {
    throw tensor_error(name, "has {}", e.what());
  }

  /// Sorted by place, each tensor begins where the one before ends, and the last ends with the file.
  void check_cover() const {
    std::vector<std::pair<const std::string*, const Entry*>> order;
    for (const auto& [name, entry] : file_.entries_) order.emplace_back(&name, &entry);
    std::ranges::sort(order, {}, [](const auto& o) { return std::pair(o.second->begin, o.second->end); });
    std::int64_t covered = 0;
    for (const auto& [name, entry] : order) {
      if (entry->begin < covered)
        throw tensor_error(*name, "begins at byte {}, inside the tensor before it, which ends at {}",
                           entry->begin, covered);
      if (entry->begin > covered)
        throw tensor_error(*name, "begins at byte {}, but the data before it ends at {}; there is a hole",
                           entry->begin, covered);
      covered = entry->end;
    }
    if (covered != data_bytes_)
      throw io_error("{}: tensors end at byte {}, but the file has {} bytes of data; {} belong to none",
                     file_.path_, covered, data_bytes_, data_bytes_ - covered);
  }

  SafetensorsFile& file_;
  std::int64_t data_bytes_;
};

SafetensorsFile SafetensorsFile::open(const std::string& path) {
  SafetensorsFile file;
  file.path_ = path;
  const std::int64_t bytes_in_file = readable_bytes(path);
  const std::string text = read_header(path, bytes_in_file);
  file.data_start_ = 8 + static_cast<std::int64_t>(text.size());
  SafetensorsHeader(file, bytes_in_file - file.data_start_).take(parse_header(path, text));
  return file;
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> out;
  for (const auto& [name, entry] : entries_) out.push_back(name);
  return out;
}

const SafetensorsFile::Entry& SafetensorsFile::entry(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end())
    throw io_error("{}: has no tensor '{}'{}", path_, name, printable(near_names(name, names())));
  return found->second;
}

Tensor SafetensorsFile::read(std::string_view name) const {
  const Entry& e = entry(name);
  return read_bytes(name, e.type, e.begin);
}

Tensor SafetensorsFile::read_slice(std::string_view name, std::int64_t index) const {
  const Entry& e = entry(name);
  if (e.type.shape.empty()) throw io_error("{}: tensor '{}' is a scalar; it has no slices", path_, name);
  if (index < 0 || index >= e.type.shape[0])
    throw io_error("{}: tensor '{}' is {}: slice {} asked for, there are {}", path_, name, to_text(e.type),
                   index, e.type.shape[0]);
  Type slice{e.type.dtype, Shape(e.type.shape.begin() + 1, e.type.shape.end())};
  const std::int64_t begin = e.begin + index * slice.bytes();
  return read_bytes(name, std::move(slice), begin);
}

void SafetensorsFile::read_part(std::string_view name, const Box& where, std::span<std::byte> to) const {
  const Entry& e = entry(name);
  const auto element = static_cast<std::int64_t>(size_of(e.type.dtype));
  const Box whole{Shape(e.type.shape.size()), e.type.shape};
  for_each_run(piece_of(where, whole, where), [&](std::int64_t f, std::int64_t t, std::int64_t n) {
    const Tensor run = read_bytes(name, {e.type.dtype, {n}}, e.begin + f * element);
    std::ranges::copy(run.bytes(), to.begin() + t * element);
  });
}

Tensor SafetensorsFile::read_bytes(std::string_view name, Type type, std::int64_t begin) const {
  Tensor t(std::move(type));
  std::ifstream in = open_for_reading(path_);
  in.seekg(data_start_ + begin);
  in.read(reinterpret_cast<char*>(t.bytes().data()), static_cast<std::streamsize>(t.bytes().size()));
  if (!in)
    throw io_error("{}: tensor '{}': {} of {} bytes could be read; the file has changed since it was opened",
                   path_, name, in.gcount(), t.bytes().size());
  if (t.dtype() == DType::boolean) {
    const auto odd = std::ranges::find_if(t.bytes(), [](std::byte b) { return b > std::byte{1}; });
    if (odd != t.bytes().end())
      throw io_error("{}: tensor '{}' is BOOL but has the value {} at {}; must be 0 or 1", path_, name,
                     std::to_integer<int>(*odd), odd - t.bytes().begin());
  }
  return t;
}

std::string safetensors_head(const std::string& path, const std::vector<NamedType>& tensors,
                             const std::map<std::string, std::string>& metadata) {
  json header = json::object();
  if (!metadata.empty()) header[std::string(metadata_key)] = metadata;
  std::int64_t end = 0;
  for (const auto& [name, type] : tensors) {
    if (name == metadata_key) throw error("{}: {} cannot be the name of a tensor", path, metadata_key);
    const std::int64_t begin = end;
    end += type.bytes();
    header[name] = {
        {"dtype", format_name_of(type.dtype)}, {"shape", type.shape}, {"data_offsets", {begin, end}}};
  }
  try {
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    const std::uint64_t length = text.size();
    return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text;
  } catch (const json::type_error&) {
    throw error("{}: a name or a text of the metadata is not UTF-8", path);
  }
}

void order_in_file(std::vector<NamedType>& tensors) {
  std::ranges::stable_sort(tensors, std::greater<>(),
                           [](const NamedType& t) { return size_of(t.type.dtype); });
}

void write_safetensors(const std::string& path, const std::map<std::string, Tensor>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<NamedType> order;
  for (const auto& [name, tensor] : tensors) order.push_back({name, tensor.type()});
  order_in_file(order);
  NewFile out(path);
  out.write(safetensors_head(path, order, metadata));
  for (const NamedType& t : order) out.write(tensors.at(t.name).bytes());
  out.keep();
}

}  // namespace shardwright

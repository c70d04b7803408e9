#include "shardwright/runtime/data/token_lay.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <optional>
#include <vector>

#include "shardwright/base/error.h"
#include "shardwright/runtime/data/numpy_file.h"

namespace shardwright {
namespace {

constexpr std::int32_t header_magic = 20240520;
constexpr std::int64_t header_bytes = 1024;

std::optional<TokenLay> lay_of_header(const OpenFile& file) {
  std::array<std::int32_t, 3> header{};
  if (file.bytes() < header_bytes) return std::nullopt;
  file.read(0, std::as_writable_bytes(std::span(header)));
  if (header[0] != header_magic) return std::nullopt;
  if (header[1] != 1) throw io_error("{}: is of version {}; version 1 is read", file.path(), header[1]);
  const std::int64_t count = (file.bytes() - header_bytes) / 2;
  if (header[2] != count || file.bytes() % 2 != 0)
    throw io_error("{}: claims {} tokens, but holds {}; truncated or damaged", file.path(), header[2], count);
  return TokenLay{header_bytes, count, 2};
}

TokenLay lay_of_numpy(const OpenFile& file) {
  const auto refuse = [&](const std::string& why) { return io_error("{}: {}", file.path(), why); };
  const NumpyHead head = numpy_head(file);
  const std::string& type = head.type;
  if (type != "|u1" && type != "<u2" && type != "<u4" && type != "<i4" && type != "<i8")
    throw refuse(
        fmt::format("holds numbers of type '{}'; tokens are uint8, uint16, uint32, int32 or int64", type));
  if (head.shape.size() != 1)
    throw refuse(fmt::format("has dims {}; tokens lie along one", to_text(head.shape)));
  return {head.start, head.shape[0], head.width, type[1] == 'i'};
}

template <class T>
T read_one(const OpenFile& file, std::int64_t at) {
  T out{};
  file.read(at, std::as_writable_bytes(std::span(&out, 1)));
  return out;
}

/// Bytes of a token by the number of its type; nothing: no integers.
std::optional<TokenLay> lay_of_type(int number) {
  switch (number) {
    case 1: return TokenLay{.bytes = 1};
    case 2: return TokenLay{.bytes = 1, .is_signed = true};
    case 3: return TokenLay{.bytes = 2, .is_signed = true};
    case index_of_i32: return TokenLay{.bytes = 4, .is_signed = true};
    case 5: return TokenLay{.bytes = 8, .is_signed = true};
    case index_of_u16: return TokenLay{.bytes = 2};
    default: return std::nullopt;
  }
}

/// Sequences lie one behind the other, so all of them are read as one.
TokenLay lay_of_index(const OpenFile& file, const OpenFile& index) {
  const auto refuse = [&](const std::string& why) { return io_error("{}: {}", index.path(), why); };
  std::array<char, 9> magic{};
  if (index.bytes() < index_head_bytes) throw refuse("is too short for an index; cut off");
  index.read(0, std::as_writable_bytes(std::span(magic)));
  if (std::memcmp(magic.data(), index_magic, 9) != 0) throw refuse("is no index of tokens, as its name says");
  if (const auto version = read_one<std::uint64_t>(index, 9); version != 1)
    throw refuse(fmt::format("is of version {}; version 1 is read", version));
  const auto type = read_one<std::uint8_t>(index, 17);
  const auto lay = lay_of_type(type);
  if (!lay) throw refuse(fmt::format("says that numbers are of type {}, which are no integers", type));
  const auto sequences = read_one<std::int64_t>(index, 18), documents = read_one<std::int64_t>(index, 26);
  const std::int64_t most = index.bytes() / 8;
  if (sequences < 0 || documents < 0 || sequences > most || documents > most ||
      index.bytes() < index_head_bytes + 12 * sequences + 8 * documents)
    throw refuse(fmt::format("claims {} sequences of {} documents, for which it is too short; cut off",
                             sequences, documents));
  TokenLay out = *lay;
  out.count = file.bytes() / out.bytes;
  if (sequences == 0) return out;
  const auto length = read_one<std::int32_t>(index, index_head_bytes + 4 * (sequences - 1));
  const auto place = read_one<std::int64_t>(index, index_head_bytes + 4 * sequences + 8 * (sequences - 1));
  const bool is_inside = length >= 0 && place >= 0 && place <= file.bytes();
  if (!is_inside || place + length * out.bytes != file.bytes())
    throw refuse(fmt::format(
        "says that tokens end elsewhere than {} does, at byte {}; one of the two is of another file",
        file.path(), file.bytes()));
  return out;
}

/// Whether the first numbers of 4 bytes are all tokens. Of tokens of 2 bytes that would take a 0 in every second place.
bool are_of_4_bytes(const OpenFile& file, std::int64_t vocabulary) {
  if (vocabulary <= 0 || file.bytes() % 4 != 0 || file.bytes() == 0) return false;
  std::vector<std::int64_t> first(static_cast<std::size_t>(std::min<std::int64_t>(file.bytes() / 4, 4096)));
  read_tokens(file, {.start = 0, .count = file.bytes() / 4, .bytes = 4}, 0, first);
  const bool are_tokens = std::ranges::all_of(first, [&](std::int64_t token) { return token < vocabulary; });
  return are_tokens && std::ranges::any_of(first, [](std::int64_t token) { return token > 0; });
}

}  // namespace

std::string index_path(const std::string& path) {
  return std::filesystem::path(path).replace_extension(".idx").string();
}

TokenLay lay_of_tokens(const OpenFile& file, std::int64_t bytes, std::int64_t vocabulary) {
  if (file.path().ends_with(".npy")) return lay_of_numpy(file);
  std::error_code none;
  if (const std::string index = index_path(file.path());
      index != file.path() && std::filesystem::exists(index, none))
    return lay_of_index(file, OpenFile(index));
  if (const auto lay = lay_of_header(file)) return *lay;
  if (bytes == 0) bytes = are_of_4_bytes(file, vocabulary) ? 4 : 2;
  if (bytes != 2 && bytes != 4) throw error("tokens of {} bytes are not read; they take 2 or 4", bytes);
  if (file.bytes() % bytes != 0)
    throw io_error(
        "{}: has {} bytes, which is not a multiple of the {} bytes of a token; cut off, or its tokens have "
        "another size",
        file.path(), file.bytes(), bytes);
  return {0, file.bytes() / bytes, bytes};
}

void read_tokens(const OpenFile& file, const TokenLay& lay, std::int64_t first, std::span<std::int64_t> to) {
  std::vector<std::byte> bytes(to.size() * static_cast<std::size_t>(lay.bytes));
  file.read(lay.start + first * lay.bytes, bytes);
  const std::byte* at = bytes.data();
  for (std::int64_t& token : to) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, at, static_cast<std::size_t>(lay.bytes));
    at += lay.bytes;
    const auto unused = static_cast<int>(64 - 8 * lay.bytes);
    token =
        lay.is_signed ? static_cast<std::int64_t>(bits << unused) >> unused : static_cast<std::int64_t>(bits);
  }
}

}  // namespace shardwright

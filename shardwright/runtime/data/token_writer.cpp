#include "shardwright/runtime/data/token_writer.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>

#include "shardwright/runtime/data/token_lay.h"

namespace shardwright {
namespace {

constexpr std::size_t numpy_head_bytes = 128;

/// Always as long, so that it can be written first and filled in at the end.
std::string numpy_head(std::int64_t count, std::int64_t bytes) {
  std::string out("\x93NUMPY\x01\x00\x76\x00", 10);
  out += fmt::format("{{'descr': '<u{}', 'fortran_order': False, 'shape': ({},), }}", bytes, count);
  out.resize(numpy_head_bytes - 1, ' ');
  return out + "\n";
}

template <class T>
void append(std::string& to, T number) {
  to.append(reinterpret_cast<const char*>(&number), sizeof number);
}

bool is_of(const std::string& path, std::string_view end) {
  if (!path.ends_with(".bin") && !path.ends_with(".npy"))
    throw error("{}: tokens are written as .bin, or as .npy for numpy", path);
  return path.ends_with(end);
}

}  // namespace

TokenWriter::TokenWriter(const std::string& path, const TokenWriting& options)
    : file_(path), bytes_(options.vocabulary <= 65536 ? 2 : 4), is_numpy_(is_of(path, ".npy")) {
  if (options.has_index && is_numpy_) throw error("{}: an index stands beside a .bin, not a .npy", path);
  if (options.has_index) index_.emplace(index_path(path));
  if (is_numpy_) unwritten_ = numpy_head(0, bytes_);
}

void TokenWriter::write(std::span<const std::int32_t> document) {
  for (const std::int32_t token : document)
    if (bytes_ == 2)
      append(unwritten_, static_cast<std::uint16_t>(token));
    else
      append(unwritten_, token);
  count_ += std::ssize(document);
  if (index_ && document.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
    throw error("a document of {} tokens is too long for an index", document.size());
  if (index_) lengths_.push_back(static_cast<std::int32_t>(document.size()));
  constexpr std::size_t enough = 1 << 20;
  if (unwritten_.size() > enough) flush();
}

void TokenWriter::flush() {
  file_.write(unwritten_);
  unwritten_.clear();
}

void TokenWriter::write_index() {
  std::string out(index_magic, 9);
  append(out, std::uint64_t{1});
  append(out, static_cast<std::uint8_t>(bytes_ == 2 ? index_of_u16 : index_of_i32));
  append(out, static_cast<std::int64_t>(lengths_.size()));
  append(out, static_cast<std::int64_t>(lengths_.size()) + 1);
  for (const std::int32_t length : lengths_) append(out, length);
  std::int64_t place = 0;
  for (const std::int32_t length : lengths_) {
    append(out, place);
    place += length * bytes_;
  }
  for (std::size_t document = 0; document <= lengths_.size(); ++document)
    append(out, static_cast<std::int64_t>(document));
  index_->write(out);
}

void TokenWriter::keep() {
  flush();
  if (is_numpy_) {
    const std::string head = numpy_head(count_, bytes_);
    if (::pwrite(file_.descriptor(), head.data(), head.size(), 0) != std::ssize(head))
      throw io_error("the head of a .npy file cannot be written: {}", std::strerror(errno));
  }
  if (index_) write_index();
  file_.keep();
  if (index_) index_->keep();
}

}  // namespace shardwright

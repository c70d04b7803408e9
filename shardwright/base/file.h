// Files as users name them. What is read is a regular file of bounded size, or a stream that is open already, such as
// /dev/stdin; what is written stands under its name whole, or the earlier file still does.
//
// Every error is of kind io and one line: the path as it was given, and why.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "shardwright/base/error.h"

namespace shardwright {

/// `PATH: cannot be read: ` and what errno says.
Error unreadable(const std::string& path, int code);
Error unwritable(const std::string& path, int code);

/// The length of a regular file that may be read.
/// Throws: Error if there is none, or if it is a folder, a pipe or a device.
std::int64_t readable_bytes(const std::string& path);

constexpr std::int64_t most_text_bytes = std::int64_t{1} << 28;
constexpr std::int64_t most_settings_bytes = std::int64_t{1}
                                             << 20;  // of what people write by hand, such as YAML

/// The text of a regular file, or of an open stream up to its end, behind its byte-order mark, if it begins with one.
/// Throws: Error as readable_bytes does, if there are more than `most` bytes, or that names the first line that is not
/// UTF-8.
std::string read_text(const std::string& path, std::int64_t most = most_text_bytes);

/// A file that is being written beside `path`, and takes its place once it is whole; a file that is there keeps its
/// permissions, a link stays and its target is replaced. Where no regular file can stand (a pipe, a device, a stream
/// that is open already), it is written in place. Unless it is kept, nothing is left of it.
class NewFile {
 public:
  /// Throws: Error if nothing can be written there.
  explicit NewFile(std::string path);
  ~NewFile();
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;

  /// Throws: Error, for example if the disk is full.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /// For a library that writes by itself.
  int descriptor() const { return descriptor_; }
  /// From here on the file survives a loss of power, too. Throws: Error; the earlier file then still stands.
  void keep();

 private:
  void open_beside();

  std::string path_;        // as given
  std::string target_;      // links followed
  std::string unfinished_;  // the name meanwhile; empty: it is written in place
  int descriptor_ = -1;
};

void write_file(const std::string& path, std::string_view text);

/// Throws: Error if nothing can be written there. What is there stays, and nothing new is left.
void require_writable(const std::string& path);

/// How many files NewFiles have kept, and which was the last. For handlers of signals: it makes no call at
/// all.
struct KeptFiles {
  int count = 0;
  std::string_view last = {};
};
KeptFiles kept_files();

/// Removes what NewFiles have not kept. For handlers of signals that end the process: it only makes system calls.
void remove_unfinished_files();

}  // namespace shardwright

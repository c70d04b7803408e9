// Records of comma separated values, one after the other, of a file of any size: a block of it is in memory.
// Source: RFC 4180. Cells in quotes may hold separators, line ends, and quotes that stand twice. Lines end in LF or CRLF; empty
// lines are passed over, and a byte-order mark is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/runtime/data/open_file.h"

namespace shardwright {

/// Where a record begins.
struct CsvPlace {
  std::int64_t byte = 0;
  std::int64_t line = 1;
};

class CsvRecords {
 public:
  /// `file` must outlive it; `block` bytes are read at once.
  CsvRecords(const OpenFile& file, char separator, CsvPlace from, std::size_t block);

  /// Whether there is one more. Throws: Error of kind io that names file and line, if it is broken.
  bool next();
  std::span<const std::string> cells() const { return std::span(cells_).first(count_); }
  const CsvPlace& start() const { return start_; }
  /// `FILE:LINE`, of the record.
  std::string place() const;

 private:
  static constexpr int end_of_file = -1;
  int peek();
  void take();
  bool take_line_end();
  void read_cell(std::string& cell);
  void read_quoted(std::string& cell);
  void add(std::string& cell);

  const OpenFile& file_;
  char separator_;
  std::size_t block_bytes_;
  std::string block_;
  std::size_t at_ = 0;          // in the block
  std::int64_t block_end_ = 0;  // in the file
  std::int64_t line_ = 1;
  CsvPlace start_;
  std::vector<std::string> cells_;
  std::size_t count_ = 0;  // of cells
};

/// `.csv` or `.tsv`
bool is_csv(std::string_view path);
char csv_separator(std::string_view path);

}  // namespace shardwright

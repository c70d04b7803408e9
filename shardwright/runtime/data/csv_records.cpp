#include "shardwright/runtime/data/csv_records.h"

#include <algorithm>

#include "shardwright/base/error.h"

namespace shardwright {
namespace {

constexpr std::int64_t most_record_bytes = 1 << 22;  // behind which a quote has been forgotten
constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

}  // namespace

bool is_csv(std::string_view path) { return path.ends_with(".csv") || path.ends_with(".tsv"); }

char csv_separator(std::string_view path) { return path.ends_with(".tsv") ? '\t' : ','; }

CsvRecords::CsvRecords(const OpenFile& file, char separator, CsvPlace from, std::size_t block)
    : file_(file),
      separator_(separator),
      block_bytes_(block),
      block_end_(from.byte),
      line_(from.line),
      start_(from) {
  if (from.byte == 0 && peek() != end_of_file && block_.starts_with(byte_order_mark))
    at_ = byte_order_mark.size();
}

std::string CsvRecords::place() const { return fmt::format("{}:{}", file_.path(), start_.line); }

int CsvRecords::peek() {
  if (at_ == block_.size()) {
    const std::int64_t left = file_.bytes() - block_end_;
    if (left <= 0) return end_of_file;
    block_.resize(static_cast<std::size_t>(std::min(left, static_cast<std::int64_t>(block_bytes_))));
    file_.read(block_end_, std::as_writable_bytes(std::span(block_)));
    block_end_ += std::ssize(block_);
    at_ = 0;
  }
  return static_cast<unsigned char>(block_[at_]);
}

void CsvRecords::take() {
  if (block_[at_] == '\n') ++line_;
  ++at_;
}

bool CsvRecords::take_line_end() {
  if (peek() == '\r') {
    take();
    if (peek() != '\n')
      throw io_error("{}:{}: has a carriage return that ends no line; it should stand in quotes",
                     file_.path(), line_);
  }
  if (peek() != '\n') return false;
  take();
  return true;
}

void CsvRecords::add(std::string& cell) {
  if (block_[at_] == '\0') throw io_error("{}:{}: holds a byte 0, as no text does", file_.path(), line_);
  if (std::ssize(cell) >= most_record_bytes)
    throw io_error("{}: cell {} is longer than {} bytes; a quote may not have been closed", place(),
                   count_ + 1, most_record_bytes);
  cell += block_[at_];
  take();
}

void CsvRecords::read_quoted(std::string& cell) {
  take();
  while (true) {
    const int c = peek();
    if (c == end_of_file) throw io_error("{}: the quote of cell {} is not closed", place(), count_ + 1);
    if (c == '"') {
      take();
      if (peek() != '"') break;  // two of them are one
    }
    add(cell);
  }
  const int behind = peek();
  if (behind != end_of_file && behind != separator_ && behind != '\r' && behind != '\n')
    throw io_error("{}: behind the quotes of cell {} should stand the next cell, or the line's end", place(),
                   count_ + 1);
}

void CsvRecords::read_cell(std::string& cell) {
  cell.clear();
  if (peek() == '"') return read_quoted(cell);
  for (int c = peek(); c != end_of_file && c != separator_ && c != '\r' && c != '\n'; c = peek()) {
    if (c == '"')
      throw io_error("{}: cell {} has a quote inside; it should stand in quotes, the one inside twice",
                     place(), count_ + 1);
    add(cell);
  }
}

bool CsvRecords::next() {
  while (take_line_end()) {
  }
  count_ = 0;
  if (peek() == end_of_file) return false;
  start_ = {block_end_ - std::ssize(block_) + static_cast<std::int64_t>(at_), line_};
  while (true) {
    if (count_ == cells_.size()) cells_.emplace_back();
    read_cell(cells_[count_]);
    ++count_;
    if (peek() != separator_) break;
    take();
    if (block_end_ - start_.byte > most_record_bytes + static_cast<std::int64_t>(block_bytes_))
      throw io_error("{}: has more than {} bytes", place(), most_record_bytes);
  }
  take_line_end();
  return true;
}

}  // namespace shardwright

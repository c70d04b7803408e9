#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>

#include "shardwright/base/error.h"
#include "shardwright/base/text.h"
#include "shardwright/runtime/data/csv_records.h"
#include "shardwright/runtime/data/written_columns.h"

namespace shardwright {
namespace {

constexpr char between_elements = '|';
constexpr std::int64_t records_a_mark = 16;
constexpr std::size_t block_of_all = 1 << 20, block_of_few = 1 << 13;

/// As messages show it: short, and nothing that a terminal would take for more than text.
std::string shown(std::string_view cell) {
  constexpr std::size_t most = 40;
  std::string out(cell.substr(0, std::min(most, end_of_utf8(cell.substr(0, most)).value_or(most))));
  std::ranges::replace_if(
      out, [](unsigned char c) { return c < ' '; }, ' ');
  return fmt::format("'{}{}'", out, out.size() < cell.size() ? "..." : "");
}

/// The number behind an input's name in that of a column: `dense.12`; 0 for the name itself. Nothing: it is another's.
std::optional<std::int64_t> place_in(std::string_view input, std::string_view column) {
  if (!column.starts_with(input)) return std::nullopt;
  std::string_view behind = column.substr(input.size());
  if (behind.empty()) return 0;
  if (behind.front() == '.' || behind.front() == '_') behind.remove_prefix(1);
  if (behind.empty() || behind.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  return to_integer(behind);
}

/// Where an input's elements stand in a record.
struct Cells {
  std::string input;
  WrittenInput how;
  Type sample;
  std::int64_t each = 1;             // elements of a cell
  std::vector<std::size_t> at = {};  // in the record
};

/// The columns of an input, in the order of their numbers.
std::vector<std::size_t> columns_of(const std::string& input, const std::vector<std::string>& header,
                                    const WrittenInputs& inputs) {
  std::vector<std::pair<std::int64_t, std::size_t>> places;
  for (std::size_t c = 0; c < header.size(); ++c) {
    const bool is_others = header[c] != input && inputs.contains(header[c]);
    const auto place = is_others ? std::nullopt : place_in(input, header[c]);
    if (place) places.emplace_back(*place, c);
  }
  std::ranges::sort(places);
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto [place, column] = places[i];
    if (i > 0 && place != places[i - 1].first + 1)
      throw io_error("column '{}' is followed by '{}'; their numbers should follow each other",
                     header[places[i - 1].second], header[column]);
    out.push_back(column);
  }
  return out;
}

/// Throws: Error if there are not as many columns as the input takes.
Cells cells_of(const std::string& input, const WrittenInput& how, const std::vector<std::string>& header,
               const WrittenInputs& inputs) {
  Cells out{.input = input, .how = how, .sample = sample_type(input, how)};
  out.at = columns_of(input, header, inputs);
  const std::int64_t size = element_count(out.sample.shape), columns = std::ssize(out.at);
  const std::int64_t bag = how.are_bags && !out.sample.shape.empty() ? out.sample.shape.back() : 1;
  if (columns == 0 && how.may_lack) return out;
  if (columns > 0 && size % columns == 0) out.each = size / columns;
  // One column of the input's own name may hold all of them; a part of numbered columns rather lacks some.
  const bool is_whole =
      out.each == 1 || (how.are_bags ? out.each == bag : columns == 1 && header[out.at[0]] == input);
  const bool fits = columns > 0 && size % columns == 0 && is_whole;
  if (fits) return out;
  const std::string names = size == 1
                                ? fmt::format("a column '{}'", input)
                                : fmt::format("{} columns '{}.1', '{}.2' and so on", size, input, input);
  const std::string bags = bag > 1 ? fmt::format(", or {} of up to {} ids each", size / bag, bag) : "";
  throw io_error("input '{}' takes {}{}; there are {} in the first line{}", input, names, bags, columns,
                 near_names(input, header));
}

std::int64_t integer_of(std::string_view text, const WrittenInput& how) {
  if (const auto value = to_integer(trim(text))) return *value;
  if (how.are_bags && trim(text).empty()) return -1;
  if (how.are_words) return id_of_word(text);
  throw error("holds {}; it should be an integer{}", shown(text),
              how.are_bags ? "; words are ids of a model with hash=1" : "");
}

/// What one cell holds, from element `first` of the sample on.
void read_cell(std::string_view cell, const Cells& cells, std::size_t first, Tensor& sample) {
  const WrittenInput& how = cells.how;
  std::int64_t count = 0;
  const auto next = [&] { return first + static_cast<std::size_t>(count++); };
  if (how.are_bags && cell.empty()) {  // nothing is in it
  } else {
    for (const std::string_view text : split(cell, between_elements)) {
      if (count == cells.each)
        throw error("holds {} elements; {}", 1 + std::ranges::count(cell, between_elements),
                    how.are_bags ? fmt::format("a bag has room for {}", cells.each)
                                 : fmt::format("it should hold {}", cells.each));
      if (!is_floating(cells.sample.dtype)) {
        put_integer(sample, next(), integer_of(text, how), how);
        continue;
      }
      const auto value = to_number(trim(text));
      if (!value) throw error("holds {}; it should be a number", shown(text));
      put_number(sample, next(), *value, how);
    }
  }
  if (!how.are_bags && count < cells.each)
    throw error("holds {} elements; it should hold {}", count, cells.each);
  while (count < cells.each) put_integer(sample, next(), -1, how);
}

std::vector<std::string> header_of(CsvRecords& records, const std::string& path) {
  if (!records.next()) throw io_error("{}: is empty; its first line should name the columns", path);
  std::vector<std::string> out;
  std::set<std::string> seen;
  for (const std::string& cell : records.cells()) {
    out.emplace_back(trim(cell));
    if (!out.back().empty() && !seen.insert(out.back()).second)
      throw io_error("{}: two columns are called {}", records.place(), shown(out.back()));
  }
  return out;
}

/// A file of which it is known where every few records begin.
class CsvFile {
 public:
  CsvFile(const std::string& path, const WrittenInputs& inputs)
      : file_(path), separator_(csv_separator(path)) {
    CsvRecords records(file_, separator_, {}, block_of_all);
    header_ = header_of(records, path);
    for (const auto& [input, how] : inputs) {
      try {
        inputs_.push_back(cells_of(input, how, header_, inputs));
      } catch (const Error& e) {
        throw with_context(e, records.place());
      }
      if (inputs_.back().at.empty()) inputs_.pop_back();
    }
    std::vector<Tensor> sample = empty_sample();
    for (; records.next(); ++count_) {
      if (count_ % records_a_mark == 0) marks_.push_back(records.start());
      read_record(records, sample);
    }
    if (count_ == 0) throw io_error("{}: names columns but holds no samples", path);
  }

  std::vector<Column> columns() const {
    std::vector<Column> out;
    for (const Cells& cells : inputs_) out.push_back({cells.input, cells.sample});
    return out;
  }
  std::int64_t count() const { return count_; }

  std::vector<Tensor> read(std::int64_t index) const {
    CsvRecords records(file_, separator_, marks_[static_cast<std::size_t>(index / records_a_mark)],
                       block_of_few);
    for (std::int64_t behind = index % records_a_mark; behind >= 0; --behind)
      if (!records.next()) throw io_error("{}: has become shorter since it was opened", file_.path());
    std::vector<Tensor> out = empty_sample();
    read_record(records, out);
    return out;
  }

 private:
  std::vector<Tensor> empty_sample() const {
    std::vector<Tensor> out;
    for (const Cells& cells : inputs_) out.emplace_back(cells.sample);
    return out;
  }

  void read_record(const CsvRecords& records, std::vector<Tensor>& sample) const {
    const std::span<const std::string> cells = records.cells();
    if (cells.size() != header_.size())
      throw io_error("{}: has {} cells, but {} columns are named", records.place(), cells.size(),
                     header_.size());
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      std::size_t element = 0;
      for (const std::size_t at : inputs_[i].at) {
        try {
          read_cell(cells[at], inputs_[i], element, sample[i]);
        } catch (const Error& e) {
          throw io_error("{}: column {} {}", records.place(), shown(header_[at]), e.what());
        }
        element += static_cast<std::size_t>(inputs_[i].each);
      }
    }
  }

  OpenFile file_;
  char separator_;
  std::vector<std::string> header_;
  std::vector<Cells> inputs_;
  std::vector<CsvPlace> marks_;
  std::int64_t count_ = 0;
};

}  // namespace

std::vector<std::string> unread_columns(const std::string& path, const WrittenInputs& inputs) {
  if (!is_csv(path)) return {};
  const OpenFile file(path);
  CsvRecords records(file, csv_separator(path), {}, block_of_few);
  const std::vector<std::string> header = header_of(records, path);
  std::vector<std::string> out;
  for (const std::string& column : header)
    if (std::ranges::none_of(inputs,
                             [&](const auto& input) { return place_in(input.first, column).has_value(); }))
      out.push_back(column.empty() ? "one without a name" : shown(column));
  return out;
}

DataRows csv_rows(const std::string& path, const WrittenInputs& inputs) {
  const auto file = std::make_shared<const CsvFile>(path, inputs);
  return {.columns = file->columns(),
          .count = [file] { return file->count(); },
          .row = [file](std::int64_t epoch, std::int64_t index) -> std::optional<DataRow> {
            if (index >= file->count()) return std::nullopt;
            return DataRow{.values = file->read(index), .epoch = epoch, .sample = index};
          }};
}

}  // namespace shardwright

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>

#include "shardwright/base/error.h"
#include "shardwright/runtime/data/numpy_file.h"
#include "shardwright/runtime/data/token_lay.h"
#include "shardwright/runtime/data/written_columns.h"

namespace shardwright {
namespace {

constexpr std::int64_t checked_at_once = 1 << 16;  // elements

Shape without_ones(std::span<const std::int64_t> shape) {
  Shape out;
  std::ranges::copy_if(shape, std::back_inserter(out), [](std::int64_t size) { return size != 1; });
  return out;
}

template <class T>
void read_numbers(const OpenFile& file, std::int64_t from, std::span<double> to) {
  std::vector<T> numbers(to.size());
  file.read(from, std::as_writable_bytes(std::span(numbers)));
  std::ranges::transform(numbers, to.begin(), [](T x) { return static_cast<double>(x); });
}

/// One file of numpy's, whose first dim is the samples.
class NumpyColumn {
 public:
  NumpyColumn(const std::string& path, const std::string& input, WrittenInput how)
      : file_(path), head_(numpy_head(file_)), how_(std::move(how)), sample_(sample_type(input, how_)) {
    const Shape& shape = head_.shape;
    if (head_.is_fortran && shape.size() > 1)
      throw io_error("{}: lies column by column (fortran_order); numpy.ascontiguousarray saves it row by row",
                     path);
    const auto behind = std::span(shape).subspan(shape.empty() ? 0 : 1);
    if (shape.empty() || without_ones(behind) != without_ones(sample_.shape))
      throw io_error("{}: is {} but input '{}' takes {} of each sample; it should be [samples, ...]", path,
                     to_text(shape), input, to_text(sample_.shape));
    constexpr std::string_view known = "fiub";
    const char kind = head_.type[1];
    if (head_.type[0] == '>' || known.find(kind) == std::string_view::npos ||
        (kind == 'f' && head_.width > 8))
      throw io_error(
          "{}: holds numbers of type '{}'; integers and floats of up to 8 bytes, the lowest byte first, are "
          "read",
          path, head_.type);
    is_floating_ = kind == 'f';
    if (is_floating_ && !is_floating(sample_.dtype))
      throw io_error("{}: holds numbers of type '{}', but input '{}' takes integers", path, head_.type,
                     input);
  }

  Column column(const std::string& input) const { return {input, sample_}; }
  std::int64_t count() const { return head_.shape[0]; }

  Tensor read(std::int64_t index) const {
    Tensor out(sample_);
    const std::int64_t size = out.size();
    put(index * size, size, out);
    return out;
  }
  /// Throws: Error that names the first sample which holds what the input cannot take.
  void check() const {
    const std::int64_t all = element_count(head_.shape);
    Tensor one({sample_.dtype, {1}});
    for (std::int64_t from = 0; from < all; from += checked_at_once)
      put(from, std::min(checked_at_once, all - from), one);
  }

 private:
  /// Elements from `from` on, each into its place of `to`, if that has room for a sample.
  void put(std::int64_t from, std::int64_t count, Tensor& to) const {
    const auto each = [&](const auto& values, const auto& put_one) {
      for (std::int64_t i = 0; i < count; ++i) try {
          put_one(to, static_cast<std::size_t>((from + i) % to.size()), values[static_cast<std::size_t>(i)]);
        } catch (const Error& e) {
          const std::int64_t size = std::max<std::int64_t>(element_count(sample_.shape), 1);
          throw io_error("{}: sample {} {}", file_.path(), (from + i) / size, e.what());
        }
    };
    const std::int64_t at = head_.start + from * head_.width;
    if (is_floating_) {
      std::vector<double> values(static_cast<std::size_t>(count));
      read_floats(at, values);
      each(values, [&](Tensor& t, std::size_t i, double x) { put_number(t, i, x, how_); });
    } else {
      std::vector<std::int64_t> values(static_cast<std::size_t>(count));
      const TokenLay lay{head_.start, element_count(head_.shape), head_.width, head_.type[1] == 'i'};
      read_tokens(file_, lay, from, values);
      each(values, [&](Tensor& t, std::size_t i, std::int64_t x) { put_integer(t, i, x, how_); });
    }
  }

  void read_floats(std::int64_t at, std::span<double> to) const {
    if (head_.width == 2) return read_numbers<F16>(file_, at, to);
    if (head_.width == 4) return read_numbers<float>(file_, at, to);
    read_numbers<double>(file_, at, to);
  }

  OpenFile file_;
  NumpyHead head_;
  WrittenInput how_;
  Type sample_;
  bool is_floating_ = false;
};

}  // namespace

std::string numpy_path(const std::string& folder, const std::string& input) {
  return folder + "/" + input + ".npy";
}

DataRows numpy_rows(const std::string& folder, const WrittenInputs& inputs) {
  std::vector<std::shared_ptr<const NumpyColumn>> columns;
  DataRows out;
  for (const auto& [input, how] : inputs) {
    const std::string path = numpy_path(folder, input);
    std::error_code none;
    const bool is_there = std::filesystem::exists(path, none);
    if (!is_there && how.may_lack) continue;
    if (!is_there) throw io_error("{}: has no {}.npy, which the model needs", folder, input);
    columns.push_back(std::make_shared<const NumpyColumn>(path, input, how));
    out.columns.push_back(columns.back()->column(input));
    if (columns.back()->count() != columns.front()->count())
      throw io_error("{}: has {} samples but {}.npy has {}", path, columns.back()->count(),
                     out.columns[0].name, columns.front()->count());
  }
  if (columns.empty() || columns.front()->count() == 0) throw io_error("{}: holds no samples", folder);
  for (const auto& column : columns) column->check();
  out.count = [columns] { return columns.front()->count(); };
  out.row = [columns](std::int64_t epoch, std::int64_t index) -> std::optional<DataRow> {
    if (index >= columns.front()->count()) return std::nullopt;
    DataRow row{.epoch = epoch, .sample = index};
    for (const auto& column : columns) row.values.push_back(column->read(index));
    return row;
  };
  return out;
}

}  // namespace shardwright

#include "shardwright/runtime/data/rows.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <set>
#include <utility>

#include "shardwright/base/error.h"
#include "shardwright/base/random.h"
#include "shardwright/base/text.h"

namespace shardwright {
namespace {

/// DataRows that others are made of; closures share them.
using Source = std::shared_ptr<const DataRows>;
Source share(DataRows rows) { return std::make_shared<const DataRows>(std::move(rows)); }

std::vector<std::string> names_of(const std::vector<Column>& columns) {
  std::vector<std::string> names;
  for (const Column& c : columns) names.push_back(c.name);
  return names;
}

void refuse_twins(const std::vector<Column>& columns) {
  std::set<std::string_view> seen;
  for (const Column& c : columns)
    if (!seen.insert(c.name).second) throw error("dataset: two columns are called '{}'", c.name);
}

/// Tensors of one type, one behind the other along a new first dim.
Tensor stacked(const std::vector<DataRow>& rows, std::size_t column, const std::string& name) {
  const Type& type = rows[0].values[column].type();
  Shape shape{static_cast<std::int64_t>(rows.size())};
  shape.insert(shape.end(), type.shape.begin(), type.shape.end());
  Tensor out({type.dtype, std::move(shape)});
  std::byte* to = out.bytes().data();
  for (const DataRow& row : rows) {
    const Tensor& t = row.values[column];
    if (t.type() != type)
      throw error("batch: column '{}' has samples of {} and {}; bring them to one type before", name,
                  to_text(type), to_text(t.type()));
    if (!t.bytes().empty()) std::memcpy(to, t.bytes().data(), t.bytes().size());
    to += t.bytes().size();
  }
  return out;
}

DataRow batch_of(const std::vector<DataRow>& rows, const std::vector<Column>& columns) {
  DataRow out{.values = {}, .epoch = rows[0].epoch, .sample = rows[0].sample};
  for (std::size_t c = 0; c < columns.size(); ++c) out.values.push_back(stacked(rows, c, columns[c].name));
  return out;
}

}  // namespace

std::string to_text(const SampleType& type) {
  if (!type) return "an unknown type";
  std::vector<std::string> dims;
  for (const std::int64_t d : type->shape) dims.push_back(d == any_size ? "?" : std::to_string(d));
  return fmt::format("{}[{}]", name_of(type->dtype), join(dims, ", "));
}

bool has_any_size(const Shape& shape) { return std::ranges::find(shape, any_size) != shape.end(); }

std::size_t place_of(const std::vector<Column>& columns, std::string_view name) {
  const auto found = std::ranges::find(columns, name, &Column::name);
  if (found != columns.end()) return static_cast<std::size_t>(found - columns.begin());
  const std::vector<std::string> names = names_of(columns);
  throw error("dataset: has no column '{}'{}; it has {}", name, near_names(name, names), join(names, ", "));
}

DataRows shard_rows(DataRows rows, std::int64_t count, std::int64_t index) {
  if (count < 1 || index < 0 || index >= count)
    throw error("dataset: shard {} of {} does not exist; shards are numbered from 0", index, count);
  if (rows.is_stream || rows.is_endless)
    throw error("dataset: a stream without a known end has no shards; give rows by number and a length");
  DataRows out = rows;
  const Source source = share(std::move(rows));
  out.count = [source, count] { return (source->count() + count - 1) / count; };
  out.row = [source, count, index](std::int64_t epoch, std::int64_t i) -> std::optional<DataRow> {
    const std::int64_t all = source->count();
    if (all == 0 || i >= (all + count - 1) / count) return std::nullopt;
    return source->row(epoch, (i * count + index) % all);
  };
  return out;
}

DataRows batch_rows(DataRows rows, std::int64_t size, Remainder remainder) {
  if (size < 1) throw error("dataset: batch({}) must be at least 1", size);
  const bool is_dropped = remainder == Remainder::dropped;
  const bool is_counted = !rows.is_stream && !rows.is_endless;
  if (is_dropped && is_counted && size > rows.count())
    throw error("dataset: batch({}) is more than the {} samples there are; choose a smaller batch", size,
                rows.count());
  DataRows out = rows;
  const bool is_even = is_dropped || (is_counted && rows.count() % size == 0);
  for (Column& c : out.columns)
    if (c.type) c.type->shape.insert(c.type->shape.begin(), is_even ? size : any_size);
  out.batch = size;
  const Source source = share(std::move(rows));
  out.count = [source, size, is_dropped] { return (source->count() + (is_dropped ? 0 : size - 1)) / size; };
  out.row = [source, size, is_dropped](std::int64_t epoch, std::int64_t index) -> std::optional<DataRow> {
    std::vector<DataRow> parts;
    for (std::int64_t i = index * size; i < (index + 1) * size; ++i) {
      std::optional<DataRow> part = source->row(epoch, i);
      if (!part) break;
      parts.push_back(std::move(*part));
    }
    if (parts.empty() || (is_dropped && static_cast<std::int64_t>(parts.size()) < size)) return std::nullopt;
    return batch_of(parts, source->columns);
  };
  return out;
}

namespace {

/// Where the passes over a stream ended, as far as they have been read.
struct Passes {
  std::vector<std::int64_t> ends;
  std::int64_t epoch = -1;
  std::int64_t given = 0;  // behind the last row that was given
};

std::optional<DataRow> row_of_pass(const DataRows& rows, Passes& passes, std::optional<std::int64_t> times,
                                   std::int64_t epoch, std::int64_t index) {
  if (passes.epoch != epoch) passes = {{}, epoch, 0};
  std::vector<std::int64_t>& ends = passes.ends;
  for (;;) {
    const auto pass =
        static_cast<std::int64_t>(std::upper_bound(ends.begin(), ends.end(), index) - ends.begin());
    if (times && pass >= *times) return std::nullopt;
    const std::int64_t start = pass == 0 ? 0 : ends[static_cast<std::size_t>(pass - 1)];
    std::optional<DataRow> row = rows.row(epoch * times.value_or(1) + pass, index - start);
    if (row) passes.given = index + 1;
    if (row || pass < static_cast<std::int64_t>(ends.size())) return row;
    // The pass has ended before this row; who reads in order has just had the last one.
    std::int64_t length = std::max<std::int64_t>(0, passes.given <= index ? passes.given - start : 0);
    while (rows.row(epoch * times.value_or(1) + pass, length)) ++length;
    if (length == 0) return std::nullopt;
    ends.push_back(start + length);
  }
}

}  // namespace

DataRows repeated_rows(DataRows rows, std::optional<std::int64_t> times) {
  if (times && *times < 1) throw error("dataset: repeat({}) must be at least 1, or without a number", *times);
  if (rows.is_endless) throw error("dataset: what is repeated without end cannot be repeated again");
  DataRows out = rows;
  out.is_endless = !times;
  out.repeats = rows.repeats * times.value_or(0);
  const Source source = share(std::move(rows));
  out.count = [source, times] { return source->count() * times.value_or(1); };
  if (source->is_stream) {
    const auto passes = std::make_shared<Passes>();
    out.row = [source, passes, times](std::int64_t epoch, std::int64_t index) {
      return row_of_pass(*source, *passes, times, epoch, index);
    };
    return out;
  }
  out.row = [source, times](std::int64_t epoch, std::int64_t index) -> std::optional<DataRow> {
    const std::int64_t all = source->count();
    if (all == 0 || (times && index / all >= *times)) return std::nullopt;
    return source->row(epoch * times.value_or(1) + index / all, index % all);
  };
  return out;
}

DataRows part_of_rows(DataRows rows, std::int64_t skipped, std::optional<std::int64_t> count) {
  if (skipped < 0) throw error("dataset: skip({}) must be at least 0", skipped);
  if (count && *count < 0) throw error("dataset: take({}) must be at least 0", *count);
  DataRows out = rows;
  out.is_endless = rows.is_endless && !count;
  const Source source = share(std::move(rows));
  out.count = [source, skipped, count] {
    if (source->is_endless && count) return *count;
    const std::int64_t rest = std::max<std::int64_t>(0, source->count() - skipped);
    return count ? std::min(rest, *count) : rest;
  };
  out.row = [source, skipped, count](std::int64_t epoch, std::int64_t index) -> std::optional<DataRow> {
    if (count && index >= *count) return std::nullopt;
    return source->row(epoch, skipped + index);
  };
  return out;
}

DataRows projected_rows(DataRows rows, const std::vector<std::string>& columns) {
  DataRows out = rows;
  out.columns.clear();
  std::vector<std::size_t> places;
  for (const std::string& name : columns) {
    places.push_back(place_of(rows.columns, name));
    out.columns.push_back(rows.columns[places.back()]);
  }
  if (columns.empty()) throw error("dataset: project names no columns");
  refuse_twins(out.columns);
  const Source source = share(std::move(rows));
  out.row = [source, places](std::int64_t epoch, std::int64_t index) {
    std::optional<DataRow> row = source->row(epoch, index);
    if (!row) return row;
    std::vector<Tensor> values;
    for (const std::size_t p : places) values.push_back(std::move(row->values[p]));
    row->values = std::move(values);
    return row;
  };
  return out;
}

DataRows renamed_rows(DataRows rows, const std::vector<std::string>& from,
                      const std::vector<std::string>& to) {
  if (from.size() != to.size())
    throw error("dataset: rename has {} columns and {} new names", from.size(), to.size());
  std::vector<std::size_t> places;
  for (const std::string& name : from) places.push_back(place_of(rows.columns, name));
  for (std::size_t i = 0; i < to.size(); ++i) rows.columns[places[i]].name = to[i];
  refuse_twins(rows.columns);
  return rows;
}

DataRows zipped_rows(std::vector<DataRows> all) {
  require(!all.empty(), "nothing to zip");
  DataRows out = all[0];
  for (std::size_t i = 1; i < all.size(); ++i) {
    out.columns.insert(out.columns.end(), all[i].columns.begin(), all[i].columns.end());
    out.is_stream = out.is_stream || all[i].is_stream;
    out.is_threaded = out.is_threaded && all[i].is_threaded;
    out.is_endless = out.is_endless && all[i].is_endless;
  }
  refuse_twins(out.columns);
  const auto sources = std::make_shared<const std::vector<DataRows>>(std::move(all));
  out.count = [sources, is_endless = out.is_endless] {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (const DataRows& rows : *sources)
      if (!rows.is_endless || is_endless) least = std::min(least, rows.count());
    return least;
  };
  out.row = [sources](std::int64_t epoch, std::int64_t index) {
    std::optional<DataRow> row;
    for (const DataRows& rows : *sources) {
      std::optional<DataRow> part = rows.row(epoch, index);
      if (!part) return part;
      if (row)
        std::ranges::move(part->values, std::back_inserter(row->values));
      else
        row = std::move(part);
    }
    return row;
  };
  return out;
}

DataRows joined_rows(DataRows first, DataRows second) {
  if (names_of(first.columns) != names_of(second.columns))
    throw error("dataset: columns {} cannot stand behind columns {}", join(names_of(second.columns), ", "),
                join(names_of(first.columns), ", "));
  if (first.is_stream || first.is_endless)
    throw error("dataset: nothing can stand behind a stream without a known end");
  DataRows out = first;
  for (std::size_t c = 0; c < out.columns.size(); ++c)
    if (first.columns[c].type != second.columns[c].type) out.columns[c].type = std::nullopt;
  out.is_stream = second.is_stream;
  out.is_endless = second.is_endless;
  out.is_threaded = first.is_threaded && second.is_threaded;
  const Source head = share(std::move(first)), tail = share(std::move(second));
  out.count = [head, tail] { return head->count() + tail->count(); };
  out.row = [head, tail](std::int64_t epoch, std::int64_t index) {
    const std::int64_t before = head->count();
    if (index < before) return head->row(epoch, index);
    std::optional<DataRow> row = tail->row(epoch, index - before);
    if (row) row->sample += before;
    return row;
  };
  return out;
}

}  // namespace shardwright

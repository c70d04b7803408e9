#include "shardwright/runtime/checkpoint/tensor_source.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <set>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/base/error.h"
#include "shardwright/base/file.h"
#include "shardwright/base/text.h"
#include "shardwright/plan/json_text.h"
#include "shardwright/runtime/checkpoint/folder.h"
#include "shardwright/runtime/checkpoint/reader.h"
#include "shardwright/runtime/safetensors.h"

namespace shardwright {
namespace {

/// A plain file says of no tensor what it is. One that is called after another, `dense1.weight.momentum`, is the state of
/// that; and some names are states' alone.
bool is_state_in(const std::vector<std::string>& names, const std::string& name) {
  if (name == steps_state || name == loss_scale_state || name == good_steps_state) return true;
  const auto dot = name.rfind('.');
  return dot != name.npos && std::ranges::binary_search(names, name.substr(0, dot));
}

TensorSource of_file(const std::string& path) {
  const auto file = std::make_shared<const SafetensorsFile>(SafetensorsFile::open(path));
  TensorSource out{.path = path, .items = {}, .read = {}, .run = {}, .plan = {}};
  if (const auto run = file->metadata().find("shardwright.run"); run != file->metadata().end()) try {
      out.run = parse_run(run->second);
    } catch (const Error& e) {
      throw with_context(e, path + ": what it says of its run");
    }
  std::vector<std::string> sorted = file->names();
  std::ranges::sort(sorted);
  for (const std::string& name : file->names())
    out.items.push_back({name, file->type(name), is_state_in(sorted, name)});
  out.read = [file, names = file->names()](std::size_t i, const Box& where, std::span<std::byte> to) {
    file->read_part(names[i], where, to);
  };
  return out;
}

/// What differs of a tensor that both have in one type.
TensorDifference difference_of(const TensorSource& a, const TensorSource::Item& item, const TensorSource& b,
                               const TensorSource::Item& other) {
  TensorDifference out{.name = item.name, .types = {}};
  for_each_block(whole_box(item.type.shape), elements_at_once, [&](const Box& block) {
    Tensor first({item.type.dtype, block.extent}), second(first.type());
    a.read_of(item, block, first.bytes());
    b.read_of(other, block, second.bytes());
    if (std::ranges::equal(first.bytes(), second.bytes())) return;
    const std::vector<double> x = to_doubles(first), y = to_doubles(second);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
      ++out.elements;
      const double by = std::abs(x[i] - y[i]);
      out.largest = std::isnan(by) ? by : std::max(out.largest, by);
    }
  });
  return out;
}

}  // namespace

const TensorSource::Item* TensorSource::find(std::string_view name) const {
  const auto it = std::ranges::find(items, name, &Item::name);
  return it == items.end() ? nullptr : &*it;
}

void TensorSource::read_of(const Item& item, const Box& where, std::span<std::byte> to) const {
  read(static_cast<std::size_t>(&item - items.data()), where, to);
}

void TensorSource::read_as(DType dtype, const Item& item, const Box& where, std::span<std::byte> to) const {
  if (item.type.dtype == dtype) return read_of(item, where, to);
  Tensor part({item.type.dtype, where.extent});
  read_of(item, where, part.bytes());
  std::ranges::copy(convert(part, dtype).bytes(), to.begin());
}

TensorSource source_of(const CheckpointReader& opened) {
  const Manifest& m = opened.manifest();
  TensorSource out{.path = opened.folder(), .items = {}, .read = {}, .run = m.run, .plan = m.plan};
  for (const SavedTensor& t : m.tensors) out.items.push_back({t.name, t.type, t.is_state});
  out.read = [reader = opened](std::size_t i, const Box& where, std::span<std::byte> to) {
    reader.read(reader.manifest().tensors[i], where, to);
  };
  return out;
}

TensorSource open_source(const std::string& path) {
  return path.ends_with(".safetensors") && std::filesystem::is_regular_file(path)
             ? of_file(path)
             : source_of(open_checkpoint(path));
}

void rename(TensorSource& source, const std::map<std::string, std::string>& names) {
  std::vector<std::string> known;
  for (const TensorSource::Item& item : source.items) known.push_back(item.name);
  for (const auto& [from, to] : names)
    if (!source.find(from))
      throw error("{}: has no tensor '{}'{}", source.path, from, near_names(from, known));
  std::set<std::string> taken;
  for (const std::string& name : known) {
    const auto it = names.find(name);
    const std::string& own = it == names.end() ? name : it->second;
    if (!taken.insert(own).second) throw error("two tensors would be called '{}'", own);
  }
  for (TensorSource::Item& item : source.items)
    if (const auto it = names.find(item.name); it != names.end()) item.name = it->second;
}

std::map<std::string, std::string> read_names(const std::string& path) try {
  const Json json = parse_json(read_text(path, most_settings_bytes * 16));
  if (!json.is_object()) throw error("should be an object of new names by old ones");
  std::map<std::string, std::string> out;
  for (const auto& [from, to] : json.items()) {
    if (!to.is_string()) throw error("\"{}\" should be the tensor's new name, not {}", from, short_text(to));
    out[from] = to.get<std::string>();
  }
  return out;
} catch (const Error& e) {
  throw e.kind() == ErrorKind::io ? Error(e) : with_context(e, path);
}

void drop_states(TensorSource& source) {
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < source.items.size(); ++i)
    if (!source.items[i].is_state) kept.push_back(i);
  std::vector<TensorSource::Item> items;
  for (std::size_t i : kept) items.push_back(source.items[i]);
  source.items = std::move(items);
  source.read = [kept, read = source.read](std::size_t i, const Box& where, std::span<std::byte> to) {
    read(kept[i], where, to);
  };
}

SourceDifference difference_of(const TensorSource& a, const TensorSource& b) {
  SourceDifference out;
  std::map<std::string_view, const TensorSource::Item*> others;
  for (const TensorSource::Item& item : b.items) others[item.name] = &item;
  for (const TensorSource::Item& item : a.items) {
    const auto it = others.find(item.name);
    if (it == others.end()) {
      out.only_in_first.push_back(item.name);
      continue;
    }
    const TensorSource::Item& other = *it->second;
    others.erase(it);
    ++out.compared;
    if (item.type != other.type) {
      out.tensors.push_back(
          {.name = item.name, .types = fmt::format("{} and {}", to_text(item.type), to_text(other.type))});
    } else if (TensorDifference d = difference_of(a, item, b, other); d.elements > 0) {
      out.tensors.push_back(std::move(d));
    }
  }
  for (const TensorSource::Item& item : b.items)
    if (others.contains(item.name)) out.only_in_second.push_back(item.name);
  return out;
}

}  // namespace shardwright

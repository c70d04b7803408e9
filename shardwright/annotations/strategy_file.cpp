#include "shardwright/annotations/strategy_file.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>
#include <set>

#include "shardwright/annotations/strategy_formats.h"
#include "shardwright/base/file.h"
#include "shardwright/base/index.h"
#include "shardwright/base/text.h"
#include "shardwright/cost/cluster.h"
#include "shardwright/layout/layout.h"

namespace shardwright {
namespace {

constexpr std::int64_t most_file_bytes = std::int64_t{1}
                                         << 25;  // a network of a thousand layers has a tenth of it
constexpr int most_stages = 4096;

std::string shown(const std::vector<std::int64_t>& numbers) {
  constexpr std::size_t most = 10;
  std::string out = "[";
  for (std::size_t i = 0; i < std::min(numbers.size(), most); ++i)
    out += fmt::format("{}{}", i ? ", " : "", numbers[i]);
  return out + (numbers.size() > most ? ", ...]" : "]");
}

Mesh matrix_of(const std::vector<std::int64_t>& sizes, std::vector<std::string> names) {
  const auto is_none = [&](const char* why) {
    return error("the device matrix {} is not valid: {}", shown(sizes), why);
  };
  if (sizes.size() > Axes::max_size) throw is_none("it has more than 15 axes");
  if (names.empty())
    for (std::size_t a = 0; a < sizes.size(); ++a) names.push_back(fmt::format("axis{}", a));
  if (names.size() != sizes.size()) throw is_none("it has another number of names");
  Mesh out;
  std::int64_t devices = 1;
  for (std::size_t a = 0; a < sizes.size(); ++a) {
    if (sizes[a] < 1 || sizes[a] > most_devices) throw is_none("an axis has no such size");
    devices *= sizes[a];
    if (devices > most_devices) throw is_none("no cluster has so many devices");
    out.axes.push_back({std::move(names[a]), static_cast<int>(sizes[a])});
  }
  check(out);
  return out;
}

/// Throws: Error unless all device matrices of one stage have as many devices.
void check_devices(const StrategyFile& file) {
  std::map<int, int> devices;
  const auto take = [&](int stage, const MatrixLayout& layout) {
    const auto [it, is_new] = devices.emplace(stage, layout.matrix.size());
    if (!is_new && it->second != layout.matrix.size())
      throw error("device matrices of one stage have {} and {} devices",
                  std::min(it->second, layout.matrix.size()), std::max(it->second, layout.matrix.size()));
  };
  for (const FileOperator& op : file.operators)
    if (!op.in.empty()) take(op.stage, op.in.front());  // all of its inputs have this one
  for (const FileParameter& p : file.parameters) take(p.stage, p.layout);
}

/// Throws: Error where a name stands twice, or an operator says two things.
void check_entries(const StrategyFile& file) {
  std::set<std::string> operators;
  for (const FileOperator& op : file.operators) {
    if (!operators.insert(op.name).second) throw error("operator '{:.200}' is there twice", op.name);
    for (const MatrixLayout& layout : op.in)
      if (layout.matrix != op.in.front().matrix)
        throw error("operator '{:.200}' has several device matrices", op.name);
  }
  std::set<std::pair<int, std::string>> parameters;
  for (const FileParameter& p : file.parameters)
    if (!parameters.emplace(p.stage, p.name).second)
      throw error("parameter '{:.200}' is there twice", p.name);
}

std::string bytes_of(const std::string& path) {
  if (readable_bytes(path) > most_file_bytes)
    throw io_error("{}: cannot be read: more than {} bytes", path, most_file_bytes);
  std::ifstream in(path, std::ios::binary);
  if (!in) throw unreadable(path, errno);
  return {std::istreambuf_iterator<char>(in), {}};
}

bool is_json_by_name(const std::string& path) { return path.ends_with(".json"); }

}  // namespace

std::vector<std::int64_t> MatrixLayout::parts() const {
  std::vector<std::int64_t> out;
  for (const Axes& axes : dims) out.push_back(matrix.count(axes));
  return out;
}

MatrixLayout matrix_layout(const std::vector<std::int64_t>& sizes, std::vector<std::string> names,
                           const std::vector<std::vector<std::int64_t>>& tensor_map) {
  MatrixLayout out{.matrix = matrix_of(sizes, std::move(names)), .dims = {}};
  const std::int64_t count = out.matrix.axis_count();
  Axes used;
  for (const std::vector<std::int64_t>& dim : tensor_map) {
    Axes& axes = out.dims.emplace_back();
    for (const std::int64_t from_right : dim) {
      if (from_right == -1) continue;
      const bool is_axis = from_right >= 0 && from_right < count;
      const int axis = is_axis ? static_cast<int>(count - 1 - from_right) : -1;
      if (!is_axis || used.contains(axis))
        throw error("the tensor map does not fit the device matrix {}: {} is {}", shown(sizes), from_right,
                    is_axis ? "there twice" : "no axis");
      axes.push_back(axis);
      used.push_back(axis);
    }
  }
  return out;
}

std::vector<std::vector<std::int64_t>> tensor_map_of(const MatrixLayout& layout) {
  std::vector<std::vector<std::int64_t>> out;
  for (const Axes& axes : layout.dims) {
    auto& dim = out.emplace_back();
    for (const int axis : axes) dim.push_back(layout.matrix.axis_count() - 1 - axis);
    if (dim.empty()) dim.push_back(-1);
  }
  return out;
}

bool has_usual_names(const Mesh& matrix) {
  for (std::size_t a = 0; a < matrix.axes.size(); ++a)
    if (matrix.axes[a].name != fmt::format("axis{}", a)) return false;
  return true;
}

MatrixLayout with_optimizer_shards(const MatrixLayout& layout, std::int64_t size) {
  Axes used;
  for (const Axes& axes : layout.dims)
    for (const int axis : axes) used.push_back(axis);
  const Axes free = layout.matrix.all_axes().without(used);
  std::int64_t left = size == -1 ? layout.matrix.count(free) : size;
  // Of each axis the part that the optimizer takes: its inner one.
  std::vector<int> taken(layout.matrix.axes.size(), 1);
  for (int i = free.size(); i-- > 0 && left > 1;) {
    taken[at(free[i])] = static_cast<int>(std::gcd(left, std::int64_t{layout.matrix.size_of(free[i])}));
    left /= taken[at(free[i])];
  }
  if (left != 1 || layout.dims.empty())
    throw error("the device matrix {} has no {} replicas for the optimizer", to_text(layout.matrix), size);
  MatrixLayout out;
  std::vector<Axes> becomes;
  Axes more;
  for (int a = 0; a < layout.matrix.axis_count(); ++a) {
    const int extent = layout.matrix.size_of(a), inner = taken[at(a)];
    const std::string& name = layout.matrix.axes[at(a)].name;
    becomes.push_back({out.matrix.axis_count()});
    if (inner == 1 || inner == extent) {
      out.matrix.axes.push_back({name, extent});
    } else {
      out.matrix.axes.push_back({name + "_outer", extent / inner});
      out.matrix.axes.push_back({name, inner});
    }
    if (out.matrix.axis_count() > Axes::max_size) throw error("the device matrix has more than 15 axes");
    if (inner > 1) more.push_back(out.matrix.axis_count() - 1);
  }
  for (const Axes& axes : layout.dims) out.dims.push_back(translate(axes, becomes));
  out.dims[0] = out.dims[0].with(more);
  return out;
}

int StrategyFile::turns() const {
  int last = 0;
  for (const FileOperator& op : operators) last = std::max(last, op.turn);
  return last + 1;
}

int StrategyFile::stages() const {
  int last = 0;
  for (const FileOperator& op : operators) last = std::max(last, op.stage);
  for (const FileParameter& p : parameters) last = std::max(last, p.stage);
  return last + 1;
}

namespace strategy_formats {

void check_count(std::size_t count, std::size_t most, std::string_view what) {
  if (count > most) throw error("there are more than {} {}", most, what);
}

int stage_number(std::int64_t number) {
  if (number < 0 || number >= most_stages) throw error("{} stands where a stage should be", number);
  return static_cast<int>(number);
}

FileParameter named_parameter(const std::string& name) {
  constexpr std::size_t most_digits = 6;
  const std::size_t digits = static_cast<std::size_t>(
      std::ranges::find_if_not(name, [](unsigned char c) { return std::isdigit(c); }) - name.begin());
  if (digits == 0 || digits > most_digits || digits + 1 >= name.size() || name[digits] != '-')
    return {.name = name};
  return {.name = name.substr(digits + 1),
          .stage = stage_number(*to_integer(name.substr(0, digits))),
          .names_stage = true};
}

std::string name_in_file(const FileParameter& parameter, bool is_joined) {
  return is_joined ? fmt::format("{}-{}", parameter.stage, parameter.name) : parameter.name;
}

std::int64_t optimizer_step(const MatrixLayout& layout, std::int64_t shards) {
  if (shards == 1) return 0;
  Axes free = layout.matrix.all_axes();
  for (const Axes& axes : layout.dims) free = free.without(axes);
  for (int i = free.size(); i-- > 0;)  // replicas are taken from the right
    if (layout.matrix.size_of(free[i]) > 1) return layout.matrix.stride_of(free[i]);
  return 1;
}

bool is_joined(const StrategyFile& file) {
  return std::ranges::any_of(file.parameters, [](const FileParameter& p) {
    return p.stage > 0 || named_parameter(p.name).name != p.name;  // else its name would say a stage
  });
}

}  // namespace strategy_formats

StrategyFile parse_strategies(std::string_view bytes, bool is_json) {
  StrategyFile out = is_json ? strategy_formats::from_json(bytes) : strategy_formats::from_protobuf(bytes);
  if (out.operators.empty() && out.parameters.empty())
    throw error("it says nothing of operators or parameters");
  check_entries(out);
  check_devices(out);
  return out;
}

StrategyFile load_strategies(const std::string& path) {
  const std::string bytes = bytes_of(path);
  try {
    return parse_strategies(bytes, is_json_by_name(path));
  } catch (const Error& e) {
    throw error("{}: is no strategy file: {:.300}", path, e.what());  // it may quote much of the file
  }
}

std::string to_bytes(const StrategyFile& file, bool is_json) {
  return is_json ? strategy_formats::to_json(file) : strategy_formats::to_protobuf(file);
}

void save_strategies(const StrategyFile& file, const std::string& path) {
  write_file(path, to_bytes(file, is_json_by_name(path)));
}

}  // namespace shardwright

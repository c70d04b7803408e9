#include "shardwright/frontend/huggingface/names.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>

#include "shardwright/base/error.h"
#include "shardwright/base/index.h"
#include "shardwright/base/text.h"
#include "shardwright/frontend/huggingface/pieces.h"
#include "shardwright/graph/op.h"

namespace shardwright::huggingface {
namespace {

/// Numbers between dots as #, and the first of them.
std::pair<std::string, std::string> without_numbers(const std::string& name) {
  std::vector<std::string> words;
  std::string first;
  for (std::string_view word : split(name, '.')) {
    const bool is_number =
        !word.empty() && std::ranges::all_of(word, [](char c) { return c >= '0' && c <= '9'; });
    if (is_number && first.empty()) first = word;
    words.emplace_back(is_number ? "#" : word);
  }
  return {join(words, "."), first};
}

std::string replaced(std::string text, char what, const std::string& by) {
  for (std::size_t at = text.find(what); at != text.npos; at = text.find(what, at + by.size()))
    text.replace(at, 1, by);
  return text;
}

/// One tensor of theirs that is being put together.
struct Made {
  FolderTensor tensor;
  std::int64_t filled = 0;  // along the dim of features
};

class Maker {
 public:
  Maker(const Names& names, const WeightFiles* weights) : names_(names), weights_(weights) {
    if (!weights) return;
    const auto begins = [&](const std::string& name) { return name.starts_with(names.prefix); };
    has_prefix_ = std::ranges::any_of(weights->names(), begins);
  }

  void add(const std::string& parameter, const Type& type) {
    const auto [pattern, number] = without_numbers(parameter);
    const auto row = std::ranges::find(names_.rows, pattern, &NameRow::ours);
    require(row != names_.rows.end(), "no name for {} in the family's table", parameter);
    const std::string theirs = their_name(replaced(row->theirs, '#', number));
    const bool has_experts = theirs.find('@') != theirs.npos;
    for (std::int64_t e = 0; e < (has_experts ? type.shape[0] : 1); ++e) {
      Box ours{Shape(type.shape.size()), type.shape};
      if (has_experts) ours.offset[0] = e, ours.extent[0] = 1;
      add(replaced(theirs, '@', std::to_string(e)), *row, parameter, type, ours);
    }
  }

  std::map<std::string, Made>& made() { return made_; }
  /// What their names lack here.
  std::string missing_prefix() const { return has_prefix_ || !weights_ ? "" : names_.prefix; }

 private:
  std::string their_name(const std::string& name) const {
    const bool is_inside = std::ranges::find(names_.outside, name) == names_.outside.end();
    return is_inside && (has_prefix_ || !weights_) ? names_.prefix + name : name;
  }

  /// Box `ours` becomes part of the tensor, behind what it has.
  void add(const std::string& name, const NameRow& row, const std::string& parameter, const Type& type,
           const Box& ours) {
    Made& made = made_[name];
    const bool is_transposed = row.lay == Lay::transposed;
    // Dims of size 1 in front are of experts, and not theirs.
    Shape theirs(
        ours.extent.begin() + (ours.extent.size() == type.shape.size() && name_has_expert(row) ? 1 : 0),
        ours.extent.end());
    if (is_transposed) std::swap(theirs[theirs.size() - 2], theirs[theirs.size() - 1]);
    const std::size_t features = is_transposed ? theirs.size() - 2 : theirs.size() - 1;
    const std::int64_t size = theirs.empty() ? 1 : theirs[features], groups = row.groups;
    const std::int64_t others = made.filled;
    if (made.tensor.pieces.empty()) {
      made.tensor.name = name;
      made.tensor.type = {type.dtype, theirs};
    } else {
      made.tensor.type.shape[features] += size;
    }
    require(size % groups == 0, "{} in {} groups", parameter, groups);
    for (std::int64_t g = 0; g < groups; ++g) {
      TensorPiece piece{.parameter = parameter,
                        .ours = ours,
                        .theirs = {Shape(theirs.size()), theirs},
                        .is_transposed = is_transposed};
      if (!theirs.empty()) {
        piece.ours.extent.back() = piece.theirs.extent[features] = size / groups;
        piece.ours.offset.back() += g * (size / groups);
        // Where it begins depends on all parts: told in `finish`.
        piece.theirs.offset[features] = others / groups;
      }
      made.tensor.pieces.push_back(std::move(piece));
    }
    made.filled += size;
    if (groups > 1) grouped_[name] = {groups, features};
  }

  static bool name_has_expert(const NameRow& row) { return row.theirs.find('@') != row.theirs.npos; }

 public:
  /// Where parts change places, each group holds one piece of each part.
  void finish() {
    for (const auto& [name, by] : grouped_) {
      Made& made = made_.at(name);
      std::map<std::string, std::int64_t> seen;
      for (TensorPiece& piece : made.tensor.pieces)
        piece.theirs.offset[by.second] += seen[piece.parameter]++ * (made.filled / by.first);
    }
  }

 private:
  const Names& names_;
  const WeightFiles* weights_;
  bool has_prefix_ = false;
  std::map<std::string, Made> made_;
  std::map<std::string, std::pair<std::int64_t, std::size_t>> grouped_;
};

/// The elements of the piece that are `where` of the parameter, brought into `to`, which holds that.
void read_piece(const SafetensorsFile& file, const std::string& name, const TensorPiece& piece,
                const Box& where, std::span<std::byte> to) {
  const Box part = intersect(piece.ours, where);
  if (element_count(part.extent) == 0) return;
  const Box theirs = theirs_of(piece, part);
  const DType dtype = file.type(name).dtype;
  Tensor block({dtype, theirs.extent});
  file.read_part(name, theirs, block.bytes());
  copy_piece(copy_of(piece, part, theirs, where), block.bytes().data(), to.data(), size_of(dtype));
}

TensorSource source_of(const Graph& graph, const ModelFolder& folder, const WeightFiles& weights) {
  struct Use {
    std::string name;
    TensorPiece piece;
  };
  std::map<std::string, std::vector<Use>> uses;
  std::map<std::string, DType> dtypes;
  for (const auto& [file, tensors] : folder.files)
    for (const FolderTensor& t : tensors)
      for (const TensorPiece& piece : t.pieces) {
        uses[piece.parameter].push_back({t.name, piece});
        const auto [it, is_new] = dtypes.emplace(piece.parameter, t.type.dtype);
        if (!is_new && it->second != t.type.dtype)
          throw io_error("{}: '{}' is {} but others that belong together with it are {}", folder.path, t.name,
                         name_of(t.type.dtype), name_of(it->second));
      }
  TensorSource out{.path = folder.path, .items = {}, .read = {}, .run = {}, .plan = {}};
  std::vector<std::vector<Use>> of_items;
  for (const Node& node : graph.nodes) {
    if (node.op->kind != OpKind::parameter) continue;
    const Value& v = graph.value(node.results[0]);
    out.items.push_back({v.name, {dtypes.at(v.name), v.type.shape}, false});
    of_items.push_back(std::move(uses.at(v.name)));
  }
  out.read = [of_items = std::move(of_items), weights](std::size_t i, const Box& where,
                                                       std::span<std::byte> to) {
    for (const Use& use : of_items[i]) read_piece(weights.file_of(use.name), use.name, use.piece, where, to);
  };
  return out;
}

void check_type(const FolderTensor& want, const WeightFiles& weights) {
  const std::string& path = weights.file_of(want.name).path();
  const Type& have = weights.type(want.name);
  if (!is_floating(have.dtype))
    throw io_error("{}: '{}' is {}; weights are F32, BF16, F16 or F64", path, want.name, to_text(have));
  if (have.shape != want.type.shape)
    throw io_error("{}: '{}' is {} but config.json makes it {}", path, want.name, to_text(have.shape),
                   to_text(want.type.shape));
}

}  // namespace

ModelFolder folder_of(const Graph& graph, const Names& names, const std::string& config_path,
                      const WeightFiles* weights) {
  Maker maker(names, weights);
  for (const Node& node : graph.nodes)
    if (node.op->kind == OpKind::parameter) {
      const Value& v = graph.value(node.results[0]);
      maker.add(v.name, v.type);
    }
  maker.finish();
  ModelFolder out{.path = std::filesystem::path(config_path).parent_path().string(),
                  .config = config_path,
                  .files = {},
                  .weights = {},
                  .prefix = maker.missing_prefix(),
                  .outside = names.outside};
  if (!weights) {
    for (auto& [name, made] : maker.made()) out.files["model.safetensors"].push_back(std::move(made.tensor));
    return out;
  }
  out.path = weights->folder();
  std::set<std::string> used;
  for (auto& [name, made] : maker.made()) {
    check_type(made.tensor, *weights);  // throws with near names if there is none
    made.tensor.type = weights->type(name);
    used.insert(name);
    const std::string& path = weights->file_of(name).path();
    out.files[path.substr(path.rfind('/') + 1)].push_back(std::move(made.tensor));
  }
  for (const SafetensorsFile& file : weights->files())
    for (const std::string& name : file.names()) {
      if (used.contains(name)) continue;
      const std::string pattern = without_numbers(name).first;
      const auto is_known = [&](const std::string& ignored) {
        return pattern == ignored || pattern == names.prefix + ignored;
      };
      if (std::ranges::none_of(names.ignored, is_known))
        throw io_error("{}: has '{}', which a network of this config.json does not have", file.path(), name);
      out.files[file.path().substr(file.path().rfind('/') + 1)].push_back({name, file.type(name), {}});
    }
  out.weights = source_of(graph, out, *weights);
  return out;
}

}  // namespace shardwright::huggingface

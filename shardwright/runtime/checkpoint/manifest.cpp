#include "shardwright/runtime/checkpoint/manifest.h"

#include <algorithm>
#include <limits>
#include <set>
#include <span>

#include "shardwright/base/checksum.h"
#include "shardwright/base/error.h"
#include "shardwright/base/index.h"
#include "shardwright/base/text.h"
#include "shardwright/plan/json_fields.h"

namespace shardwright {
namespace {

constexpr int known_format = 1;
constexpr std::string_view before_sum = R"({"checksum": ")", behind_sum = "\",\n";

Json json_of(const SavedTensor& t) {
  return Json{{"name", t.name},     {"type", to_text(t.type)}, {"kind", t.is_state ? "state" : "parameter"},
              {"layout", t.layout}, {"cuts", t.cuts},          {"shards", t.shards}};
}

Json json_of(const Shard& s) {
  std::string sums;
  for (std::uint64_t sum : s.blocks) sums += checksum_text(sum);
  return Json{{"file", s.file}, {"bytes", s.bytes}, {"checksums", sums}};
}

/// Throws: Error if it is none, with where it stands.
template <class F>
void for_each_of(const Json& json, const char* key, F use) {
  const Json& list = member(json, key);
  if (!list.is_array()) throw kind_error(key, "a list", list);
  for (std::size_t i = 0; i < list.size(); ++i) try {
      use(list[i]);
    } catch (const Error& e) {
      throw with_context(e, fmt::format("{} {}", key, i));
    }
}

std::string text_in(const Json& json, const char* key) {
  member(json, key);
  return text_or(json, key, "");
}

Type type_in(const Json& json) {
  const std::string text = text_in(json, "type");
  Scanner in(text);
  Type type = parse_type(in);
  if (!in.at_end() || to_text(type) != text) throw error("the type {} is none", text);
  type.bytes();  // it can be told
  return type;
}

SavedTensor tensor_in(const Json& json, std::span<const Shard> shards) {
  SavedTensor t{.name = text_in(json, "name"), .type = type_in(json), .layout = text_in(json, "layout")};
  const std::string kind = text_in(json, "kind");
  if (kind != "parameter" && kind != "state")
    throw error("\"kind\" should be parameter or state, not {}", kind);
  t.is_state = kind == "state";
  std::int64_t cells = 1;
  for_each_of(json, "cuts", [&](const Json& dim) {
    const std::size_t d = t.cuts.size();
    if (d >= t.type.shape.size()) throw error("{} has no such dim", to_text(t.type));
    if (!dim.is_array()) throw kind_error("cuts", "lists", dim);
    std::vector<std::int64_t> begins;
    for (const Json& begin : dim)
      begins.push_back(long_of(begin, "cuts", begins.empty() ? 0 : begins.back() + 1,
                               begins.empty() ? 0 : t.type.shape[d] - 1));
    if (begins.empty() != (t.type.shape[d] == 0)) throw error("the parts do not cover {}", to_text(t.type));
    if (__builtin_mul_overflow(cells, static_cast<std::int64_t>(begins.size()), &cells))
      throw error("there are too many parts");
    t.cuts.push_back(std::move(begins));
  });
  if (t.cuts.size() != t.type.shape.size())
    throw error("has \"cuts\" of {} dims but is {}", t.cuts.size(), to_text(t.type));
  const Json& holders = member(json, "shards");
  if (!holders.is_array() || static_cast<std::int64_t>(holders.size()) != cells)
    throw error("\"shards\" should be a list of {} numbers, one for each part", cells);
  for (const Json& holder : holders)
    t.shards.push_back(integer_of(holder, "shards", 0, static_cast<int>(shards.size()) - 1));
  // Before somebody makes room for what is not there.
  for (std::size_t i = 0; i < t.shards.size(); ++i) {
    const Type part{t.type.dtype, t.part(i).extent};
    if (const Shard& shard = shards[at(t.shards[i])]; part.bytes() > shard.bytes)
      throw error("'{}' has a part of {} in {}, which has {} bytes", t.name, to_text(part), shard.file,
                  shard.bytes);
  }
  return t;
}

/// A file of the folder itself.
std::string file_in(const Json& json) {
  std::string file = text_in(json, "file");
  const auto is_plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.';
  };
  if (file.empty() || file.front() == '.' || !std::ranges::all_of(file, is_plain) ||
      !file.ends_with(".safetensors"))
    throw error("\"file\" should be a safetensors file of this folder, not '{}'", file);
  return file;
}

Shard shard_in(const Json& json, std::int64_t block_bytes) {
  Shard s{
      .file = file_in(json), .bytes = long_of(member(json, "bytes"), "bytes", 0, most_of_all), .blocks = {}};
  const std::string sums = text_in(json, "checksums");
  const std::int64_t blocks = s.bytes / block_bytes + (s.bytes % block_bytes != 0);
  if (sums.size() % 16 != 0 || static_cast<std::int64_t>(sums.size() / 16) != blocks)
    throw error("\"checksums\" should be {} of 16 digits", blocks);
  for (std::size_t i = 0; i < sums.size(); i += 16) {
    const auto sum = parse_checksum(std::string_view(sums).substr(i, 16));
    if (!sum) throw error("\"checksums\" has '{}'", sums.substr(i, 16));
    s.blocks.push_back(*sum);
  }
  return s;
}

RunState run_in(const Json& json) {
  return {.model = text_in(json, "model"),
          .step = long_of(member(json, "step"), "step", 0, most_of_all),
          .seed = static_cast<std::uint64_t>(long_of(member(json, "seed"), "seed", 0, most_of_all)),
          .samples = long_of(member(json, "samples"), "samples", 0, most_of_all),
          .schedule = text_in(json, "schedule"),
          .best = number_in(member(json, "best")),
          .best_of = json.contains("best_of") ? text_in(json, "best_of") : "",
          .frozen = json.contains("frozen") ? text_in(json, "frozen") : "",
          .lengths = json.contains("lengths") ? text_in(json, "lengths") : ""};
}

Manifest manifest_in(const Json& json) {
  if (const std::int64_t format = long_of(member(json, "format"), "format", 0, most_of_all);
      format != known_format)
    throw error("is of format {}, but this version reads format {}", format, known_format);
  Manifest m{.run = run_in(member(json, "run"))};
  if (const Json& plan = member(json, "plan"); !plan.is_null()) m.plan = plan.dump();
  m.block_bytes = long_of(member(json, "block_bytes"), "block_bytes", 1 << 12, 1 << 28);
  std::set<std::string> files, names;
  for_each_of(json, "shards", [&](const Json& shard) {
    m.shards.push_back(shard_in(shard, m.block_bytes));
    if (!files.insert(m.shards.back().file).second)
      throw error("the file {} stands twice", m.shards.back().file);
  });
  for_each_of(json, "tensors", [&](const Json& tensor) {
    m.tensors.push_back(tensor_in(tensor, m.shards));
    if (!names.insert(m.tensors.back().name).second) throw error("'{}' stands twice", m.tensors.back().name);
  });
  return m;
}

}  // namespace

std::vector<std::int64_t> SavedTensor::grid() const {
  std::vector<std::int64_t> out;
  for (const auto& dim : cuts) out.push_back(static_cast<std::int64_t>(dim.size()));
  return out;
}

Box SavedTensor::part(std::size_t i) const {
  Box out = whole_box(type.shape);
  for (std::size_t d = cuts.size(); d-- > 0;) {
    const std::size_t cell = i % cuts[d].size();
    i /= cuts[d].size();
    out.offset[d] = cuts[d][cell];
    out.extent[d] = (cell + 1 < cuts[d].size() ? cuts[d][cell + 1] : type.shape[d]) - out.offset[d];
  }
  return out;
}

const SavedTensor& Manifest::tensor(std::string_view name) const {
  const auto it = std::ranges::find(tensors, name, &SavedTensor::name);
  if (it != tensors.end()) return *it;
  std::vector<std::string> names;
  for (const SavedTensor& t : tensors) names.push_back(t.name);
  throw error("the checkpoint has no tensor '{}'{}", name, near_names(name, names));
}

std::string shard_file(int number) { return fmt::format("shard-{:05}.safetensors", number); }

void set_parts(SavedTensor& t, const std::vector<std::pair<int, Box>>& parts) {
  t.cuts.assign(t.type.shape.size(), {});
  for (std::size_t d = 0; d < t.cuts.size(); ++d) {
    std::set<std::int64_t> begins;
    if (t.type.shape[d] > 0) begins.insert(0);  // of no elements there may be no parts
    for (const auto& [shard, box] : parts) begins.insert(box.offset[d]);
    t.cuts[d].assign(begins.begin(), begins.end());
  }
  std::size_t cells = 1;
  for (const auto& dim : t.cuts) cells *= dim.size();
  t.shards.assign(cells, -1);
  for (const auto& [shard, box] : parts) {
    std::size_t cell = 0;
    for (std::size_t d = 0; d < t.cuts.size(); ++d)
      cell = cell * t.cuts[d].size() +
             at(std::ranges::lower_bound(t.cuts[d], box.offset[d]) - t.cuts[d].begin());
    require(t.shards[cell] < 0 && t.part(cell) == box, "{} is cut into {}, which is no cell of a grid",
            t.name, to_text(box));
    t.shards[cell] = shard;
  }
  require(std::ranges::count(t.shards, -1) == 0, "parts of {} are missing", t.name);
}

std::string to_json(const RunState& run) {
  Json out{{"model", run.model},       {"step", run.step},
           {"seed", run.seed},         {"samples", run.samples},
           {"schedule", run.schedule}, {"best", run.best ? Json(*run.best) : Json()},
           {"best_of", run.best_of}};
  if (!run.frozen.empty()) out["frozen"] = run.frozen;
  if (!run.lengths.empty()) out["lengths"] = run.lengths;
  return out.dump();
}

RunState parse_run(std::string_view text) { return run_in(parse_json(text)); }

std::string to_json(const Manifest& m) {
  Json tensors = Json::array(), shards = Json::array();
  for (const SavedTensor& t : m.tensors) tensors.push_back(json_of(t));
  for (const Shard& s : m.shards) shards.push_back(json_of(s));
  std::string rest =
      fmt::format("\"format\": {},\n\"run\": {},\n\"plan\": {},\n\"block_bytes\": {},\n", known_format,
                  to_json(m.run), m.plan.empty() ? "null" : m.plan, m.block_bytes);
  const auto add_list = [&rest](const char* key, const Json& list, const char* end) {
    rest += fmt::format("\"{}\": [", key);
    for (std::size_t i = 0; i < list.size(); ++i) rest += (i ? ",\n  " : "\n  ") + list[i].dump();
    rest += end;
  };
  add_list("tensors", tensors, "],\n");
  add_list("shards", shards, "]}\n");
  return fmt::format("{}{}{}{}", before_sum, checksum_text(checksum(rest)), behind_sum, rest);
}

std::string to_json(const Shard& shard) { return json_of(shard).dump(); }

Shard parse_shard(std::string_view text, std::int64_t block_bytes) {
  return shard_in(parse_json(text), block_bytes);
}

Manifest parse_manifest(std::string_view text, const std::string& path) {
  constexpr std::size_t digits = 16;
  const std::size_t begin = before_sum.size() + digits + behind_sum.size();
  const auto sum =
      text.starts_with(before_sum) ? parse_checksum(text.substr(before_sum.size(), digits)) : std::nullopt;
  if (!sum || text.size() < begin) throw io_error("{}: is no manifest of a checkpoint", path);
  if (text.substr(before_sum.size() + digits, behind_sum.size()) != behind_sum ||
      checksum(text.substr(begin)) != *sum)
    throw io_error("{}: is damaged: its checksum does not match", path);
  try {
    return manifest_in(parse_json(text));
  } catch (const Error& e) {
    throw io_error("{}: {}", path, e.what());
  }
}

}  // namespace shardwright

// MindSpore: a call of `shard` for each operator, in Python; written to FILE.json or FILE.ckpt a strategy file, which is
// read, too (annotations/strategy_file.h).

#include "shardwright/base/index.h"
#include "shardwright/base/text.h"
#include "shardwright/exchange/plan_format.h"
#include "shardwright/exchange/words_left.h"
#include "shardwright/plan/json_text.h"

namespace shardwright::formats {
namespace {

/// `net.layers[0].attention.q.matmul`
std::string path_of(const std::string& name) {
  std::string out = "net";
  for (const std::string_view part : split(name, '.'))
    out += to_integer(part) ? fmt::format("[{}]", part) : fmt::format(".{}", part);
  return out;
}

/// `layout("dp", ("sp", "mp"), "None")`
std::string layout_text(const MatrixLayout& layout) {
  std::vector<std::string> dims;
  for (const Axes& axes : layout.dims) {
    std::vector<std::string> names;
    for (const int a : axes) names.push_back(Json(layout.matrix.axes[at(a)].name).dump());
    dims.push_back(names.empty()       ? "\"None\""
                   : names.size() == 1 ? names.front()
                                       : "(" + join(names, ", ") + ")");
  }
  return "layout(" + join(dims, ", ") + ")";
}

std::string matrix_text(const Mesh& mesh) {
  std::vector<std::string> sizes, names;
  for (const Axis& axis : mesh.axes) {
    sizes.push_back(std::to_string(axis.size));
    names.push_back(Json(axis.name).dump());
  }
  const char* end = sizes.size() == 1 ? "," : "";
  return fmt::format("Layout(({}{}), ({}{}))", join(sizes, ", "), end, join(names, ", "), end);
}

std::string calls_of(const StrategyFile& file) {
  std::string out, matrix;
  int stage = -1;
  for (const FileOperator& op : file.operators) {
    if (op.in.empty()) continue;
    if (file.stages() > 1 && op.stage != stage) out += fmt::format("    # stage {}\n", stage = op.stage);
    if (const std::string its = matrix_text(op.in.front().matrix); its != matrix)
      out += fmt::format("    layout = {}\n", matrix = its);
    std::vector<std::string> in;
    for (const MatrixLayout& layout : op.in) in.push_back(layout_text(layout));
    out += fmt::format("    {}.shard(({}{}))\n", path_of(op.name), join(in, ", "), in.size() == 1 ? "," : "");
  }
  return out;
}

Exported write(const WrittenPlan& plan) {
  const SavedStrategies saved = plan.what.strategies();
  WordsLeft left(plan);
  left.take({"dp", "tp", "sequence_parallel", "operators split otherwise", "layers by stage", "layers cut"});
  const bool is_json = plan.what.path.ends_with(".json");
  if (is_json || plan.what.path.ends_with(".ckpt")) {
    left.take({"pp"});
    if (plan.plan.settings.optimizer_parallel.level == 3) left.take({"zero", "zero_threshold", "zero_group"});
    left.leave({"schedule", "micro_batches", "zero", "recompute", "precision", "optimizer"},
               "export --to mindformers says it");
    for (const std::string& line : saved.left_out) left.add(line);
    return {.text = to_bytes(saved.file, is_json), .not_carried = left.lines()};
  }
  left.leave({"pp", "schedule", "micro_batches", "zero", "recompute", "precision", "optimizer"},
             "export --to mindformers says it");
  for (const std::string& line : saved.left_out) left.add(line);
  const std::vector<std::string> lines = left.lines();
  std::string calls = calls_of(saved.file);
  if (calls.empty()) calls = "    pass\n";
  return {.text = head_text(plan, "MindSpore", lines) +
                  "from mindspore.parallel import Layout\n\n\n"
                  "def shard(net):\n    \"\"\"Before net is compiled, in semi_auto_parallel.\"\"\"\n" +
                  calls,
          .not_carried = lines};
}

/// Its strategies are fixed by --strategy, which reads the file again.
Recipe read(const RecipeFile& file) {
  const StrategyFile said = parse_strategies(file.text, file.path.ends_with(".json"));
  Recipe out;
  if (said.stages() > 1) out.say("--stages", std::to_string(said.stages()), "its stages");
  out.say("--strategy", file.path, "its strategies");
  out.not_heeded.push_back(
      "says strategies and layouts only: precision, optimizer, batch and recompute are as usual, and "
      "operators that it "
      "leaves out are planned");
  return out;
}

bool is_one(const RecipeFile& file) {
  return file.text.find("\"parallel_strategy_item\"") != file.text.npos || file.path.ends_with(".ckpt");
}

}  // namespace

std::vector<PlanFormat> mindspore() {
  return {{.name = "mindspore",
           .doc = "calls of shard in Python; to FILE.json or FILE.ckpt a strategy file",
           .write = write,
           .read = read,
           .is_one = is_one}};
}

}  // namespace shardwright::formats

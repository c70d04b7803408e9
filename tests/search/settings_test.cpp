#include "shardwright/search/planning/settings.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <regex>
#include <set>

#include "shardwright/base/text.h"
#include "shardwright/frontend/model.h"
#include "shardwright/ops/optimizer_settings.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

/// For the cell of a table in Markdown.
std::string cell(const std::string& text) { return std::regex_replace(text, std::regex("\\|"), "\\|"); }

std::string table() {
  std::string out = "| setting | what it says | configuration files | plan files |\n|---|---|---|---|\n";
  for (const SettingRow& row : all_settings()) {
    std::string flag = "`" + cell(row.flag + (row.value.empty() ? "" : " " + row.value)) + "`";
    if (!row.alias.empty()) flag += ", `" + row.alias + "`";
    std::string member;
    for (std::string_view name : split(row.member, ','))
      if (!trim(name).empty()) member += (member.empty() ? "`" : ", `") + std::string(trim(name)) + "`";
    const std::string keys = row.key.empty() ? row.keys : "`" + row.key + "`";
    out += fmt::format("| {} | {} | {} | {} |\n", flag, cell(row.doc), keys, member);
  }
  return out;
}

TEST(Settings, stand_in_the_table_of_the_docs) {
  const std::string path = "docs/configuration.md";
  const std::string page = read_bytes(path);
  const std::size_t begin = page.find("| setting |"), end = page.find("\n\n", begin) + 1;
  ASSERT_NE(begin, page.npos);
  const std::string have = page.substr(begin, end - begin);
  if (have != table() && std::getenv("SHARDWRIGHT_UPDATE_GOLDENS"))
    return write_bytes(path, page.substr(0, begin) + table() + page.substr(end));
  EXPECT_EQ(have, table()) << path << ": SHARDWRIGHT_UPDATE_GOLDENS=1 writes it";
}

TEST(Settings, have_names_of_their_own_and_stand_in_the_order_of_parts) {
  std::set<std::string> names;
  SettingPart last = SettingPart::machine;
  for (const SettingRow& row : all_settings()) {
    EXPECT_TRUE(names.insert(row.flag).second) << row.flag;
    EXPECT_TRUE(row.alias.empty() || names.insert(row.alias).second) << row.alias;
    EXPECT_LE(last, row.part) << row.flag;
    last = row.part;
    EXPECT_TRUE(row.parse && !row.doc.empty()) << row.flag;
    EXPECT_EQ(row.search.has_value(), row.part == SettingPart::search) << row.flag;
  }
}

/// Values that are not the usual ones.
const std::string& value_of(const SettingRow& row) {
  static const std::map<std::string, std::string> values{
      {"--devices", "8"},
      {"--parallel", "data_parallel"},
      {"--stages", "2"},
      {"--micro-batches", "4"},
      {"--micro-batch-interleave", "2"},
      {"--overlap-tensor", "1"},
      {"--schedule", "gpipe"},
      {"--search", "propagation"},
      {"--optimizer-parallel", "2:threshold=1024,group=4"},
      {"--comm-fusion", "size:3"},
      {"--recompute", "full:communication=false,shard_kept=true"},
      {"--offload", "optimizer:0.5,host(dense1.matmul)"},
      {"--framework", "megatron"},
      {"--global-batch", "64"},
      {"--precision", "pure-bf16"},
      {"--loss", "mean_squared_error"},
      {"--attention", "explicit"},
      {"--optimizer", "adamw"},
      {"--lr", "0.5"},
      {"--momentum", "0.25"},
      {"--weight-decay", "0.125"},
      {"--beta1", "0.5"},
      {"--beta2", "0.75"},
      {"--epsilon", "0.001"},
      {"--clip-norm", "2"},
      {"--loss-scale", "1024 by 4 every 50"},
      {"--reduce-precision", "short"}};
  const auto it = values.find(row.flag);
  if (it == values.end()) throw error("a value for {} is missing in this test", row.flag);
  return it->second;
}

/// With that value, and what it needs.
PlanRequest unusual(const SettingRow& row) {
  PlanRequest out{.devices = 8,
                  .parallel = Parallel::auto_parallel,
                  .constraints = constraints_of({.pipelining = {.stages = 2}})};
  if (row.flag == "--devices") out.devices = 4;
  if (row.flag == "--stages") out.constraints.degrees.set("pp", 1);
  if (row.flag == "--momentum") out.origin.optimizer.name = "momentum";
  if (row.flag.starts_with("--beta") || row.flag == "--epsilon") out.origin.optimizer.name = "adam";
  const std::string usual = row.print(out);
  row.parse(out, {row.flag, value_of(row)});
  EXPECT_NE(row.print(out), usual) << row.flag;
  return out;
}

/// What is printed is read again and says the same.
TEST(Settings, print_what_they_read) {
  for (const SettingRow& row : all_settings())
    if (row.print) {
      EXPECT_EQ(row.print(unusual(row)), value_of(row)) << row.flag;
    }
}

TEST(Settings, that_plans_keep_stand_in_the_plan_file) {
  const Graph graph = build_model("ffn:widths=16-8-8,batch=32").graph;
  for (const SettingRow& row : all_settings()) {
    EXPECT_TRUE(!row.print || !row.member.empty()) << row.flag;
    if (!row.print) continue;
    const std::string json = to_json(make_plan(graph, unusual(row)));
    for (std::string_view member : split(row.member, ','))
      EXPECT_NE(json.find(fmt::format("\"{}\":", trim(member))), json.npos) << row.flag << " " << json;
    EXPECT_EQ(row.print(request_of(parse_plan(json, "plan"))), value_of(row));
  }
}

TEST(Settings, of_recompute_are_modes_or_modules) {
  for (const char* text : {"none", "selected", "full", "selected:communication=true", "layers.0,layers.1"})
    EXPECT_EQ(to_text(parse_recompute(text)), text);
}

/// Numbers, shares and words.
TEST(Settings, of_optimizers_stand_in_the_plan_file) {
  const Graph graph = build_model("ffn:widths=8-4-2,batch=4").graph;
  PlanRequest request{.parallel = Parallel::stand_alone};
  for (const OptimizerSetting& setting : optimizer_settings) {
    const bool is_word = setting.kind == OptimizerSetting::Kind::word;
    const Attribute value = is_word ? Attribute(true) : Attribute(0.25);
    request.origin.optimizer = {std::string(setting.optimizer), {{std::string(setting.name), value}}};
    const Plan read = parse_plan(to_json(make_plan(graph, request)), "plan");
    const Attribute* same = read.origin.optimizer.attributes.find(setting.name);
    ASSERT_TRUE(same) << setting.name;
    EXPECT_EQ(*same, value) << setting.optimizer << " " << setting.name;
  }
}

}  // namespace
}  // namespace shardwright

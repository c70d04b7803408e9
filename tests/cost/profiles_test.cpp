// The cost model against measurements of others: docs/cost-model.md shows the table that is computed here.
//
// The rows and their sources are in tests/reference/op_profiles.json. What a measured operator reads and writes is
// written out below, as its kernels do it.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "shardwright/cost/compute.h"
#include "shardwright/layout/collective.h"

namespace shardwright {
namespace {

using Json = nlohmann::json;

const Json& profiles() {
  static const Json all = Json::parse(std::ifstream("tests/reference/op_profiles.json"));
  return all;
}

/// |ln(predicted / measured)| per block.
class Errors {
 public:
  void add(const std::string& block, double predicted, double measured) {
    blocks_[block].push_back(std::log(predicted / measured));
  }
  std::vector<std::string> blocks() const {
    std::vector<std::string> out;
    for (const auto& [name, logs] : blocks_) out.push_back(name);
    return out;
  }
  std::size_t rows(const std::string& block) const { return blocks_.at(block).size(); }
  /// As a factor: 1.1 is 10 % too much or too little.
  double factor(const std::string& block, double quantile) const {
    std::vector<double> sizes;
    for (double e : blocks_.at(block)) sizes.push_back(std::abs(e));
    return std::exp(at(std::move(sizes), quantile));
  }
  /// Median of predicted / measured.
  double ratio(const std::string& block) const { return std::exp(at(blocks_.at(block), 0.5)); }

 private:
  static double at(std::vector<double> values, double quantile) {
    std::sort(values.begin(), values.end());
    return values[static_cast<std::size_t>(quantile * static_cast<double>(values.size() - 1))];
  }
  std::map<std::string, std::vector<double>> blocks_;
};

constexpr double half = 2;  // bytes of an element of 16 bits

Work product(double m, double k, double n, double element_bytes, DType dtype, double batch = 1) {
  return {.kind = WorkKind::contraction,
          .flops = 2 * batch * m * k * n,
          .bytes = element_bytes * batch * (m * k + k * n + m * n),
          .dtype = dtype};
}
Work streamed(double bytes) { return {.kind = WorkKind::streaming, .bytes = bytes, .dtype = DType::f16}; }

double seconds(const std::vector<Work>& kernels, const Cluster& cluster) {
  double out = 0;
  for (const Work& work : kernels) out += compute_seconds(work, cluster);
  return out;
}

double collective(StepKind kind, double bytes, int ranks, const Cluster& cluster) {
  const MeshCost cost = mesh_cost(cluster, {{{"nodes", cluster.devices() / ranks}, {"ranks", ranks}}});
  return collective_seconds(kind, bytes, cost.levels[1]);
}

/// One row of the GPT profile: what its operator computes on one of `parts` devices.
struct GptRow {
  double tokens, hidden, scores;  // scores: elements of all heads' attention on one device
  double heads, sequence, head_size;
  int parts;
  std::string op;
  double forward, backward;  // seconds
};

GptRow gpt_row(const Json& row, const Json& block) {
  const auto [model, batch, parts] =
      std::tuple(row[0].get<std::string>(), row[1].get<double>(), row[2].get<int>());
  const double sequence = block["sequence"], hidden = block["hidden_and_heads"][model][0],
               heads = block["hidden_and_heads"][model][1];
  const double local_heads = batch * heads / parts;
  return {.tokens = batch * sequence,
          .hidden = hidden,
          .scores = local_heads * sequence * sequence,
          .heads = local_heads,
          .sequence = sequence,
          .head_size = hidden / heads,
          .parts = parts,
          .op = row[3],
          .forward = row[4].get<double>() * 1e-6,
          .backward = row[5].get<double>() * 1e-6};
}

/// A linear layer of Megatron: by columns the backward reduces its input's gradient, by rows the forward its output.
void add_linear(Errors& errors, const GptRow& r, double k, double n, bool is_by_rows, const Cluster& v100) {
  const double forward = seconds({product(r.tokens, k, n, half, DType::f16)}, v100);
  const double backward =
      seconds({product(r.tokens, n, k, half, DType::f16), product(k, r.tokens, n, half, DType::f16)}, v100);
  const double reduce = collective(StepKind::all_reduce, half * r.tokens * r.hidden, r.parts, v100);
  const std::string alone = "V100 matmul", together = "V100 matmul, then all_reduce";
  const bool is_forward_reduced = is_by_rows && r.parts > 1, is_backward_reduced = !is_by_rows && r.parts > 1;
  errors.add(is_forward_reduced ? together : alone, forward + (is_forward_reduced ? reduce : 0), r.forward);
  errors.add(is_backward_reduced ? together : alone, backward + (is_backward_reduced ? reduce : 0),
             r.backward);
}

void add_streaming(Errors& errors, const std::string& block, const GptRow& r, double forward_bytes,
                   double backward_bytes, const Cluster& v100) {
  errors.add(block + ", forward", seconds({streamed(forward_bytes)}, v100), r.forward);
  errors.add(block + ", backward", seconds({streamed(backward_bytes)}, v100), r.backward);
}

void add_gpt_row(Errors& errors, const GptRow& r, const Cluster& v100) {
  const double activations = half * r.tokens * r.hidden, scores = half * r.scores, mask = 0.5;
  const double hidden = r.hidden, local = r.hidden / r.parts;
  if (r.op == "qkv") return add_linear(errors, r, hidden, 3 * local, false, v100);
  if (r.op == "mlp1") return add_linear(errors, r, hidden, 4 * local, false, v100);
  if (r.op == "dense") return add_linear(errors, r, local, hidden, true, v100);
  if (r.op == "mlp2") return add_linear(errors, r, 4 * local, hidden, true, v100);
  if (r.op == "softmax") return add_streaming(errors, "V100 softmax", r, 2 * scores, 3 * scores, v100);
  if (r.op == "attention_dropout")
    return add_streaming(errors, "V100 dropout", r, (2 + mask) * scores, (2 + mask) * scores, v100);
  if (r.op == "gelu")
    return add_streaming(errors, "V100 gelu", r, 8 * activations / r.parts, 12 * activations / r.parts, v100);
  if (r.op == "layer_norm")
    return add_streaming(errors, "V100 layer norm", r, 2 * activations, 3 * activations, v100);
  if (r.op == "dropout_add")
    return add_streaming(errors, "V100 dropout and add", r, (2 + mask + 3) * activations,
                         (2 + mask) * activations, v100);
  const Work one = product(r.sequence, r.head_size, r.sequence, half, DType::f16, r.heads);
  errors.add("V100 batched matmul", seconds({one}, v100), r.forward);
  errors.add("V100 batched matmul", seconds({one, one}, v100), r.backward);
}

StepKind kind_called(const std::string& name) {
  for (const StepKind kind :
       {StepKind::all_gather, StepKind::reduce_scatter, StepKind::all_reduce, StepKind::all_to_all})
    if (name == name_of(kind)) return kind;
  throw error("collective '{}'", name);
}

/// Sizes are a rank's operand; an all_gather's result is as many times larger.
void add_collectives(Errors& errors, const std::string& machine, const Json& block, const Cluster& cluster) {
  for (const Json& row : block["rows"]) {
    const StepKind kind = kind_called(row[0]);
    const int ranks = row[1];
    const double bytes = row[2].get<double>() * (1 << 20) * (kind == StepKind::all_gather ? ranks : 1);
    errors.add(fmt::format("{} {}", machine, name_of(kind)), collective(kind, bytes, ranks, cluster),
               row[3].get<double>() * 1e-3);
  }
}

void add_messages(Errors& errors, const std::string& name, const Json& block, const LinkCost& link,
                  int ranks) {
  for (const Json& row : block["rows"]) {
    const double bytes = row[0].get<double>() * (1 << 20);
    errors.add(name, collective_seconds(StepKind::permute, bytes, std::vector<GroupLink>{{ranks, link}}),
               bytes / (row[1].get<double>() * 1e9));
  }
}

/// The forward of a layer of LLaMA-7B, sequences of 2048.
void add_llama_layers(Errors& errors, const Json& block, const Cluster& a100) {
  for (const Json& row : block["rows"]) {
    const double sequence = 2048, tokens = row[0].get<double>() * sequence, hidden = 4096, ffn = 11008;
    const double activations = half * tokens * hidden;
    std::vector<Work> kernels{
        product(tokens, hidden, ffn, half, DType::bf16),
        product(tokens, hidden, ffn, half, DType::bf16),
        product(tokens, ffn, hidden, half, DType::bf16),
        {WorkKind::contraction, 4 * tokens * sequence * hidden, 4 * activations, DType::bf16},
        streamed(3 * half * tokens * ffn)};
    for (int i = 0; i < 4; ++i) kernels.push_back(product(tokens, hidden, hidden, half, DType::bf16));
    for (int i = 0; i < 2; ++i)
      for (double passes : {2.0, 2.0, 3.0})
        kernels.push_back(streamed(passes * activations));  // norm, rotary, add
    errors.add("A100 LLaMA-7B layer", seconds(kernels, a100), row[1].get<double>() * 1e-3);
  }
}

void add_cpu(Errors& errors) {
  const Cluster cpu = cluster_called("cpu:8");
  for (const Json& row : profiles()["cpu_products"]["rows"]) {
    const Work work = product(row[0], row[1], row[2], 4, DType::f32);
    errors.add("cpu matmul", compute_seconds(work, cpu), work.flops / (row[3].get<double>() * 1e9));
  }
  for (const Json& row : profiles()["cpu_all_reduce"]["rows"])
    errors.add("cpu all_reduce", collective(StepKind::all_reduce, row[1], row[0], cpu),
               row[2].get<double>() * 1e-6);
}

Errors all_errors() {
  const Cluster v100 = cluster_called("v100-32g:8"), a100 = cluster_called("a100-80g:8");
  const Json& all = profiles();
  Errors errors;
  for (const Json& row : all["v100_gpt"]["rows"]) add_gpt_row(errors, gpt_row(row, all["v100_gpt"]), v100);
  add_collectives(errors, "V100", all["v100_collectives"], v100);
  add_collectives(errors, "A100", all["a100_collectives"], a100);
  const auto link_of = [](const char* cluster, const Mesh& mesh) {
    return mesh_cost(cluster_called(cluster), mesh).axes[0];
  };
  add_messages(errors, "V100 message in a node", all["v100_message_in_node"],
               link_of("v100-32g:8", {{{"a", 8}}}), 2);
  add_messages(errors, "V100 message between nodes", all["v100_message_between_nodes"],
               link_of("v100-32g:2x8", {{{"a", 2}, {"b", 8}}}), 2);
  add_llama_layers(errors, all["a100_llama_layer"], a100);
  add_cpu(errors);
  return errors;
}

std::string table_of(const Errors& errors) {
  std::string out =
      "| measured | rows | median error | 90th percentile | predicted / measured |\n|---|---|---|---|---|\n";
  for (const std::string& block : errors.blocks())
    out += fmt::format("| {} | {} | {:.2f} | {:.2f} | {:.2f} |\n", block, errors.rows(block),
                       errors.factor(block, 0.5), errors.factor(block, 0.9), errors.ratio(block));
  return out;
}

TEST(Profiles, are_met_within_the_stated_bounds) {
  const Errors errors = all_errors();
  const std::map<std::string, double> bounds{
      {"A100 LLaMA-7B layer", 1.15},
      {"A100 all_reduce", 1.2},
      {"A100 all_to_all", 1.45},
      {"V100 all_gather", 1.35},
      {"V100 all_reduce", 1.15},
      {"V100 all_to_all", 1.3},
      {"V100 batched matmul", 1.35},
      {"V100 dropout and add, backward", 1.45},
      {"V100 dropout and add, forward", 1.25},
      {"V100 dropout, backward", 1.3},
      {"V100 dropout, forward", 1.1},
      {"V100 gelu, backward", 1.2},
      {"V100 gelu, forward", 1.3},
      {"V100 layer norm, backward", 2.75},
      {"V100 layer norm, forward", 1.25},
      {"V100 matmul", 1.15},
      {"V100 matmul, then all_reduce", 1.15},
      {"V100 message between nodes", 1.2},
      {"V100 message in a node", 1.2},
      {"V100 reduce_scatter", 1.5},
      {"V100 softmax, backward", 1.55},
      {"V100 softmax, forward", 1.4},
      {"cpu all_reduce", 1.8},
      {"cpu matmul", 1.1},
  };
  for (const std::string& block : errors.blocks()) {
    const auto bound = bounds.find(block);
    ASSERT_TRUE(bound != bounds.end()) << block << " has no bound\n" << table_of(errors);
    EXPECT_LE(errors.factor(block, 0.5), bound->second) << block;
  }
}

TEST(Profiles, give_the_table_of_the_docs) {
  std::ifstream file("docs/cost-model.md");
  std::stringstream text;
  text << file.rdbuf();
  const std::string table = table_of(all_errors());
  EXPECT_NE(text.str().find(table), std::string::npos) << "docs/cost-model.md should hold\n" << table;
}

}  // namespace
}  // namespace shardwright

#include "shardwright/annotations/patterns.h"

#include <gtest/gtest.h>

#include "shardwright/base/name_pattern.h"
#include "shardwright/frontend/model.h"

namespace shardwright {
namespace {

TEST(AnnotationPatterns, stars_stand_for_parts_of_names) {
  EXPECT_TRUE(matches("layers.*.norm1", "layers.0.norm1"));
  EXPECT_TRUE(matches("layers.*.norm*", "layers.12.norm2"));
  EXPECT_TRUE(matches("*.matmul", "dense1.matmul"));
  EXPECT_TRUE(matches("relu*", "relu"));
  EXPECT_TRUE(matches("a*b*c", "abbc"));
  EXPECT_FALSE(matches("layers.*.norm1", "layers.0.x.norm1"));
  EXPECT_FALSE(matches("layers.*.norm*", "layers.0.norm1.weight"));
  EXPECT_FALSE(matches("*", "a.b"));
  EXPECT_FALSE(matches("norm", "norm1"));
}

std::map<std::string, std::vector<std::int64_t>> first_inputs(std::string_view json) {
  const Graph graph = build_model("ffn").graph;
  std::map<std::string, std::vector<std::int64_t>> out;
  for (const auto& [name, annotation] : without_patterns(parse_annotations(json, "test"), graph).tensors)
    out[name] = annotation.in.front().parts;
  return out;
}

TEST(AnnotationPatterns, are_weaker_than_names_and_than_patterns_with_fewer_stars) {
  const auto found = first_inputs(
      R"({"dense*.matmul": {"in": [[2, 1]]}, "dense3.*": {"in": [[4, 1]]}, "d*se3.mat*": {"in": [[8, 1]]},
          "dense1.matmul": {"in": [[1, 2]]}, "dense3.matmul": {"in": [[1, 4]]}})");
  EXPECT_EQ(found.at("dense1.matmul"), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(found.at("dense2.matmul"), (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(found.at("dense3.matmul"), (std::vector<std::int64_t>{1, 4}));
  EXPECT_EQ(found.at("dense3.add"), (std::vector<std::int64_t>{4, 1}));
  EXPECT_EQ(
      first_inputs(R"({"d*se3.mat*": {"in": [[8, 1]]}, "dense3.*": {"in": [[4, 1]]}})").at("dense3.matmul"),
      (std::vector<std::int64_t>{4, 1}));
}

}  // namespace
}  // namespace shardwright

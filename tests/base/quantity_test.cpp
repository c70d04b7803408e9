#include "shardwright/base/quantity.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace shardwright {
namespace {

TEST(Bytes, have_decimal_and_binary_units) {
  const std::vector<std::pair<const char*, std::int64_t>> cases{
      {"4096", 4096},         {"4096B", 4096},  {"60GB", 60'000'000'000},    {"60G", 60'000'000'000},
      {"512MB", 512'000'000}, {"1.5KB", 1500},  {"2 TB", 2'000'000'000'000}, {"512MiB", 512 << 20},
      {"1.5KiB", 1536},       {"1Gi", 1 << 30}, {"2TiB", 2LL << 40}};
  for (const auto& [text, bytes] : cases) EXPECT_EQ(to_bytes(text), bytes) << text;
  for (const char* text : {"", "B", "GB", "60XB", "60iB", "0", "-1GB", "0.5", "1e30", "nan", "60 GB GB"})
    EXPECT_EQ(to_bytes(text), std::nullopt) << text;
}

TEST(Quantities, have_prefixes_and_units) {
  const auto of = [](const char* text, const char* unit) { return to_quantity(text, unit).value_or(-1); };
  EXPECT_EQ(of("5us", "s"), 5e-6);
  EXPECT_EQ(of("5", "s"), 5);
  EXPECT_EQ(of("2039 GB/s", "B/s"), 2039e9);
  EXPECT_EQ(of("19.5T", ""), 19.5e12);
  EXPECT_EQ(of("4kB", "B"), 4000);
  EXPECT_EQ(of("80GiB", "B"), 80.0 * (1 << 30));
  for (const char* text : {"", "s", "5 s s", "5ui", "us", "5 elephants"})
    EXPECT_EQ(to_quantity(text, "s"), std::nullopt) << text;
}

TEST(Quantities, have_a_shortest_text_that_is_read_back) {
  EXPECT_EQ(quantity_text(5e-6, "s"), "5us");
  EXPECT_EQ(quantity_text(2039e9, "B/s"), "2039GB/s");
  EXPECT_EQ(quantity_text(0.75, ""), "0.75");
  EXPECT_EQ(quantity_text(0, "B"), "0B");
  for (const double x : {1.0 / 3, 1e-30, 123456789.0, 0x1p60, 4e-5, 0.1 + 0.2, 1e30})
    EXPECT_EQ(to_quantity(quantity_text(x, "B"), "B"), x);
}

TEST(Share, is_read_and_written_in_percent) {
  for (const auto& [text, share] : std::map<std::string, double>{
           {"6%", 0.06}, {" 6 %", 0.06}, {"0.06", 0.06}, {"0", 0}, {"99%", 0.99}, {"12.5%", 0.125}})
    EXPECT_EQ(to_share(text), share) << text;
  for (const char* text : {"", "%", "100%", "1", "6", "-1%", "nan", "inf%", "6GB", "6%%"})
    EXPECT_EQ(to_share(text), std::nullopt) << text;
  EXPECT_EQ(share_text(0.06), "6%");
  for (double share : {0.0, 0.06, 0.125, 1.0 / 3, 0.999999}) EXPECT_EQ(to_share(share_text(share)), share);
}

}  // namespace
}  // namespace shardwright

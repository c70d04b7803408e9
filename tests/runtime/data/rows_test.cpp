#include <algorithm>
#include <numeric>
#include <set>

#include "shardwright/runtime/data/dataset.h"
#include "shardwright/runtime/data/row_reader.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

/// Column `x` i64 [count] = 0, 1, 2 ...
Dataset numbers(std::int64_t count) {
  std::vector<double> x(static_cast<std::size_t>(count));
  std::iota(x.begin(), x.end(), 0);
  return Dataset({{"x", make_tensor({DType::i64, {count}}, x)}});
}

/// The same without a known length: it must be read in order to be fast, and says so.
Dataset stream(std::int64_t count) {
  DataRows rows = numbers(count).rows();
  rows.is_stream = true;
  return Dataset::reading(std::move(rows));
}

using Numbers = std::vector<double>;

Numbers read_all(const Dataset& data, std::int64_t epoch = 0, std::int64_t ahead = 0,
                 std::int64_t most = 1000) {
  RowReader reader(data, {.epoch = epoch, .ahead = ahead});
  Numbers out;
  for (std::int64_t i = 0; i < most; ++i) {
    const std::optional<DataRow> row = reader.next();
    if (!row) break;
    for (const double x : to_doubles(row->values[0])) out.push_back(x);
  }
  return out;
}

Numbers sorted(Numbers x) {
  std::ranges::sort(x);
  return x;
}

TEST(Rows, shards_are_of_one_size_and_start_again_at_the_end) {
  EXPECT_EQ(read_all(numbers(7).shard(3, 0)), (Numbers{0, 3, 6}));
  EXPECT_EQ(read_all(numbers(7).shard(3, 1)), (Numbers{1, 4, 0}));
  EXPECT_EQ(read_all(numbers(7).shard(3, 2)), (Numbers{2, 5, 1}));
  EXPECT_EQ(numbers(7).shard(3, 2).samples(), 3);
}

TEST(Rows, keeps_or_drops_the_last_batch) {
  const Dataset kept = numbers(5).batch(2, Remainder::kept);
  EXPECT_EQ(kept.samples(), 3);
  EXPECT_EQ(to_doubles(kept.get(0, 2)["x"]), Numbers{4});
  EXPECT_EQ(read_all(numbers(5).batch(2)), (Numbers{0, 1, 2, 3}));
  EXPECT_EQ(to_text(numbers(6).batch(2, Remainder::kept).type("x")), "i64[2]");
}

TEST(Rows, repeats_takes_skips_and_joins) {
  for (const Dataset& three : {numbers(3), stream(3)}) {
    EXPECT_EQ(read_all(three.repeat(2)), (Numbers{0, 1, 2, 0, 1, 2}));
    EXPECT_EQ(read_all(three.repeat(), 0, 0, 7), (Numbers{0, 1, 2, 0, 1, 2, 0}));
    EXPECT_EQ(read_all(three.repeat().skip(2).take(4)), (Numbers{2, 0, 1, 2}));
    EXPECT_EQ(three.repeat(2).samples(), 6);
  }
  EXPECT_EQ(read_all(numbers(9).skip(2).take(3)), (Numbers{2, 3, 4}));
  EXPECT_EQ(numbers(9).skip(20).samples(), 0);
  EXPECT_EQ(read_all(numbers(2).concat(numbers(3))), (Numbers{0, 1, 0, 1, 2}));
}

TEST(Rows, a_repeated_epoch_is_shuffled_anew) {
  const Numbers twice = read_all(numbers(50).shuffle(1).repeat(2));
  const Numbers first(twice.begin(), twice.begin() + 50), second(twice.begin() + 50, twice.end());
  EXPECT_NE(first, second);
  EXPECT_EQ(sorted(first), sorted(second));
}

TEST(Rows, a_buffer_lets_nothing_pass_that_it_has_not_held) {
  for (const Dataset& data : {numbers(60).shuffle(3, 8), stream(60).shuffle(3, 8)}) {
    const Numbers order = read_all(data);
    EXPECT_EQ(sorted(order), read_all(numbers(60)));
    EXPECT_NE(order, sorted(order));
    for (std::size_t i = 0; i < order.size(); ++i) EXPECT_LE(order[i], static_cast<double>(i + 8));
    EXPECT_NE(order, read_all(data, 1));
    EXPECT_EQ(order, read_all(data));
  }
  EXPECT_EQ(read_all(numbers(60).shuffle(3, 8)), read_all(stream(60).shuffle(3, 8)));
}

TEST(Rows, zips_renames_and_projects_columns) {
  const Dataset both = numbers(3).zip(numbers(5).skip(1).rename({"x"}, {"y"}));
  EXPECT_EQ(both.columns(), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(both.samples(), 3);
  EXPECT_EQ(read_all(both.project({"y"})), (Numbers{1, 2, 3}));
  EXPECT_EQ(error_of([] { numbers(3).zip(numbers(3)); }), "dataset: two columns are called 'x'");
}

TEST(Rows, what_a_map_makes_stands_where_its_first_column_stood) {
  const Tensor image = make_tensor({DType::u8, {1, 2, 4, 1}}, Numbers{0, 1, 2, 3, 4, 5, 6, 7});
  const Dataset data =
      Dataset::of({{"a", Tensor({DType::u8, {1}})}, {"image", image}, {"z", Tensor({DType::u8, {1}})}})
          .map(std::vector<std::string>{"image"}, {slice_patches(1, 2)}, {"left", "right"});
  EXPECT_EQ(data.columns(), (std::vector<std::string>{"a", "left", "right", "z"}));
  EXPECT_EQ(to_doubles(data.batch(1).get(0, 0)["right"]), (Numbers{2, 3, 6, 7}));
  EXPECT_EQ(error_of([&] { data.map(std::vector<std::string>{"left"}, {slice_patches(2, 1)}); }),
            "column 'left': map makes 2 columns, but 1 is named: left");
}

TEST(Rows, a_thread_gives_the_same_rows_in_the_same_order) {
  const Dataset data = numbers(300).shuffle(5).batch(7, Remainder::kept);
  for (const std::int64_t ahead : {1, 4, 100}) EXPECT_EQ(read_all(data, 2, ahead), read_all(data, 2));
}

/// Fails at number 5.
Dataset failing() {
  const Transform fail = of_column(
      "fail", [](const Type& t) -> SampleType { return t; },
      [](Tensor t, Chance&) {
        if (to_doubles(t)[0] == 5) throw error("number 5 is broken");
        return t;
      });
  return numbers(20).map("x", {fail});
}

TEST(Rows, an_error_comes_where_its_row_would_have_come) {
  for (const std::int64_t ahead : {0, 1, 8}) {
    RowReader reader(failing(), {.ahead = ahead});
    for (int i = 0; i < 5; ++i) EXPECT_EQ(to_doubles(reader.next()->values[0])[0], i);
    EXPECT_EQ(error_of([&] { reader.next(); }), "column 'x': number 5 is broken");
    EXPECT_FALSE(reader.next());
  }
}

TEST(Rows, a_reader_ends_although_nobody_takes_what_it_made) {
  for (int i = 0; i < 50; ++i) {
    RowReader reader(numbers(1000).repeat(), {.ahead = 2});
    if (i % 2 == 0) reader.next();
  }
}

// ---- what is random ----

Dataset noise_images(std::int64_t count) {
  Tensor images({DType::u8, {count, 6, 6, 1}});
  for (std::size_t i = 0; i < images.bytes().size(); ++i)
    images.bytes()[i] = static_cast<std::byte>(i * 37 % 251);
  Tensor at({DType::i32, {count}});
  std::iota(at.as<std::int32_t>().begin(), at.as<std::int32_t>().end(), 0);
  return Dataset::of({{"image", images}, {"at", at}})
      .map("image", {random_crop({4, 4}, {1, 1, 1, 1}, 3), random_horizontal_flip(0.5, 3)});
}

std::map<double, Numbers> images_of(const Dataset& data, std::int64_t epoch) {
  std::map<double, Numbers> out;
  RowReader reader(data, {.epoch = epoch, .ahead = 0});
  while (const auto row = reader.next()) out[to_doubles(row->values[1])[0]] = to_doubles(row->values[0]);
  return out;
}

TEST(Rows, chance_follows_the_sample_whatever_order_and_shard_it_is_read_in) {
  const auto plain = images_of(noise_images(20), 1);
  EXPECT_EQ(images_of(noise_images(20).shuffle(9), 1), plain);
  EXPECT_NE(images_of(noise_images(20), 2), plain);
  for (const auto& [at, image] : images_of(noise_images(20).shard(4, 3), 1)) EXPECT_EQ(image, plain.at(at));
}

TEST(Rows, crops_and_flips_reach_every_place) {
  const Dataset pixels = Dataset({{"image", make_tensor({DType::u8, {1, 2, 2, 1}}, Numbers{1, 2, 3, 4})}})
                             .map("image", {random_crop({1, 1}, {}, 1)});
  std::map<double, int> hits;
  for (const double x : read_all(pixels.repeat(), 0, 0, 800)) ++hits[x];
  ASSERT_EQ(hits.size(), 4U);  // 200 expected of each, deviation 12
  for (const auto& [x, count] : hits) EXPECT_NEAR(count, 200, 75) << x;
}

}  // namespace
}  // namespace shardwright

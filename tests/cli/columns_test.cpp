// Recommenders trained on columns that people write: the losses of the same samples as tensors, wherever they lie.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "shardwright/runtime/data/written_columns.h"
#include "shardwright/runtime/safetensors.h"
#include "tests/support/command_outcome.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

using Words = std::vector<std::string>;

constexpr std::size_t samples = 44, hot = 3;
const std::string columns = ":dense=2,tables=2,rows=9,hot=3,width=4,batch=8",
                  dlrm = "dlrm" + columns + ",bottom=6,top=6";

/// Samples as a table of text, as arrays of numpy's and as tensors.
struct Drawn {
  std::string text = "ids.1,day,ids.2,label,dense.1,dense.2\n";
  std::vector<double> dense, ids, label;

  Drawn() {
    for (std::size_t s = 0; s < samples; ++s) {
      std::string bags[2];
      for (std::size_t t = 0; t < 2; ++t)
        for (std::size_t h = 0; h < hot; ++h) {
          const bool is_there = h < (s + t) % 4;
          const std::size_t id = (s * 5 + t * 3 + h * h) % 9;
          ids.push_back(is_there ? static_cast<double>(id) : -1);
          if (is_there) bags[t] += (h > 0 ? "|" : "") + std::to_string(id);
        }
      for (std::size_t d = 0; d < 2; ++d) dense.push_back(static_cast<double>(s * (d + 3) % 7) / 4 - 0.75);
      label.push_back(s % 3 == 0 ? 1 : 0);
      text += fmt::format("{},\"a, b\",{},{},{},{}\n", bags[0], bags[1], label[s], dense[2 * s],
                          dense[2 * s + 1]);
    }
  }
};

void write_npy(const std::string& path, const std::string& dims, std::span<const double> numbers) {
  std::string head = fmt::format("{{'descr': '<f8', 'fortran_order': False, 'shape': ({}), }}", dims);
  head.resize(117, ' ');
  write_bytes(path, std::string("\x93NUMPY\x01\x00\x76\x00", 10) + head + "\n" +
                        std::string(reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes()));
}

class EndToEndColumns : public ::testing::Test {
 protected:
  EndToEndColumns() : folder_(scratch_folder()) {
    const Drawn drawn;
    write_bytes(folder_ + "/t.csv", drawn.text);
    constexpr auto count = static_cast<std::int64_t>(samples);
    write_safetensors(folder_ + "/t.safetensors",
                      {{"dense", make_tensor({DType::f64, {count, 2}}, drawn.dense)},
                       {"ids", make_tensor({DType::i32, {count, 2, 3}}, drawn.ids)},
                       {"label", make_tensor({DType::f64, {count, 1}}, drawn.label)}});
    std::filesystem::create_directory(folder_ + "/arrays");
    write_npy(folder_ + "/arrays/dense.npy", "44, 2", drawn.dense);
    write_npy(folder_ + "/arrays/label.npy", "44,", drawn.label);
    std::string ids;  // i32
    const Tensor whole = make_tensor({DType::i32, {count, 2, 3}}, drawn.ids);
    ids.assign(reinterpret_cast<const char*>(whole.bytes().data()), whole.bytes().size());
    std::string head = "{'descr': '<i4', 'fortran_order': False, 'shape': (44, 2, 3), }";
    head.resize(117, ' ');
    write_bytes(folder_ + "/arrays/ids.npy",
                std::string("\x93NUMPY\x01\x00\x76\x00", 10) + head + "\n" + ids);
  }
  testing::CommandOutcome train(const std::string& model, const std::string& data, const Words& more) const {
    return testing::outcome_of(testing::with({"train", model, "--data", folder_ + "/" + data, "--lr", "0.05",
                                              "--json", "--precision", "f64", "--optimizer", "adagrad"},
                                             more));
  }
  /// The losses of all steps, behind them that of the held-out samples if there are some.
  std::vector<double> losses(const std::string& model, const std::string& data, const Words& more) const {
    const testing::CommandOutcome ran = train(model, data, more);
    EXPECT_EQ(ran.status, 0) << ran.err;
    std::vector<double> out;
    std::istringstream lines(ran.out);
    for (std::string line; std::getline(lines, line);) {
      const auto json = nlohmann::json::parse(line);
      if (json.contains("loss")) out.push_back(json["loss"]);
      if (json.contains("eval")) out.push_back(json["eval"]["loss"]);
    }
    return out;
  }

  const std::string folder_;
};

void expect_near(std::span<const double> found, std::span<const double> want) {
  ASSERT_EQ(found.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(found[i], want[i], 1e-12 * want[i]) << i;
}

TEST_F(EndToEndColumns, are_the_samples_that_tensors_are) {
  for (const std::string& model : {dlrm, "wide_deep" + columns + ",deep=6"}) {
    const Words steps{"--epochs", "3", "--seed", "7"};
    const std::vector<double> want =
        losses(model, "t.safetensors", testing::with(steps, {"--eval", folder_ + "/t.safetensors"}));
    ASSERT_EQ(want.size(), 3 * 5 + 1U);
    for (const char* data : {"t.csv", "arrays"})
      for (const char* devices : {"1", "2"})
        expect_near(
            losses(model, data, testing::with(steps, {"--devices", devices, "--eval", folder_ + "/" + data})),
            want);
  }
}

TEST_F(EndToEndColumns, go_on_in_the_middle_of_an_epoch) {
  const std::vector<double> whole = losses(dlrm, "t.csv", {"--steps", "12"});
  losses(dlrm, "t.csv", {"--steps", "7", "--save", folder_ + "/run"});
  for (const char* from : {"run", "auto"}) {
    const Words resume = from == std::string("auto") ? Words{"--resume", "auto", "--save", folder_ + "/run"}
                                                     : Words{"--resume", folder_ + "/run"};
    expect_near(losses(dlrm, "t.csv", testing::with({"--steps", "12", "--devices", "2"}, resume)),
                std::span(whole).subspan(7));
  }
}

TEST_F(EndToEndColumns, of_words_are_hashed_where_the_model_says_so) {
  std::string text = "dense,ids.1,ids.2,label\n";
  Tensor ids({DType::i64, {16, 2, 3}});
  std::ranges::fill(ids.as<std::int64_t>(), -1);
  std::vector<double> dense, label;
  for (std::size_t s = 0; s < 16; ++s) {
    const std::string first = fmt::format("size {}", s % 5), second = s % 4 == 0 ? "" : "caf\xc3\xa9";
    const std::int64_t number = std::int64_t{1} << (3 * s);
    text += fmt::format("{}|1,\"{}|{}\",{},{}\n", s, first, number, second, s % 2);
    const auto row = ids.as<std::int64_t>().subspan(6 * s, 6);
    row[0] = id_of_word(first);
    row[1] = number;
    if (!second.empty()) row[3] = id_of_word(second);
    dense.insert(dense.end(), {static_cast<double>(s), 1});
    label.push_back(static_cast<double>(s % 2));
  }
  write_bytes(folder_ + "/words.csv", text);
  write_safetensors(folder_ + "/words.safetensors", {{"dense", make_tensor({DType::f64, {16, 2}}, dense)},
                                                     {"ids", std::move(ids)},
                                                     {"label", make_tensor({DType::f64, {16, 1}}, label)}});
  const std::string hashed = dlrm + ",hash=1";
  const std::vector<double> want = losses(hashed, "words.safetensors", {"--epochs", "4"});
  ASSERT_EQ(want.size(), 8U);
  EXPECT_LT(want.back(), want.front());
  expect_near(losses(hashed, "words.csv", {"--epochs", "4"}), want);
  expect_near(losses(hashed, "words.csv", {"--epochs", "4", "--devices", "2", "--fix", "dp=2"}), want);
  expect_near(losses(hashed, "words.csv", {"--epochs", "4", "--devices", "2", "--fix", "tp=2"}), want);
  EXPECT_NE(train(dlrm, "words.csv", {"--steps", "1"}).err.find("words are ids of a model with hash=1"),
            std::string::npos);
}

TEST_F(EndToEndColumns, that_nothing_takes_are_named) {
  const auto ran = train(dlrm, "t.csv", {"--steps", "1"});
  EXPECT_NE(ran.err.find("t.csv: a column is not read, as no input is called so: 'day'\n"), std::string::npos)
      << ran.err;
}

TEST_F(EndToEndColumns, of_a_part_lie_in_a_folder_and_need_no_label_to_be_asked_about) {
  const std::string parts = folder_ + "/parts";
  std::filesystem::create_directory(parts);
  std::filesystem::copy(folder_ + "/t.csv", parts + "/train.csv");
  write_bytes(parts + "/test.csv", "dense.1,dense.2,ids.1,ids.2\n1,2,3,4\n0,1,,5|6\n");
  losses(dlrm, "parts", {"--steps", "2", "--save", folder_ + "/run"});
  const auto asked = testing::outcome_of(
      {"infer", dlrm, "--checkpoint", folder_ + "/run", "--data", parts, "--precision", "f64", "--json"});
  EXPECT_EQ(asked.status, 0) << asked.err;
  EXPECT_EQ(asked.document()["samples"], 2);
}

TEST_F(EndToEndColumns, are_asked_for_where_there_are_none) {
  const auto ran = train(dlrm, "", {"--steps", "1"});
  EXPECT_EQ(ran.status, 2);
  EXPECT_EQ(ran.err,
            "shardwright: " + folder_ +
                "/: is nothing that inputs dense, ids, label are read from; they are columns of a .csv or "
                ".tsv, a .npy each in a folder, or tensors of a .safetensors\n");
}

}  // namespace
}  // namespace shardwright

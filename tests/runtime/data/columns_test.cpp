// Columns that people write: what is read from them, and how what is wrong is told.
#include <gtest/gtest.h>

#include <algorithm>

#include "shardwright/runtime/data/csv_records.h"
#include "shardwright/runtime/data/written_columns.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

using Cells = std::vector<std::string>;

/// All records of a file that holds `text`, read so many bytes at once.
std::vector<Cells> records_of(const std::string& text, std::size_t block = 1 << 13) {
  const std::string path = scratch_folder() + "/t.csv";
  write_bytes(path, text);
  const OpenFile file(path);
  CsvRecords records(file, ',', {}, block);
  std::vector<Cells> out;
  while (records.next()) out.emplace_back(records.cells().begin(), records.cells().end());
  return out;
}

std::string message_of(const std::string& text) {
  const std::string message = error_of([&] { records_of(text); });
  return message.substr(message.find("t.csv"));
}

TEST(CsvRecords, quotes_are_those_of_rfc_4180) {
  const std::string text = "a,\"b,c\",\"d\"\"e\"\r\n\r\n\"line\r\nline\",,\n\n\xc3\xa4 , x,\"\"\n\"last\"";
  const std::vector<Cells> want{
      {"a", "b,c", "d\"e"}, {"line\r\nline", "", ""}, {"\xc3\xa4 ", " x", ""}, {"last"}};
  for (const std::size_t block : {1, 2, 3, 7, 8192}) EXPECT_EQ(records_of(text, block), want) << block;
  EXPECT_EQ(records_of("\xef\xbb\xbf"
                       "a,b\n"),
            (std::vector<Cells>{{"a", "b"}}));
  EXPECT_TRUE(records_of("").empty());
  EXPECT_TRUE(records_of("\n\r\n").empty());
}

TEST(CsvRecords, what_is_broken_is_told_with_its_line) {
  EXPECT_EQ(message_of("a\n\"b\nc\n"), "t.csv:2: the quote of cell 1 is not closed");
  EXPECT_EQ(message_of("a,\"b\"c\n"),
            "t.csv:1: behind the quotes of cell 2 should stand the next cell, or the line's end");
  EXPECT_EQ(message_of("a\nb,5\"\n"),
            "t.csv:2: cell 2 has a quote inside; it should stand in quotes, the one inside twice");
  EXPECT_EQ(message_of("a\rb\n"),
            "t.csv:1: has a carriage return that ends no line; it should stand in quotes");
  EXPECT_EQ(message_of(std::string("a\nb\0c\n", 6)), "t.csv:2: holds a byte 0, as no text does");
  EXPECT_EQ(message_of("\"" + std::string((1 << 22) + 1, 'x') + "\"\n"),
            "t.csv:1: cell 1 is longer than 4194304 bytes; a quote may not have been closed");
  EXPECT_EQ(message_of(std::string((1 << 22) + (1 << 14), ',')), "t.csv:1: has more than 4194304 bytes");
}

/// Two numbers, two bags of up to three ids, and a label of each sample.
WrittenInputs inputs() {
  return {{"dense", {.type = {DType::f32, {4, 2}}}},
          {"ids", {.type = {DType::i32, {4, 2, 3}}, .lowest = -1, .below = 10, .are_bags = true}},
          {"label", {.type = {DType::f32, {4, 1}}, .are_shares = true}}};
}

class Columns : public ::testing::Test {
 protected:
  Columns() : folder_(scratch_folder()) {}
  std::string csv(const std::string& text) const {
    write_bytes(folder_ + "/t.csv", text);
    return folder_ + "/t.csv";
  }
  /// Of the error about a file with `text`, behind the folder's name.
  std::string error_about(const std::string& text, const WrittenInputs& of = inputs()) const {
    const std::string path = csv(text);
    const std::string message = error_of([&] { written_columns(path, of); });
    return message.starts_with(folder_) ? message.substr(folder_.size() + 1) : message;
  }
  void npy(const std::string& input, const std::string& type, const std::string& dims,
           const std::string& numbers) const {
    std::string head = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", type, dims);
    head.resize(117, ' ');
    write_bytes(fmt::format("{}/{}.npy", folder_, input),
                std::string("\x93NUMPY\x01\x00\x76\x00", 10) + head + "\n" + numbers);
  }

  std::string folder_;
};

template <class T>
std::string bytes_of(const std::vector<T>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)};
}

using Doubles = std::vector<double>;

TEST_F(Columns, a_csv_is_read_by_the_names_in_its_first_line) {
  std::string text = "ids_2,note,dense10,label,dense9,ids_1\n";
  for (int i = 0; i < 100; ++i)  // more than are marked at once
    text +=
        fmt::format("{},\"a\nnote\",{}.5,{},{}e-1,1|{}\n", i % 2 == 0 ? "" : "7|8|9", i, i % 2, i, i % 10);
  const std::string path = csv(text);
  EXPECT_EQ(unread_columns(path, inputs()), (std::vector<std::string>{"'note'"}));
  const Dataset data = written_columns(path, inputs());
  ASSERT_EQ(data.samples(), 100);
  EXPECT_EQ(data.columns(), (std::vector<std::string>{"dense", "ids", "label"}));
  for (const int i : {0, 99, 17, 15, 16, 31, 98}) {
    const auto row = data.rows().row(3, i);
    const Doubles bag = i % 2 == 0 ? Doubles{-1, -1, -1} : Doubles{7, 8, 9};
    EXPECT_EQ(row->values[0], make_tensor({DType::f32, {2}}, Doubles{i * 0.1, i + 0.5})) << i;
    EXPECT_EQ(row->values[1],
              make_tensor({DType::i32, {2, 3}}, Doubles{1.0, i % 10 * 1.0, -1, bag[0], bag[1], bag[2]}));
    EXPECT_EQ(row->values[2], make_tensor({DType::f32, {1}}, Doubles{i % 2 * 1.0}));
  }
}

TEST_F(Columns, an_id_may_have_a_column_of_its_own) {
  const Dataset data = written_columns(
      csv("label,dense,ids.0,ids.1,ids.2,ids.3,ids.4,ids.5\n0.25,1|2,1,,3,-1,5,6\n"), inputs());
  EXPECT_EQ(to_doubles(data.rows().row(0, 0)->values[0]), (Doubles{1, 2}));
  EXPECT_EQ(to_doubles(data.rows().row(0, 0)->values[1]), (Doubles{1, -1, 3, -1, 5, 6}));
}

TEST_F(Columns, words_are_ids_where_they_are_asked_for) {
  WrittenInputs words = inputs();
  words["ids"] = {.type = {DType::i64, {4, 2, 3}}, .lowest = -1, .are_bags = true, .are_words = true};
  const Dataset data = written_columns(csv("label,dense,ids1,ids2\n0,1|2,shoes|17|caf\xc3\xa9,a\n"), words);
  const Tensor ids = data.rows().row(0, 0)->values[1];
  // FNV-1a of 64 bits, halved: that of `a` is the published af63dc4c8601ec8c; the others are a Python loop's
  const std::vector<std::int64_t> want{8878186015566625049,    17, 2626796077215516356,
                                       0xaf63dc4c8601ec8c / 2, -1, -1};
  EXPECT_TRUE(std::ranges::equal(ids.as<std::int64_t>(), want));
}

TEST_F(Columns, what_is_wrong_in_a_csv_is_told_with_line_and_column) {
  const std::string head = "label,dense.1,dense.2,ids.1,ids.2\n", good = "1,2,3,4,5\n";
  EXPECT_EQ(error_about(""), "t.csv: is empty; its first line should name the columns");
  EXPECT_EQ(error_about(head), "t.csv: names columns but holds no samples");
  EXPECT_EQ(error_about(head + good + "1,2,3,4\n"), "t.csv:3: has 4 cells, but 5 columns are named");
  EXPECT_EQ(error_about(head + good + "\n" + "1,x\t2,3,4,5\n"),
            "t.csv:4: column 'dense.1' holds 'x 2'; it should be a number");
  EXPECT_EQ(error_about(head + "1,2,,4,5\n"), "t.csv:2: column 'dense.2' holds ''; it should be a number");
  EXPECT_EQ(error_about(head + "1,2,1e39,4,5\n"),
            "t.csv:2: column 'dense.2' holds 1e+39, which f32 cannot hold");
  EXPECT_EQ(error_about(head + "2,2,3,4,5\n"), "t.csv:2: column 'label' holds 2; it should be from 0 to 1");
  EXPECT_EQ(error_about(head + good + "1,2,3,4,10\n"),
            "t.csv:3: column 'ids.2' holds 10; it should be from 0 to 9, or -1 for none");
  EXPECT_EQ(error_about(head + "1,2,3,4,shoes\n"),
            "t.csv:2: column 'ids.2' holds 'shoes'; it should be an integer; words are ids of a model "
            "with hash=1");
  EXPECT_EQ(error_about(head + "1,2,3,1|2|3|4,5\n"),
            "t.csv:2: column 'ids.1' holds 4 elements; a bag has room for 3");
}

TEST_F(Columns, missing_columns_are_named) {
  const std::string rest = ",dense.1,dense.2,ids.1,ids.2\n1,2,3,4,5\n";
  EXPECT_EQ(
      error_about("lable" + rest),
      "t.csv:1: input 'label' takes a column 'label'; there are 0 in the first line (did you mean lable?)");
  EXPECT_EQ(error_about("label,dense.1,ids.1,ids.2\n1,2,3,4\n"),
            "t.csv:1: input 'dense' takes 2 columns 'dense.1', 'dense.2' and so on; there are 1 in the first "
            "line (did you mean dense.1?)");
  EXPECT_EQ(
      error_about("label,dense.1,dense.2,ids.1\n1,2,3,4\n"),
      "t.csv:1: input 'ids' takes 6 columns 'ids.1', 'ids.2' and so on, or 2 of up to 3 ids each; there "
      "are 1 in the first line (did you mean ids.1?)");
  EXPECT_EQ(error_about("label,dense.1,dense.3,ids.1,ids.2\n1,2,3,4,5\n"),
            "t.csv:1: column 'dense.1' is followed by 'dense.3'; their numbers should follow each other");
  EXPECT_EQ(error_about("label,label" + rest), "t.csv:1: two columns are called 'label'");
  WrittenInputs unlabelled = inputs();
  unlabelled["label"].may_lack = true;
  EXPECT_EQ(written_columns(csv("dense,ids.1,ids.2\n1|2,3,4\n"), unlabelled).columns(),
            (std::vector<std::string>{"dense", "ids"}));
}

TEST_F(Columns, numpy_files_are_read_whatever_their_type) {
  npy("dense", "<f8", "2, 2", bytes_of(Doubles{1.5, 2, 3, 4}));
  npy("label", "|u1", "2,", std::string("\0\1", 2));
  npy("ids", "<i8", "2, 2, 3", bytes_of(std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, -1, -1}));
  EXPECT_TRUE(has_columns(folder_, {{"ids", {}}}));
  const Dataset data = written_columns(folder_, inputs());
  ASSERT_EQ(data.samples(), 2);
  const auto row = data.rows().row(0, 1);
  EXPECT_EQ(row->values[0], make_tensor({DType::f32, {2}}, Doubles{3, 4}));
  EXPECT_EQ(row->values[1], make_tensor({DType::i32, {2, 3}}, Doubles{6, 7, 8, 9, -1, -1}));
  EXPECT_EQ(row->values[2], make_tensor({DType::f32, {1}}, Doubles{1}));
}

TEST_F(Columns, what_is_wrong_in_a_numpy_file_is_told) {
  const auto told = [&] {
    const std::string message = error_of([&] { written_columns(folder_, inputs()); });
    return message.substr(std::min(folder_.size(), message.size()));
  };
  npy("dense", "<f4", "2, 2", bytes_of(std::vector<float>{1, 2, 3, 4}));
  npy("ids", "<i4", "2, 2, 3", bytes_of(std::vector<std::int32_t>(12, 1)));
  EXPECT_EQ(told(), ": has no label.npy, which the model needs");
  npy("label", "<f4", "3,", bytes_of(std::vector<float>{0, 0, 0}));
  EXPECT_EQ(told(), "/label.npy: has 3 samples but dense.npy has 2");
  npy("label", "<f4", "2, 2", bytes_of(std::vector<float>{0, 0, 0, 0}));
  EXPECT_EQ(told(),
            "/label.npy: is [2, 2] but input 'label' takes [1] of each sample; it should be [samples, ...]");
  npy("label", ">f4", "2,", bytes_of(std::vector<float>{0, 0}));
  EXPECT_EQ(told(),
            "/label.npy: holds numbers of type '>f4'; integers and floats of up to 8 bytes, the lowest byte "
            "first, are read");
  npy("label", "<f4", "2,", bytes_of(std::vector<float>{0}));
  EXPECT_EQ(told(), "/label.npy: claims numbers of dims (2,), but holds 1; truncated or damaged");
  npy("label", "<f4", "2,", bytes_of(std::vector<float>{0, NAN}));
  EXPECT_EQ(told(), "/label.npy: sample 1 holds nan; nothing can be learnt from that");
  npy("label", "<f4", "2,", bytes_of(std::vector<float>{0, 1}));
  std::vector<std::int32_t> ids(12, 1);
  ids[7] = 10;
  npy("ids", "<i4", "2, 2, 3", bytes_of(ids));
  EXPECT_EQ(told(), "/ids.npy: sample 1 holds 10; it should be from 0 to 9, or -1 for none");
  npy("ids", "<f4", "2, 2, 3", bytes_of(std::vector<float>(12, 1)));
  EXPECT_EQ(told(), "/ids.npy: holds numbers of type '<f4', but input 'ids' takes integers");
}

}  // namespace
}  // namespace shardwright

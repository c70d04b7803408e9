// What is drawn is accepted, and what is not a sentence is not.
#include <gtest/gtest.h>

#include <algorithm>

#include "shardwright/base/text.h"
#include "shardwright/runtime/data/drawn_sentences.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

TEST(Sentences, that_are_drawn_are_sentences) {
  const std::string folder = scratch_folder();
  write_drawn_sentences(folder, {.train = 2000, .test = 50, .seed = 3});
  const std::string train = read_bytes(folder + "/train.txt"), val = read_bytes(folder + "/val.txt");
  int lines = 0, nested = 0;
  for (const std::string_view line : split(train, '\n')) {
    if (line.empty()) continue;
    ++lines;
    nested += line.find(" that ") != std::string_view::npos ? 1 : 0;
    EXPECT_TRUE(is_sentence(line)) << line;
  }
  EXPECT_EQ(lines, 2000);
  EXPECT_GT(nested, 200);
  EXPECT_EQ(std::ranges::count(val, '\n'), 50);
  EXPECT_FALSE(train.starts_with(val.substr(0, val.find('\n'))));
  EXPECT_EQ(error_of([&] { write_drawn_sentences(folder); }),
            folder + "/train.txt: is there already; remove it or choose another folder");
}

TEST(Sentences, agree_in_number_and_are_whole) {
  for (const char* line :
       {"The river sleeps.", "The rivers sleep.", "Every old teacher that helps many birds sings well.",
        "These letters that fall like a quiet window that waits."})
    EXPECT_TRUE(is_sentence(line)) << line;
  for (const char* line :
       {"The river sleep.", "The rivers sleeps.", "Every rivers sleep.", "A old old river waits.",
        "The river sees.", "The river that sees sleeps.", "The river that waits.", "the river sleeps.",
        "The river sleeps", "The  river sleeps.", "The river sleeps well well.", "", ".", "The.",
        "River sleeps.", "The river sleeps. The river sleeps."})
    EXPECT_FALSE(is_sentence(line)) << line;
}

}  // namespace
}  // namespace shardwright

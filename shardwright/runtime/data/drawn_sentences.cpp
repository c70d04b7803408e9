#include "shardwright/runtime/data/drawn_sentences.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <vector>

#include "shardwright/base/error.h"
#include "shardwright/base/file.h"
#include "shardwright/base/random.h"
#include "shardwright/base/text.h"

namespace shardwright {
namespace {

namespace fs = std::filesystem;

enum class Count { one, many };

using Words = std::span<const std::string_view>;

constexpr std::string_view determiners_of_one[] = {"the", "a", "every", "this"};
constexpr std::string_view determiners_of_many[] = {"the", "some", "many", "these"};
constexpr std::string_view adjectives[] = {"old",   "small", "quiet", "bright",
                                           "young", "green", "tired", "happy"};
// Many of them have an s more.
constexpr std::string_view nouns[] = {"river", "teacher", "bird",   "bridge", "doctor", "garden",
                                      "horse", "letter",  "sailor", "window", "farmer", "student"};
// One of them has an s more.
constexpr std::string_view goes[] = {"sleep", "wait", "sing", "laugh", "travel", "listen", "work", "fall"};
constexpr std::string_view sees[] = {"see", "help", "follow", "paint", "answer", "remember", "like", "build"};
constexpr std::string_view adverbs[] = {"well", "slowly", "often", "again", "today"};

Words determiners(Count count) {
  return count == Count::one ? Words(determiners_of_one) : Words(determiners_of_many);
}

class Author {
 public:
  Author(std::uint64_t seed, std::string_view part) : random_(seed, part) {}

  std::string sentence() {
    words_.clear();
    const Count count = any_count();
    noun_phrase(count, 0);
    verb_phrase(count, 0);
    std::string out = join(words_, " ") + ".";
    out[0] = static_cast<char>(out[0] - 'a' + 'A');
    return out;
  }

 private:
  std::int64_t below(std::int64_t n) { return random_.below(drawn_++, n); }
  Count any_count() { return below(2) == 0 ? Count::one : Count::many; }
  void put(Words words, std::string_view end = "") {
    words_.push_back(std::string(words[static_cast<std::size_t>(below(std::ssize(words)))]).append(end));
  }
  void noun_phrase(Count count, int depth) {
    put(determiners(count));
    if (below(3) == 0) put(adjectives);
    put(nouns, count == Count::many ? "s" : "");
    if (depth >= 2 || below(4) > 0) return;
    words_.emplace_back("that");
    verb_phrase(count, depth + 1);
  }
  void verb_phrase(Count count, int depth) {
    const std::string_view end = count == Count::one ? "s" : "";
    if (below(2) == 0) {
      put(goes, end);
      if (below(3) == 0) put(adverbs);
    } else {
      put(sees, end);
      noun_phrase(any_count(), depth + 1);
    }
  }

  RandomStream random_;
  std::uint64_t drawn_ = 0;
  std::vector<std::string> words_;
};

bool has(Words words, std::string_view word) { return std::ranges::find(words, word) != words.end(); }

/// Reads from left to right; the next word always says which way.
class Reader {
 public:
  explicit Reader(std::vector<std::string> words) : words_(std::move(words)) {}

  bool sentence() {
    Count count{};
    return noun_phrase(count) && verb_phrase(count) && at_ == words_.size();
  }

 private:
  std::string_view next() const {
    return at_ < words_.size() ? std::string_view(words_[at_]) : std::string_view();
  }
  bool take(Words words) {
    if (!has(words, next())) return false;
    ++at_;
    return true;
  }
  /// One of them with an s or without; whether there is one says `with_s`.
  bool take(Words words, bool& with_s) {
    std::string_view word = next();
    with_s = word.ends_with('s') && !has(words, word);
    if (with_s) word.remove_suffix(1);
    if (!has(words, word)) return false;
    ++at_;
    return true;
  }
  bool noun_phrase(Count& count) {
    const std::string_view determiner = next();
    bool are_many = false;
    if (!take(determiners_of_one) && !take(determiners_of_many)) return false;
    take(adjectives);
    if (!take(nouns, are_many)) return false;
    count = are_many ? Count::many : Count::one;
    if (!has(determiners(count), determiner)) return false;
    if (next() != "that") return true;
    ++at_;
    return verb_phrase(count);
  }
  bool verb_phrase(Count count) {
    bool is_of_one = false;
    if (take(goes, is_of_one)) {
      take(adverbs);
    } else {
      Count object{};
      if (!take(sees, is_of_one) || !noun_phrase(object)) return false;
    }
    return is_of_one == (count == Count::one);
  }

  std::vector<std::string> words_;
  std::size_t at_ = 0;
};

std::string drawn(std::int64_t lines, std::uint64_t seed, std::string_view part) {
  Author author(seed, part);
  std::string out;
  for (std::int64_t i = 0; i < lines; ++i) out += author.sentence() + "\n";
  return out;
}

}  // namespace

bool is_sentence(std::string_view line) {
  if (!line.ends_with('.') || line[0] < 'A' || line[0] > 'Z') return false;
  std::string lower(line.substr(0, line.size() - 1));
  lower[0] = static_cast<char>(lower[0] - 'A' + 'a');
  std::vector<std::string> words;
  for (const std::string_view word : split(lower, ' ')) words.emplace_back(word);
  return Reader(std::move(words)).sentence();
}

void write_drawn_sentences(const std::string& directory, const DrawnSentencesOptions& options) {
  constexpr std::int64_t most_lines = 10'000'000;
  for (const std::int64_t lines : {options.train, options.test})
    if (lines < 1 || lines > most_lines)
      throw error("sentences: {} lines asked for, must be 1 to {}", lines, most_lines);
  std::error_code bad;
  fs::create_directories(directory, bad);
  if (bad) throw io_error("{}: cannot be made: {}", directory, bad.message());
  const std::string train = directory + "/train.txt", val = directory + "/val.txt";
  for (const std::string& path : {train, val})
    if (fs::exists(path, bad))
      throw io_error("{}: is there already; remove it or choose another folder", path);
  NewFile train_file(train), val_file(val);
  train_file.write(drawn(options.train, options.seed, "train sentences"));
  val_file.write(drawn(options.test, options.seed, "test sentences"));
  train_file.keep();
  val_file.keep();
}

}  // namespace shardwright

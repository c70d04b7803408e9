#include "shardwright/runtime/data/tokenized.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

namespace shardwright {
namespace {

/// Documents that wait are encoded together, by as many threads as there are cores, and given in their order.
class Crew {
 public:
  Crew(const Tokenizer& tokenizer, const TokenizeOptions& options)
      : end_(options.end), around_(options.around) {
    constexpr unsigned most = 64;
    for (unsigned i = std::clamp(std::thread::hardware_concurrency(), 1U, most); i > 0; --i)
      encoders_.push_back(std::make_unique<Encoder>(tokenizer));
  }

  void add(std::string_view text) {
    waiting_bytes_ += text.size();
    waiting_.emplace_back(text);
  }
  bool has_enough() const {
    constexpr std::size_t enough_bytes = 1 << 23;
    return waiting_bytes_ > enough_bytes;
  }

  /// Of those that wait. Throws: what encoding threw.
  std::vector<TokenIds> encode() {
    std::vector<TokenIds> out(waiting_.size());
    std::atomic<std::size_t> next = 0;
    const auto work = [&](Encoder& encoder) {
      try {
        for (std::size_t i = next++; i < waiting_.size(); i = next++) encode(encoder, waiting_[i], out[i]);
      } catch (...) {
        const std::lock_guard lock(failed_mutex_);
        failed_ = std::current_exception();
      }
    };
    {
      std::vector<std::jthread> others;
      for (std::size_t i = 1; i < std::min(encoders_.size(), waiting_.size()); ++i)
        others.emplace_back([&, i] { work(*encoders_[i]); });
      work(*encoders_[0]);
    }
    if (failed_) std::rethrow_exception(failed_);
    waiting_.clear();
    waiting_bytes_ = 0;
    return out;
  }

 private:
  void encode(Encoder& encoder, const std::string& text, TokenIds& ids) const {
    encoder.encode(text, around_, ids);
    if (end_ && (ids.empty() || ids.back() != *end_)) ids.push_back(*end_);
  }

  std::optional<std::int32_t> end_;
  Around around_;
  std::vector<std::unique_ptr<Encoder>> encoders_;  // one a thread
  std::vector<std::string> waiting_;
  std::size_t waiting_bytes_ = 0;
  std::mutex failed_mutex_;  // of what follows
  std::exception_ptr failed_;
};

}  // namespace

Tokenized tokenize(const Tokenizer& tokenizer, std::span<const std::string> paths,
                   const TokenizeOptions& options,
                   const std::function<void(std::span<const std::int32_t>)>& take) {
  Tokenized out;
  Crew crew(tokenizer, options);
  const auto give = [&] {
    for (const TokenIds& ids : crew.encode()) {
      take(ids);
      ++out.documents;
      out.tokens += std::ssize(ids);
    }
  };
  for (const std::string& path : paths)
    for_each_document(path, options.line, [&](std::string_view text) {
      crew.add(text);
      out.text_bytes += std::ssize(text);
      if (crew.has_enough()) give();
    });
  give();
  return out;
}

namespace {

/// As a document; whether it is learnt to say them is as `is_asked` has it.
void append(MarkedTokens& to, std::span<const std::int32_t> ids, bool is_asked) {
  const std::size_t first = to.ids.size();
  to.ids.insert(to.ids.end(), ids.begin(), ids.end());
  to.marks.resize(to.ids.size(), {.is_asked = is_asked});
  if (!ids.empty()) to.marks[first].begins = true;
}

}  // namespace

MarkedTokens tokens_of(const Tokenizer& tokenizer, const std::string& path, std::optional<std::int32_t> end) {
  MarkedTokens out;
  tokenize(tokenizer, std::span(&path, 1), {.end = end},
           [&](std::span<const std::int32_t> ids) { append(out, ids, true); });
  return out;
}

MarkedTokens talks_of(const Tokenizer& tokenizer, const std::string& path, const ChatTemplate& chat) {
  if (!are_json_lines(path)) throw error("{} holds no talks; they are JSON lines (*.jsonl)", path);
  MarkedTokens out;
  Encoder encoder(tokenizer);
  Talk talk;  // of the line that is read
  const LineText line{.key = "messages", .made = [&](const nlohmann::ordered_json& messages) {
                        talk = talk_of(chat, messages);
                        return talk.text;
                      }};
  for_each_document(path, line, [&](std::string_view text) {
    TokenIds ids;
    encoder.encode(text, Around::nothing, ids);
    const std::size_t first = out.ids.size();
    append(out, ids, false);
    // How many tokens stand before a place in the text, and whether one more begins before it.
    const auto before = [&](std::size_t place) {
      TokenIds own;
      encoder.encode(text.substr(0, place), Around::nothing, own);
      const auto common = static_cast<std::size_t>(std::ranges::mismatch(own, ids).in1 - own.begin());
      return std::pair(common, own.size() > common);
    };
    for (const TextPart& answer : talk.answers) {
      const std::size_t begin = before(answer.begin).first;
      const auto [whole, is_across] = before(answer.end);
      const std::size_t end = answer.end == text.size() ? ids.size() : whole + (is_across ? 1 : 0);
      for (std::size_t i = begin; i < std::min(end, ids.size()); ++i) out.marks[first + i].is_asked = true;
    }
  });
  return out;
}

}  // namespace shardwright

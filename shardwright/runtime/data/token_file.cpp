#include "shardwright/runtime/data/token_file.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <utility>

#include "shardwright/base/error.h"
#include "shardwright/runtime/data/token_lay.h"

namespace shardwright {
namespace {

/// Tokens by number, wherever they lie.
struct TokenRow {
  std::string name;
  std::int64_t count = 0;
  std::function<void(std::int64_t first, std::span<std::int64_t> to)> read;
  /// Of those that have been read from `first` on.
  std::function<std::vector<TokenMark>(std::int64_t first, std::span<const std::int64_t> tokens)> marks;
};

/// Throws: Error of kind io that names the first of those from `first` on that is none of `vocabulary`.
void check_tokens(const std::string& name, std::int64_t first, std::span<const std::int64_t> tokens,
                  std::int64_t vocabulary) {
  const std::int64_t most = vocabulary > 0 ? vocabulary : std::numeric_limits<std::int32_t>::max();
  const auto odd =
      std::ranges::find_if(tokens, [&](std::int64_t token) { return token < 0 || token >= most; });
  if (odd != tokens.end())
    throw io_error("{}: token {} is {}, must be 0 to {}", name, first + (odd - tokens.begin()), *odd,
                   most - 1);
}

class Samples {
 public:
  Samples(TokenRow tokens, const TokenOptions& options) : tokens_(std::move(tokens)), options_(options) {
    if (options.length < 1) throw error("tokens: samples of {} tokens; must be at least 1", options.length);
    if (count() < 1)
      throw io_error("{}: holds {} tokens; a sample of {} takes one more than that", tokens_.name,
                     tokens_.count, options.length);
  }
  std::int64_t count() const { return (tokens_.count - 1) / options_.length; }

  std::vector<Tensor> read(std::int64_t index) const {
    const std::int64_t length = options_.length, first = index * length;
    std::vector<std::int64_t> tokens(static_cast<std::size_t>(length + 1));
    tokens_.read(first, tokens);
    check_tokens(tokens_.name, first, tokens, options_.vocabulary);
    const std::vector<TokenMark> marks = tokens_.marks(first, tokens);
    Tensor input({DType::i32, {length}}), label({DType::i32, {length}}), places({DType::i32, {length}});
    std::int32_t place = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(length); ++i) {
      const TokenMark& next = marks[i + 1];
      input.as<std::int32_t>()[i] = static_cast<std::int32_t>(tokens[i]);
      label.as<std::int32_t>()[i] = next.is_asked && !(options_.are_apart && next.begins)
                                        ? static_cast<std::int32_t>(tokens[i + 1])
                                        : static_cast<std::int32_t>(not_asked);
      places.as<std::int32_t>()[i] = place = i > 0 && !marks[i].begins ? place + 1 : 0;
    }
    if (!options_.are_apart) return {std::move(input), std::move(label)};
    return {std::move(input), std::move(label), std::move(places)};
  }

 private:
  TokenRow tokens_;
  TokenOptions options_;
};

Dataset dataset_of(TokenRow tokens, const TokenOptions& options) {
  const auto samples = std::make_shared<const Samples>(std::move(tokens), options);
  DataRows rows;
  for (const char* name : {"input", "label", "position_ids"})
    rows.columns.push_back({name, Type{DType::i32, {options.length}}});
  if (!options.are_apart) rows.columns.pop_back();
  rows.count = [samples] { return samples->count(); };
  rows.row = [samples](std::int64_t epoch, std::int64_t index) -> std::optional<DataRow> {
    if (index >= samples->count()) return std::nullopt;
    return DataRow{.values = samples->read(index), .epoch = epoch, .sample = index};
  };
  return Dataset::reading(std::move(rows));
}

}  // namespace

Dataset token_dataset(const std::string& path, const TokenOptions& options) {
  const auto file = std::make_shared<const OpenFile>(path);
  const TokenLay lay = lay_of_tokens(*file, options.bytes, options.vocabulary);
  return dataset_of(
      {path, lay.count,
       [file, lay](std::int64_t first, std::span<std::int64_t> to) { read_tokens(*file, lay, first, to); },
       [end = options.end](std::int64_t, std::span<const std::int64_t> tokens) {
         std::vector<TokenMark> out(tokens.size());
         for (std::size_t i = 1; end && i < tokens.size(); ++i) out[i].begins = tokens[i - 1] == *end;
         return out;
       }},
      options);
}

MarkedTokens read_marked(const std::string& path, const TokenOptions& options) {
  const OpenFile file(path);
  const TokenLay lay = lay_of_tokens(file, options.bytes, options.vocabulary);
  MarkedTokens out;
  std::vector<std::int64_t> block;
  bool begins = true;
  for (std::int64_t first = 0; first < lay.count; first += std::ssize(block)) {
    constexpr std::int64_t at_once = 1 << 20;
    block.resize(static_cast<std::size_t>(std::min(at_once, lay.count - first)));
    read_tokens(file, lay, first, block);
    check_tokens(path, first, block, options.vocabulary);
    for (const std::int64_t token : block) {
      out.ids.push_back(static_cast<std::int32_t>(token));
      out.marks.push_back({.begins = std::exchange(begins, options.end && token == *options.end)});
    }
  }
  return out;
}

Dataset token_dataset(MarkedTokens tokens, const std::string& name, const TokenOptions& options) {
  const auto held = std::make_shared<const MarkedTokens>(std::move(tokens));
  return dataset_of({name, std::ssize(held->ids),
                     [held](std::int64_t first, std::span<std::int64_t> to) {
                       std::copy_n(held->ids.begin() + first, to.size(), to.begin());
                     },
                     [held](std::int64_t first, std::span<const std::int64_t> read) {
                       const auto from = held->marks.begin() + first;
                       return std::vector<TokenMark>(from, from + std::ssize(read));
                     }},
                    options);
}

}  // namespace shardwright

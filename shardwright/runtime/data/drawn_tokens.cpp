#include "shardwright/runtime/data/drawn_tokens.h"

#include <array>
#include <filesystem>

#include "shardwright/base/error.h"
#include "shardwright/base/file.h"
#include "shardwright/base/random.h"

namespace shardwright {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t most_tokens = 100'000'000;
constexpr std::array<double, 3> shares = {0.6, 0.8, 0.95};  // of the first followers, added up

std::string drawn(std::int64_t count, const DrawnTokensOptions& options, std::string_view part) {
  const RandomStream language(options.seed, "language"), text(options.seed, part);
  std::string bytes;
  bytes.reserve(static_cast<std::size_t>(2 * count));
  std::int64_t token = text.below(0, options.vocabulary);
  for (std::int64_t i = 0; i < count; ++i) {
    bytes.push_back(static_cast<char>(token & 0xff));
    bytes.push_back(static_cast<char>(token >> 8));
    const double chance = text.uniform(static_cast<std::uint64_t>(i) + 1);
    std::uint64_t follower = 0;
    while (follower < shares.size() && chance >= shares[follower]) ++follower;
    token = language.below(static_cast<std::uint64_t>(token) * (shares.size() + 1) + follower,
                           options.vocabulary);
  }
  return bytes;
}

}  // namespace

void write_drawn_tokens(const std::string& directory, const DrawnTokensOptions& options) {
  if (options.vocabulary < 2 || options.vocabulary > 65536)
    throw error("tokens: a vocabulary of {} asked for, must be 2 to 65536", options.vocabulary);
  for (const std::int64_t count : {options.train, options.test})
    if (count < 2 || count > most_tokens)
      throw error("tokens: {} tokens asked for, must be 2 to {}", count, most_tokens);
  std::error_code bad;
  fs::create_directories(directory, bad);
  if (bad) throw io_error("{}: cannot be made: {}", directory, bad.message());
  const std::string train = directory + "/train.bin", val = directory + "/val.bin";
  for (const std::string& path : {train, val})
    if (fs::exists(path, bad))
      throw io_error("{}: is there already; remove it or choose another folder", path);
  NewFile train_file(train), val_file(val);
  train_file.write(drawn(options.train, options, "train tokens"));
  val_file.write(drawn(options.test, options, "test tokens"));
  train_file.keep();
  val_file.keep();
}

}  // namespace shardwright

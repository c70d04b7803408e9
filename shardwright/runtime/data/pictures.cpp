// A thing is where its distance is below 0, in a square from -1 to 1; it is placed, coloured, and gets grain.
#include "shardwright/runtime/data/pictures.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <numbers>
#include <optional>

#include "shardwright/base/error.h"
#include "shardwright/runtime/data/dice.h"
#include "shardwright/runtime/data/image_file.h"

namespace shardwright {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t things = 10, hues = 10;
constexpr std::int64_t most_images = 100'000;

/// How far from the nearest middle of a period, in periods.
double off(double x, double period) { return std::abs(x / period - std::round(x / period)); }

double length(double x, double y) { return std::sqrt(x * x + y * y); }

double distance_to(std::int64_t thing, double x, double y) {
  const double ax = std::abs(x), ay = std::abs(y), r = length(x, y);
  switch (thing) {
    case 0: return r - 0.7;
    case 1: return std::max(ax, ay) - 0.6;
    case 2: return std::abs(r - 0.6) - 0.18;
    case 3: return std::min(std::max(ax - 0.2, ay - 0.75), std::max(ay - 0.2, ax - 0.75));
    case 4: return std::max(y - 0.55, 0.8 * ax - 0.5 * (y + 0.75));
    case 5: return (off(y, 0.5) - 0.25) * 0.5;
    case 6: return (off(x, 0.5) - 0.25) * 0.5;
    case 7: return (off(x + y, 0.7) - 0.25) * 0.5;
    case 8: return (0.25 - off(x, 0.8)) * (off(y, 0.8) - 0.25) * 4;
    default: return length(off(x, 0.6), off(y, 0.6)) * 0.6 - 0.16;
  }
}

using Colour = std::array<double, 3>;

/// Of full strength, at `turn` of the circle of colours from 0 to 1.
Colour colour_at(double turn, double brightness) {
  Colour out{};
  for (std::size_t c = 0; c < 3; ++c) {
    const double wave = std::cos(2 * std::numbers::pi * (turn - static_cast<double>(c) / 3));
    out[c] = brightness * std::clamp(0.5 + 0.75 * wave, 0.0, 1.0);
  }
  return out;
}

struct Picture {
  std::int64_t thing = 0;
  std::optional<std::int64_t> hue;  // any, if it is none of the ten
  std::int64_t height = 32, width = 32;
};

void draw(const Picture& picture, Dice dice, std::byte* pixels) {
  const auto hue = static_cast<double>(picture.hue.value_or(dice.below(hues)));
  const Colour thing = colour_at((hue + dice.between(-0.25, 0.25)) / hues, dice.between(190, 255));
  const double ground = dice.between(20, 110), grain = dice.between(3, 12);
  const double turn = dice.between(-0.2, 0.2), scale = dice.between(0.8, 1.25);
  const double left = dice.between(-0.25, 0.25), up = dice.between(-0.25, 0.25);
  const double half = static_cast<double>(std::min(picture.height, picture.width)) / 2;
  for (std::int64_t row = 0; row < picture.height; ++row)
    for (std::int64_t column = 0; column < picture.width; ++column) {
      const double x =
          ((static_cast<double>(column) + 0.5 - static_cast<double>(picture.width) / 2) / half - left) *
          scale;
      const double y =
          ((static_cast<double>(row) + 0.5 - static_cast<double>(picture.height) / 2) / half - up) * scale;
      const double there = distance_to(picture.thing, std::cos(turn) * x - std::sin(turn) * y,
                                       std::sin(turn) * x + std::cos(turn) * y);
      const double covered = std::clamp(0.5 - there * half / scale, 0.0, 1.0);
      const double noise = grain * (dice.between(-1, 1) + dice.between(-1, 1));
      for (const double c : thing)
        *pixels++ = static_cast<std::byte>(
            static_cast<std::uint8_t>(std::clamp(ground + covered * (c - ground) + noise, 0.0, 255.0)));
    }
}

void require_counts(const char* what, std::int64_t train, std::int64_t test) {
  for (const std::int64_t count : {train, test})
    if (count < 1 || count > most_images)
      throw error("{}: {} images asked for, must be 1 to {}", what, count, most_images);
}

void make_folder(const std::string& directory) {
  std::error_code bad;
  fs::create_directories(directory, bad);
  if (bad) throw io_error("{}: cannot be made: {}", directory, bad.message());
}

/// The images from `first` on, of one part.
CifarImages draw_cifar(Cifar kind, const RandomStream& stream, std::int64_t first, std::int64_t count) {
  CifarImages out{.kind = kind, .images = Tensor({DType::u8, {count, 32, 32, 3}})};
  for (std::int64_t i = 0; i < count; ++i) {
    // Classes come in any order; these numbers are those that no picture uses.
    const std::int64_t drawn =
        RandomStream(stream.bits(static_cast<std::uint64_t>(first + i)), "class").below(0, things * hues);
    Picture picture{.thing = drawn / hues};
    if (kind == Cifar::hundred) picture.hue = drawn % hues;
    draw(picture, Dice(stream, first + i), out.images.bytes().data() + i * 3072);
    out.labels.push_back(static_cast<std::int32_t>(kind == Cifar::ten ? picture.thing : drawn));
    out.coarse.push_back(static_cast<std::int32_t>(drawn / (hues / 2)));
  }
  return out;
}

RandomStream stream_of(std::uint64_t seed, bool is_train) {
  return {seed, is_train ? "train pictures" : "test pictures"};
}

NewFile written_names(const std::string& path, Cifar kind) {
  NewFile out(path);
  for (const std::string& name : picture_names())
    for (std::int64_t h = 0; h < (kind == Cifar::ten ? 1 : hues); ++h)
      out.write(kind == Cifar::ten ? name + "\n" : fmt::format("{}_{}\n", name, h));
  return out;
}

}  // namespace

const std::vector<std::string>& picture_names() {
  static const std::vector<std::string> names{"disc",       "square",   "ring",     "cross",   "triangle",
                                              "horizontal", "vertical", "diagonal", "checker", "dots"};
  return names;
}

void write_drawn_cifar(const std::string& directory, const CifarOptions& options) {
  require_counts("cifar", options.train, options.test);
  make_folder(directory);
  const bool is_ten = options.kind == Cifar::ten;
  const RandomStream train = stream_of(options.seed, true), test = stream_of(options.seed, false);
  const std::int64_t batches = is_ten ? std::min<std::int64_t>(5, options.train) : 1;
  std::vector<NewFile> files;
  for (std::int64_t b = 0; b < batches; ++b) {
    const std::int64_t first = options.train * b / batches, last = options.train * (b + 1) / batches;
    const std::string name = is_ten ? fmt::format("data_batch_{}.bin", b + 1) : "train.bin";
    files.push_back(written_cifar(fmt::format("{}/{}", directory, name),
                                  draw_cifar(options.kind, train, first, last - first)));
  }
  files.push_back(written_cifar(fmt::format("{}/{}", directory, is_ten ? "test_batch.bin" : "test.bin"),
                                draw_cifar(options.kind, test, 0, options.test)));
  files.push_back(written_names(
      fmt::format("{}/{}", directory, is_ten ? "batches.meta.txt" : "fine_label_names.txt"), options.kind));
  for (NewFile& file : files) file.keep();
}

void write_drawn_pictures(const std::string& directory, const PictureOptions& options) {
  require_counts("images", options.train, options.test);
  if (options.classes < 2 || options.classes > things)
    throw error("images: {} classes asked for, must be 2 to {}", options.classes, things);
  for (const bool is_train : {true, false})
    if (const std::string part = fmt::format("{}/{}", directory, is_train ? "train" : "test");
        fs::exists(part))
      throw io_error("{}: is there already; remove it or choose another folder", part);
  for (const bool is_train : {true, false}) {
    const RandomStream stream = stream_of(options.seed, is_train), sizes(options.seed, "sizes of pictures");
    for (std::int64_t i = 0; i < (is_train ? options.train : options.test); ++i) {
      const auto at = static_cast<std::uint64_t>(i);
      const Picture picture{.thing = i % options.classes,
                            .hue = {},
                            .height = 32 + sizes.below(2 * at, 25),
                            .width = 32 + sizes.below(2 * at + 1, 25)};
      Tensor image({DType::u8, {picture.height, picture.width, 3}});
      draw(picture, Dice(stream, 4 * i), image.bytes().data());  // a picture has up to 56 x 56 pixels
      const std::string folder = fmt::format("{}/{}/{}", directory, is_train ? "train" : "test",
                                             picture_names()[static_cast<std::size_t>(picture.thing)]);
      make_folder(folder);
      NewFile file(fmt::format("{}/{:04}.png", folder, i / options.classes + 1));
      file.write(png_of(image));
      file.keep();
    }
  }
}

}  // namespace shardwright

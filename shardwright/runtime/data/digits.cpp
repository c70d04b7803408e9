// glyphs -> bend and place (Hand) -> straight pieces in pixels -> darkness by distance to the nearest piece.
#include "shardwright/runtime/data/digits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "shardwright/base/error.h"
#include "shardwright/base/random.h"
#include "shardwright/base/text.h"
#include "shardwright/runtime/data/dice.h"

namespace shardwright {
namespace {

constexpr int digit_count = 10;

/// x to the right, y down; in a unit square before placing, in pixels after it.
struct Point {
  double x = 0;
  double y = 0;
};

struct Stroke {
  std::vector<Point> points;
  bool is_smooth = false;
};
using Glyph = std::vector<Stroke>;

/// Ways to write each digit: its strokes, `-` straight and `~` smooth, through points x,y in hundredths.
constexpr std::array<std::string_view, 15> ways = {
    "0 ~ 50,8 28,22 22,50 28,78 50,92 72,78 78,50 72,22 50,8",
    "1 - 50,8 50,92",
    "1 - 34,26 53,8 53,92",
    "2 ~ 25,28 36,12 56,9 72,22 69,42 48,67 24,90 - 24,90 78,90",
    "2 ~ 26,28 40,10 62,12 70,30 58,55 34,84 22,84 30,74 50,84 78,90",
    "3 ~ 26,17 48,8 69,18 66,38 45,47 ~ 45,47 68,55 75,73 56,90 36,91 22,82",
    "4 - 36,8 25,55 78,55 - 66,30 62,92",
    "4 - 62,92 64,8 20,64 82,64",
    "5 - 74,10 36,10 30,46 ~ 30,46 52,40 72,52 73,74 54,90 36,91 23,83",
    "6 ~ 64,8 42,25 29,50 29,76 46,91 67,84 72,66 58,52 40,56 30,70",
    "7 - 22,11 77,11 44,92",
    "7 - 22,13 77,10 46,92 - 38,50 72,48",
    "8 ~ 50,48 31,35 33,16 50,8 67,16 69,35 50,48 28,63 30,84 50,92 70,84 72,63 50,48",
    "9 ~ 70,30 60,47 42,50 29,38 33,17 52,8 68,16 71,34 69,62 58,92",
    "9 ~ 68,25 50,8 32,20 34,42 52,47 68,25 - 68,25 62,92"};

using Glyphs = std::array<std::vector<Glyph>, digit_count>;

Glyphs parse_ways() {
  Glyphs glyphs;
  for (const std::string_view way : ways) {
    Scanner in(way, "digit");
    Glyph& glyph = glyphs.at(static_cast<std::size_t>(in.integer("a digit"))).emplace_back();
    while (!in.at_end()) {
      Stroke& stroke = glyph.emplace_back();
      stroke.is_smooth = in.accept("~");
      if (!stroke.is_smooth) in.expect("-");
      while (in.peek_name()) {
        const double x = in.number("x");
        in.expect(",");
        stroke.points.push_back({x / 100, in.number("y") / 100});
      }
    }
  }
  return glyphs;
}

/// How one image is written: pixels = centre + matrix * (unit square - its middle).
struct Hand {
  double xx, xy, yx, yy;
  Point centre;
  double pen;  // radius in pixels

  explicit Hand(Dice& dice) {
    constexpr double pixels = 22;
    const double turn = dice.between(-0.2, 0.2);
    const double slant = dice.between(-0.3, 0.1);
    const double width = pixels * dice.between(0.8, 1.05);
    const double height = pixels * dice.between(0.85, 1.05);
    xx = width * std::cos(turn);
    xy = height * (slant - std::sin(turn));
    yx = width * std::sin(turn);
    yy = height * std::cos(turn);
    centre = {mnist_side / 2.0 + dice.between(-1.5, 1.5), mnist_side / 2.0 + dice.between(-1.5, 1.5)};
    pen = dice.between(0.8, 1.6);
  }

  Point place(Point p) const {
    const double x = p.x - 0.5;
    const double y = p.y - 0.5;
    return {centre.x + xx * x + xy * y, centre.y + yx * x + yy * y};
  }
};

/// A point of the Catmull-Rom curve between b and c, at t from 0 to 1.
Point curve_point(Point a, Point b, Point c, Point d, double t) {
  const auto mix = [t](double p, double q, double r, double s) {
    return q + 0.5 * t * (r - p + t * (2 * p - 5 * q + 4 * r - s + t * (3 * (q - r) + s - p)));
  };
  return {mix(a.x, b.x, c.x, d.x), mix(a.y, b.y, c.y, d.y)};
}

/// A stroke as a polyline; a smooth one is sampled.
std::vector<Point> polyline_of(const Stroke& stroke) {
  constexpr int pieces = 5;
  const std::vector<Point>& p = stroke.points;
  if (!stroke.is_smooth) return p;
  std::vector<Point> out{p.front()};
  for (std::size_t i = 0; i + 1 < p.size(); ++i) {
    const Point before = i == 0 ? p[0] : p[i - 1];
    const Point after = i + 2 < p.size() ? p[i + 2] : p.back();
    for (int k = 1; k <= pieces; ++k)
      out.push_back(curve_point(before, p[i], p[i + 1], after, static_cast<double>(k) / pieces));
  }
  return out;
}

/// Strokes in pixels: points bent a little each, then all placed by the same hand.
std::vector<std::vector<Point>> write_strokes(const Glyph& glyph, const Hand& hand, Dice& dice) {
  constexpr double bend = 0.018;
  std::vector<std::vector<Point>> out;
  for (Stroke stroke : glyph) {
    for (Point& p : stroke.points) p = hand.place({p.x + bend * dice.normal(), p.y + bend * dice.normal()});
    out.push_back(polyline_of(stroke));
  }
  return out;
}

double squared_distance(Point p, Point a, Point b) {
  const double dx = b.x - a.x;
  const double dy = b.y - a.y;
  const double length2 = dx * dx + dy * dy;
  const double along = ((p.x - a.x) * dx + (p.y - a.y) * dy) / std::max(length2, 1e-12);
  const double t = std::clamp(along, 0.0, 1.0);
  const double ex = p.x - a.x - t * dx;
  const double ey = p.y - a.y - t * dy;
  return ex * ex + ey * ey;
}

/// Draws one of the ways to write a digit.
void draw(std::span<const Glyph> glyphs, Dice dice, std::span<std::uint8_t> pixels) {
  const Glyph& glyph = glyphs[static_cast<std::size_t>(dice.below(static_cast<std::int64_t>(glyphs.size())))];
  const Hand hand(dice);
  const auto strokes = write_strokes(glyph, hand, dice);
  const double ink = dice.between(215, 255);
  for (int y = 0; y < mnist_side; ++y) {
    for (int x = 0; x < mnist_side; ++x) {
      double nearest = std::numeric_limits<double>::max();
      for (const auto& stroke : strokes)
        for (std::size_t i = 0; i + 1 < stroke.size(); ++i)
          nearest = std::min(nearest, squared_distance({x + 0.5, y + 0.5}, stroke[i], stroke[i + 1]));
      const double covered = std::clamp(hand.pen + 0.5 - std::sqrt(nearest), 0.0, 1.0);
      const double grain = covered > 0 ? 12 * dice.normal() : 0;
      pixels[static_cast<std::size_t>(y * mnist_side + x)] =
          static_cast<std::uint8_t>(std::clamp(ink * covered + grain, 0.0, 255.0));
    }
  }
}

}  // namespace

Mnist draw_digits(std::int64_t count, std::uint64_t seed, MnistPart part) {
  const std::string name = part == MnistPart::train ? "train digits" : "test digits";
  const RandomStream labels(seed, name + ": labels");
  const RandomStream hands(seed, name + ": hands");
  Mnist data{Tensor({DType::u8, {count, mnist_side, mnist_side, 1}}), Tensor({DType::u8, {count}})};
  const auto pixels = data.images.as<std::uint8_t>();
  const Glyphs glyphs = parse_ways();
  for (std::int64_t i = 0; i < count; ++i) {
    const auto digit = static_cast<std::size_t>(labels.below(static_cast<std::uint64_t>(i), digit_count));
    data.labels.as<std::uint8_t>()[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(digit);
    draw(glyphs[digit], Dice(hands, i),
         pixels.subspan(static_cast<std::size_t>(i) * mnist_side * mnist_side, mnist_side * mnist_side));
  }
  return data;
}

void write_digits(const std::string& directory, const DigitsOptions& options) {
  constexpr std::int64_t most = 1'000'000;
  for (const std::int64_t count : {options.train, options.test})
    if (count < 1 || count > most) throw error("digits: {} images asked for, must be 1 to {}", count, most);
  const MnistWriteOptions write{.gzip = options.gzip};
  std::vector<NewFile> files;
  for (const auto& [part, count] :
       {std::pair(MnistPart::train, options.train), {MnistPart::test, options.test}})
    for (NewFile& file : written_mnist(directory, part, draw_digits(count, options.seed, part), write))
      files.push_back(std::move(file));
  for (NewFile& file : files) file.keep();
}

}  // namespace shardwright

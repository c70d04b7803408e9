// Transforms of images [height, width, channels]. Random ones follow from their seed, the epoch and the sample.
#pragma once

#include <array>
#include <cstdint>

#include "shardwright/runtime/data/transform.h"

namespace shardwright {

struct Size {
  std::int64_t height = 0;
  std::int64_t width = 0;
};

/// How a pixel is found that lies between pixels, or covers many.
enum class Pixels {
  nearest,  // pixel floor(i n / m)
  linear,   // of the two pixels around (i + 1/2) n / m - 1/2 in each dim
  area,     // the mean of the pixels from floor(i n / m) to ceil((i + 1) n / m)
};

Transform resize(Size size, Pixels pixels = Pixels::linear);
/// The shorter side becomes `side`, the longer one keeps the proportion, rounded down.
Transform resize(std::int64_t side, Pixels pixels = Pixels::linear);
/// Throws: Error if an image is smaller.
Transform center_crop(Size size);

struct Padding {
  std::int64_t left = 0, top = 0, right = 0, bottom = 0;
};
/// A part of the image with zeros around it.
Transform random_crop(Size size, const Padding& padding = {}, std::uint64_t seed = 1);

struct CropShare {
  std::array<double, 2> area = {0.08, 1};
  std::array<double, 2> ratio = {3.0 / 4, 4.0 / 3};  // width to height
};
/// A part of the image of a random share of its area and a random ratio, brought to `size`.
Transform random_resized_crop(Size size, const CropShare& share = {}, std::uint64_t seed = 1,
                              Pixels pixels = Pixels::linear);
Transform random_horizontal_flip(double probability = 0.5, std::uint64_t seed = 1);
Transform random_vertical_flip(double probability = 0.5, std::uint64_t seed = 1);
/// rows x columns equal parts, row by row: as many columns of the data set.
Transform slice_patches(std::int64_t rows, std::int64_t columns);
/// The bytes of an image file, u8 [n] -> u8 [height, width, 3].
Transform decode_image();

}  // namespace shardwright

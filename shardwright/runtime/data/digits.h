// Handwritten-looking digits drawn by formula: what MNIST is for, without a download.
//
// A digit is a few strokes (polylines and smooth curves) in a unit square. A writer's hand bends their
// points, shifts, scales, turns and slants them and chooses a pen; each pixel then is as dark as the pen
// covers it. Image `i` is a pure function of seed and i, so a smaller set is the start of a larger one.
#pragma once

#include <cstdint>
#include <string>

#include "shardwright/runtime/data/mnist.h"

namespace shardwright {

/// Images and labels like MNIST's: white on black, 28x28, the digit in the middle 20x20.
Mnist draw_digits(std::int64_t count, std::uint64_t seed, MnistPart part = MnistPart::train);

struct DigitsOptions {
  std::int64_t train = 10000;
  std::int64_t test = 2000;
  std::uint64_t seed = 1;
  bool gzip = false;
};

/// Writes both parts in MNIST's format. Throws: Error if the folder has such files already.
void write_digits(const std::string& directory, const DigitsOptions& options = {});

}  // namespace shardwright

// Image files: PNG, JPEG and PNM (P5, P6), told by their first bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "shardwright/base/tensor.h"

namespace shardwright {

/// More is refused before memory is taken.
constexpr std::int64_t most_pixels = std::int64_t{1} << 26;
constexpr std::int64_t longest_side = 1 << 16;
constexpr std::int64_t most_file_bytes = std::int64_t{1} << 30;

/// u8 [height, width, 3]: grey becomes three equal channels, transparency is left out.
/// Throws: Error of kind io, which begins with `name`.
Tensor decoded_image(std::span<const std::byte> bytes, const std::string& name);
Tensor read_image(const std::string& path);

/// The bytes of a PNG file of u8 [height, width, 3]. Throws: Error if that cannot be made.
std::string png_of(const Tensor& image);

/// Whether a file's name ends as those of images that are read here: .png, .jpg, .jpeg, .ppm, .pgm, .pnm.
bool is_image_name(const std::string& name);

/// All bytes of a regular file. Throws: Error of kind io.
Tensor read_whole(const std::string& path, std::int64_t most_bytes);

}  // namespace shardwright

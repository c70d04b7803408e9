#include "shardwright/runtime/data/image_file.h"

#include <jpeglib.h>
#include <png.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <csetjmp>
#include <cstring>
#include <fstream>

#include "shardwright/base/error.h"
#include "shardwright/base/file.h"
#include "shardwright/base/unknown.h"

namespace shardwright {
namespace {

using Bytes = std::span<const std::byte>;

/// Memory for an image of that size. Throws: Error if it is too large.
Tensor canvas(std::int64_t width, std::int64_t height, const std::string& name, std::int64_t channels = 3) {
  if (width < 1 || height < 1 || width > longest_side || height > longest_side ||
      width * height > most_pixels)
    throw io_error("{}: claims {}x{} pixels; there must be at least 1 and at most {}, and sides up to {}",
                   name, width, height, most_pixels, longest_side);
  return Tensor({DType::u8, {height, width, channels}});
}

// ---- PNG ----

/// Ends the library's work on an image.
struct PngImage {
  png_image image{};
  PngImage() { image.version = PNG_IMAGE_VERSION; }
  PngImage(const PngImage&) = delete;
  PngImage& operator=(const PngImage&) = delete;
  ~PngImage() { png_image_free(&image); }
};

Tensor decoded_png(Bytes bytes, const std::string& name) {
  PngImage png;
  if (png_image_begin_read_from_memory(&png.image, bytes.data(), bytes.size()) == 0)
    throw io_error("{}: is no PNG that can be read: {}", name, png.image.message);
  // With transparency, which is then left out: without it the library would mix it with a background.
  const bool has_alpha = (png.image.format & PNG_FORMAT_FLAG_ALPHA) != 0;
  png.image.format = has_alpha ? PNG_FORMAT_RGBA : PNG_FORMAT_RGB;
  Tensor out = canvas(png.image.width, png.image.height, name, has_alpha ? 4 : 3);
  if (png_image_finish_read(&png.image, nullptr, out.bytes().data(), 0, nullptr) == 0)
    throw io_error("{}: is no PNG that can be read: {}", name, png.image.message);
  if (!has_alpha) return out;
  Tensor opaque({DType::u8, {out.shape()[0], out.shape()[1], 3}});
  std::byte* to = opaque.bytes().data();
  for (std::size_t i = 0; i < out.bytes().size(); ++i)
    if (i % 4 != 3) *to++ = out.bytes()[i];
  return opaque;
}

// ---- JPEG ----

/// The library calls this where it cannot go on; its own would end the process.
struct JpegEnd {
  jpeg_error_mgr manager{};  // first: the library knows its address only
  std::jmp_buf back{};
  std::array<char, JMSG_LENGTH_MAX> message{};
};

void end_jpeg(j_common_ptr info) {
  auto* end = reinterpret_cast<JpegEnd*>(info->err);
  info->err->format_message(info, end->message.data());
  std::longjmp(end->back, 1);  // NOLINT(cert-err52-cpp): the library's own way
}

/// What the library calls a warning is damage: pixels that it makes up.
void refuse_damage(j_common_ptr info, int level) {
  if (level < 0) end_jpeg(info);
}

/// Nothing in it has a destructor: errors leave it by longjmp. Whether it worked; `to` is asked for memory once.
struct JpegTarget {
  const std::string* name;
  Tensor* out;
  std::exception_ptr refused;
  static std::byte* memory(JpegTarget& target, std::int64_t width, std::int64_t height) noexcept {
    try {
      *target.out = canvas(width, height, *target.name);
      return target.out->bytes().data();
    } catch (...) {
      target.refused = std::current_exception();
      return nullptr;
    }
  }
};

bool read_jpeg(jpeg_decompress_struct& jpeg, JpegEnd& end, Bytes bytes, JpegTarget& target) {
  if (setjmp(end.back) != 0) return false;  // NOLINT(cert-err52-cpp)
  jpeg_create_decompress(&jpeg);
  jpeg_mem_src(&jpeg, reinterpret_cast<const unsigned char*>(bytes.data()),
               static_cast<unsigned long>(bytes.size()));
  jpeg_read_header(&jpeg, TRUE);
  jpeg.out_color_space = JCS_RGB;
  std::byte* to = JpegTarget::memory(target, jpeg.image_width, jpeg.image_height);
  if (to == nullptr) return false;
  jpeg_start_decompress(&jpeg);
  while (jpeg.output_scanline < jpeg.output_height) {
    auto* row = reinterpret_cast<JSAMPROW>(to + std::size_t{jpeg.output_scanline} * jpeg.output_width * 3);
    jpeg_read_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_decompress(&jpeg);
  return true;
}

Tensor decoded_jpeg(Bytes bytes, const std::string& name) {
  jpeg_decompress_struct jpeg{};
  JpegEnd end;
  jpeg.err = jpeg_std_error(&end.manager);
  end.manager.error_exit = end_jpeg;
  end.manager.emit_message = refuse_damage;
  Tensor out;
  JpegTarget target{&name, &out, nullptr};
  const bool is_read = read_jpeg(jpeg, end, bytes, target);
  jpeg_destroy_decompress(&jpeg);
  if (target.refused) std::rethrow_exception(target.refused);
  if (!is_read) throw io_error("{}: is no JPEG that can be read: {}", name, end.message.data());
  return out;
}

// ---- PNM ----

/// The words and numbers of a header, between which there are blanks and comments.
class PnmHeader {
 public:
  PnmHeader(Bytes bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  std::int64_t number(const char* what) {
    skip_blanks();
    std::int64_t n = 0;
    const std::size_t start = at_;
    while (std::isdigit(peek()) != 0 && at_ - start < 9) n = n * 10 + (take() - '0');
    if (at_ == start) throw io_error("{}: its header has no {}; truncated or damaged", name_, what);
    return n;
  }
  /// The bytes behind the one blank that ends the header.
  Bytes rest() {
    if (std::isspace(peek()) == 0) throw io_error("{}: its header does not end; truncated or damaged", name_);
    return bytes_.subspan(at_ + 1);
  }

 private:
  int peek() const { return at_ < bytes_.size() ? std::to_integer<int>(bytes_[at_]) : -1; }
  int take() {
    const int c = peek();
    ++at_;
    return c;
  }
  void skip_blanks() {
    while (std::isspace(peek()) != 0 || peek() == '#')
      if (take() == '#')
        while (peek() >= 0 && peek() != '\n') take();
  }

  Bytes bytes_;
  const std::string& name_;
  std::size_t at_ = 2;  // behind the magic number
};

Tensor decoded_pnm(Bytes bytes, const std::string& name, std::size_t channels) {
  PnmHeader header(bytes, name);
  const std::int64_t width = header.number("width"), height = header.number("height");
  const std::int64_t most = header.number("largest value");
  if (most < 1 || most > 255) throw io_error("{}: values up to {}; up to 255 are read", name, most);
  const Bytes pixels = header.rest();
  Tensor out = canvas(width, height, name);
  const auto wanted = static_cast<std::size_t>(width * height) * channels;
  if (pixels.size() < wanted)
    throw io_error("{}: claims {}x{} pixels, but {} of {} bytes follow; truncated", name, width, height,
                   pixels.size(), wanted);
  std::byte* to = out.bytes().data();
  for (std::size_t i = 0; i < wanted; ++i) {
    const auto value = std::min<std::int64_t>(most, std::to_integer<std::int64_t>(pixels[i]));
    for (std::size_t copy = 0; copy < 3 / channels; ++copy)
      *to++ = static_cast<std::byte>((value * 255 + most / 2) / most);
  }
  return out;
}

bool starts_with(Bytes bytes, std::string_view start) {
  return bytes.size() >= start.size() && std::memcmp(bytes.data(), start.data(), start.size()) == 0;
}

}  // namespace

Tensor decoded_image(Bytes bytes, const std::string& name) {
  if (starts_with(bytes, "\x89PNG")) return decoded_png(bytes, name);
  if (starts_with(bytes, "\xff\xd8\xff")) return decoded_jpeg(bytes, name);
  if (starts_with(bytes, "P5")) return decoded_pnm(bytes, name, 1);
  if (starts_with(bytes, "P6")) return decoded_pnm(bytes, name, 3);
  throw io_error("{}: is no image that can be read; there are PNG, JPEG and PNM (P5, P6)", name);
}

Tensor read_whole(const std::string& path, std::int64_t most_bytes) {
  const std::int64_t bytes = readable_bytes(path);
  if (bytes > most_bytes) throw io_error("{}: has {} bytes; at most {} are read", path, bytes, most_bytes);
  Tensor out({DType::u8, {bytes}});
  std::ifstream in(path, std::ios::binary);
  in.read(reinterpret_cast<char*>(out.bytes().data()), bytes);
  if (!in) throw io_error("{}: cannot be read to its end", path);
  return out;
}

Tensor read_image(const std::string& path) {
  const Tensor bytes = read_whole(path, most_file_bytes);
  return decoded_image(bytes.bytes(), path);
}

std::string png_of(const Tensor& image) {
  PngImage png;
  png.image.format = PNG_FORMAT_RGB;
  png.image.height = static_cast<png_uint_32>(image.shape()[0]);
  png.image.width = static_cast<png_uint_32>(image.shape()[1]);
  png_alloc_size_t size = 0;
  std::string out;
  const auto write = [&](void* to) {
    if (png_image_write_to_memory(&png.image, to, &size, 0, image.bytes().data(), 0, nullptr) == 0)
      throw io_error("a PNG of {} cannot be made: {}", to_text(image.type()), png.image.message);
  };
  write(nullptr);
  out.resize(size);
  write(out.data());
  out.resize(size);
  return out;
}

bool is_image_name(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string::npos || dot == 0) return false;
  const std::string end = lower(name.substr(dot + 1));
  constexpr std::array<std::string_view, 6> ends = {"png", "jpg", "jpeg", "ppm", "pgm", "pnm"};
  return std::ranges::find(ends, end) != ends.end();
}

}  // namespace shardwright

#include "shardwright/runtime/data/image_transforms.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>

#include "shardwright/base/error.h"
#include "shardwright/runtime/data/image_file.h"

namespace shardwright {
namespace {

/// Throws: Error unless it is an image.
void require_image(const char* name, const Type& t) {
  if (t.shape.size() != 3)
    throw error("{}: samples are {}, must be [height, width, channels]", name, to_text(SampleType(t)));
}

void require_size(const char* name, Size size) {
  for (const std::int64_t side : {size.height, size.width})
    if (side < 1 || side > longest_side)
      throw error("{}: a size of {}x{}; sides are 1 to {}", name, size.height, size.width, longest_side);
}

Size size_of_image(const Tensor& t) { return {t.shape()[0], t.shape()[1]}; }

/// A transform that gives each image another size.
Transform sized(const char* name, Size size, std::function<Tensor(Tensor, Chance&)> apply,
                std::uint64_t seed = 0) {
  const auto type = [name, size](const Type& t) -> SampleType {
    require_image(name, t);
    return Type{t.dtype, {size.height, size.width, t.shape[2]}};
  };
  return of_column(name, type, std::move(apply), seed);
}

// ---- parts of images ----

/// `size` pixels from row `top` and column `left` on, which may lie outside; there are zeros.
Tensor window(const Tensor& from, std::int64_t top, std::int64_t left, Size size) {
  const auto [height, width] = size_of_image(from);
  const std::int64_t pixel = from.shape()[2] * static_cast<std::int64_t>(size_of(from.dtype()));
  Tensor out({from.dtype(), {size.height, size.width, from.shape()[2]}});
  const std::int64_t first = std::max<std::int64_t>(0, -left), last = std::min(size.width, width - left);
  if (first >= last) return out;
  for (std::int64_t y = std::max<std::int64_t>(0, -top); y < std::min(size.height, height - top); ++y)
    std::memcpy(out.bytes().data() + (y * size.width + first) * pixel,
                from.bytes().data() + ((top + y) * width + left + first) * pixel,
                static_cast<std::size_t>((last - first) * pixel));
  return out;
}

void require_room(const char* name, Size image, Size crop) {
  if (image.height < crop.height || image.width < crop.width)
    throw error("{}: an image of {}x{} has no part of {}x{}; resize or pad it before", name, image.height,
                image.width, crop.height, crop.width);
}

// ---- sizes ----

/// What makes up a pixel of the new image along one dim: pixels from `first` on, by their shares.
struct Mix {
  std::int64_t first = 0;
  std::vector<float> shares;
};

Mix mix_at(std::int64_t i, std::int64_t n, std::int64_t m, Pixels pixels) {
  if (pixels == Pixels::nearest) return {std::min(i * n / m, n - 1), {1}};
  if (pixels == Pixels::area) {
    const std::int64_t start = i * n / m, end = ((i + 1) * n + m - 1) / m;
    const auto count = static_cast<std::size_t>(end - start);
    return {start, std::vector<float>(count, 1 / static_cast<float>(count))};
  }
  const double scale = static_cast<double>(n) / static_cast<double>(m);
  const double at = std::clamp((static_cast<double>(i) + 0.5) * scale - 0.5, 0.0, static_cast<double>(n - 1));
  const auto before = static_cast<std::int64_t>(at);
  const auto share = static_cast<float>(at - static_cast<double>(before));
  if (before + 1 >= n) return {before, {1}};
  return {before, {1 - share, share}};
}

std::vector<Mix> mixes(std::int64_t n, std::int64_t m, Pixels pixels) {
  std::vector<Mix> all;
  for (std::int64_t i = 0; i < m; ++i) all.push_back(mix_at(i, n, m, pixels));
  return all;
}

template <class T>
T rounded(float x) {
  if constexpr (std::is_same_v<T, bool>)
    return x >= 0.5F;
  else if constexpr (std::is_same_v<T, std::uint8_t>)
    return static_cast<std::uint8_t>(std::clamp(std::nearbyint(x), 0.0F, 255.0F));
  else if constexpr (std::is_integral_v<T>)
    return static_cast<T>(std::nearbyint(x));
  else
    return static_cast<T>(x);
}

/// Two pixels side by side, by shares of 2048.
struct WholeMix {
  std::int64_t first = 0;
  std::int32_t share = 0, next = 0;
};

std::vector<WholeMix> whole_mixes(std::int64_t n, std::int64_t m, bool ends_whole) {
  std::vector<WholeMix> all;
  const double scale = static_cast<double>(n) / static_cast<double>(m);
  for (std::int64_t i = 0; i < m; ++i) {
    auto part = static_cast<float>((static_cast<double>(i) + 0.5) * scale - 0.5);
    auto first = static_cast<std::int64_t>(std::floor(part));
    part -= static_cast<float>(first);
    if (ends_whole && (first < 0 || first >= n - 1)) {
      first = std::clamp<std::int64_t>(first, 0, n - 1);
      part = 0;
    }
    const auto whole = [](float share) { return static_cast<std::int32_t>(std::nearbyint(share * 2048)); };
    all.push_back({first, whole(1 - part), whole(part)});
  }
  return all;
}

/// Bytes are mixed in whole numbers, columns first: what OpenCV, which others read images by, makes of them to the last bit.
Tensor resized_bytes(const Tensor& from, Size to) {
  const auto [height, width] = size_of_image(from);
  const std::int64_t channels = from.shape()[2], row = to.width * channels;
  Tensor out({from.dtype(), {to.height, to.width, channels}});
  const std::vector<WholeMix> down = whole_mixes(height, to.height, false);
  const std::vector<WholeMix> across = whole_mixes(width, to.width, true);
  const std::uint8_t* pixel = from.as<std::uint8_t>().data();
  std::vector<std::int32_t> lines(static_cast<std::size_t>(height * row));
  auto line = lines.begin();
  for (std::int64_t y = 0; y < height; ++y, pixel += width * channels)
    for (const WholeMix& x : across)
      for (std::int64_t c = 0; c < channels; ++c) {
        const std::int64_t next = std::min(x.first + 1, width - 1);
        *line++ = pixel[x.first * channels + c] * x.share + pixel[next * channels + c] * x.next;
      }
  std::uint8_t* made = out.as<std::uint8_t>().data();
  for (const WholeMix& y : down) {
    const std::int32_t* above = lines.data() + std::clamp<std::int64_t>(y.first, 0, height - 1) * row;
    const std::int32_t* below = lines.data() + std::clamp<std::int64_t>(y.first + 1, 0, height - 1) * row;
    for (std::int64_t i = 0; i < row; ++i) {
      const std::int32_t sum = ((y.share * (above[i] >> 4)) >> 16) + ((y.next * (below[i] >> 4)) >> 16);
      *made++ = static_cast<std::uint8_t>(std::clamp((sum + 2) >> 2, 0, 255));
    }
  }
  return out;
}

/// DataRows are mixed first, then columns.
Tensor resized(const Tensor& from, Size to, Pixels pixels) {
  const auto [height, width] = size_of_image(from);
  const std::int64_t channels = from.shape()[2], row = width * channels;
  if (height == 0 || width == 0) throw error("resize: an image of {}x{} has no pixels", height, width);
  if (pixels == Pixels::linear && from.dtype() == DType::u8) return resized_bytes(from, to);
  Tensor out({from.dtype(), {to.height, to.width, channels}});
  const std::vector<Mix> down = mixes(height, to.height, pixels), across = mixes(width, to.width, pixels);
  std::vector<float> line(static_cast<std::size_t>(row));
  visit(from.dtype(), [&]<class T>(std::type_identity<T>) {
    const T* pixel = from.as<T>().data();
    T* made = out.as<T>().data();
    for (const Mix& y : down) {
      std::fill(line.begin(), line.end(), 0.0F);
      for (std::size_t k = 0; k < y.shares.size(); ++k) {
        const T* source = pixel + (y.first + static_cast<std::int64_t>(k)) * row;
        for (std::size_t i = 0; i < line.size(); ++i) line[i] += y.shares[k] * static_cast<float>(source[i]);
      }
      for (const Mix& x : across)
        for (std::int64_t c = 0; c < channels; ++c) {
          float sum = 0;
          for (std::size_t k = 0; k < x.shares.size(); ++k)
            sum += x.shares[k] *
                   line[static_cast<std::size_t>((x.first + static_cast<std::int64_t>(k)) * channels + c)];
          *made++ = rounded<T>(sum);
        }
    }
  });
  return out;
}

Tensor mirrored(const Tensor& from, bool is_upside_down) {
  const auto [height, width] = size_of_image(from);
  const std::int64_t pixel = from.shape()[2] * static_cast<std::int64_t>(size_of(from.dtype()));
  Tensor out(from.type());
  if (out.bytes().empty()) return out;
  const std::int64_t run = is_upside_down ? width * pixel : pixel;  // moves as it is
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0; x < (is_upside_down ? 1 : width); ++x) {
      const std::int64_t to = is_upside_down ? height - 1 - y : y * width + (width - 1 - x);
      const std::int64_t at = is_upside_down ? y : y * width + x;
      std::memcpy(out.bytes().data() + to * run, from.bytes().data() + at * run,
                  static_cast<std::size_t>(run));
    }
  return out;
}

Transform random_flip(const char* name, double probability, std::uint64_t seed, bool is_upside_down) {
  if (!(probability >= 0 && probability <= 1))
    throw error("{}: probability {} must be from 0 to 1", name, probability);
  const auto type = [name](const Type& t) -> SampleType {
    require_image(name, t);
    return t;
  };
  const auto apply = [probability, is_upside_down](Tensor t, Chance& chance) {
    return chance.uniform() < probability ? mirrored(t, is_upside_down) : std::move(t);
  };
  return of_column(name, type, apply, seed);
}

struct CropWindow {
  std::int64_t top = 0, left = 0;
  Size size;
};

/// Ten tries, then the largest part in the middle of a ratio that is allowed.
CropWindow random_window(Size image, const CropShare& share, Chance& chance) {
  const auto height = static_cast<double>(image.height), width = static_cast<double>(image.width);
  const auto between = [&](double low, double high) { return low + (high - low) * chance.uniform(); };
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area = height * width * between(share.area[0], share.area[1]);
    const double ratio = std::exp(between(std::log(share.ratio[0]), std::log(share.ratio[1])));
    const Size size{std::llround(std::sqrt(area / ratio)), std::llround(std::sqrt(area * ratio))};
    if (size.height < 1 || size.width < 1 || size.height > image.height || size.width > image.width) continue;
    return {chance.below(image.height - size.height + 1), chance.below(image.width - size.width + 1), size};
  }
  const double ratio = std::clamp(width / height, share.ratio[0], share.ratio[1]);
  const Size size{std::clamp<std::int64_t>(std::llround(std::min(height, width / ratio)), 1, image.height),
                  std::clamp<std::int64_t>(std::llround(std::min(width, height * ratio)), 1, image.width)};
  return {(image.height - size.height) / 2, (image.width - size.width) / 2, size};
}

}  // namespace

Transform resize(Size size, Pixels pixels) {
  require_size("resize", size);
  return sized("resize", size, [size, pixels](const Tensor& t, Chance&) { return resized(t, size, pixels); });
}

Transform resize(std::int64_t side, Pixels pixels) {
  require_size("resize", {side, side});
  const auto size_for = [side](Size image) {
    const auto [height, width] = image;
    const std::int64_t shorter = std::max<std::int64_t>(1, std::min(height, width));
    const Size size =
        height <= width ? Size{side, side * width / shorter} : Size{side * height / shorter, side};
    require_size("resize", size);
    return size;
  };
  const auto type = [size_for](const Type& t) -> SampleType {
    require_image("resize", t);
    if (t.shape[0] == any_size || t.shape[1] == any_size)
      return Type{t.dtype, {any_size, any_size, t.shape[2]}};
    const Size size = size_for({t.shape[0], t.shape[1]});
    return Type{t.dtype, {size.height, size.width, t.shape[2]}};
  };
  return of_column("resize", type, [size_for, pixels](const Tensor& t, Chance&) {
    return resized(t, size_for(size_of_image(t)), pixels);
  });
}

Transform center_crop(Size size) {
  require_size("center_crop", size);
  return sized("center_crop", size, [size](const Tensor& t, Chance&) {
    const Size image = size_of_image(t);
    require_room("center_crop", image, size);
    return window(t, (image.height - size.height) / 2, (image.width - size.width) / 2, size);
  });
}

Transform random_crop(Size size, const Padding& padding, std::uint64_t seed) {
  require_size("random_crop", size);
  for (const std::int64_t p : {padding.left, padding.top, padding.right, padding.bottom})
    if (p < 0 || p > longest_side) throw error("random_crop: padding {} must be 0 to {}", p, longest_side);
  const auto apply = [size, padding](const Tensor& t, Chance& chance) {
    const auto [height, width] = size_of_image(t);
    const Size room{height + padding.top + padding.bottom, width + padding.left + padding.right};
    require_room("random_crop", room, size);
    const std::int64_t top = chance.below(room.height - size.height + 1);
    const std::int64_t left = chance.below(room.width - size.width + 1);
    return window(t, top - padding.top, left - padding.left, size);
  };
  return sized("random_crop", size, apply, seed);
}

Transform random_resized_crop(Size size, const CropShare& share, std::uint64_t seed, Pixels pixels) {
  require_size("random_resized_crop", size);
  if (!(share.area[0] > 0 && share.area[0] <= share.area[1] && share.area[1] <= 1))
    throw error("random_resized_crop: shares of the area from {} to {}; must rise from above 0 to 1",
                share.area[0], share.area[1]);
  if (!(share.ratio[0] > 0 && share.ratio[0] <= share.ratio[1] && std::isfinite(share.ratio[1])))
    throw error("random_resized_crop: ratios from {} to {}; must rise from above 0", share.ratio[0],
                share.ratio[1]);
  const auto apply = [size, share, pixels](const Tensor& t, Chance& chance) {
    const CropWindow w = random_window(size_of_image(t), share, chance);
    return resized(window(t, w.top, w.left, w.size), size, pixels);
  };
  return sized("random_resized_crop", size, apply, seed);
}

Transform random_horizontal_flip(double probability, std::uint64_t seed) {
  return random_flip("random_horizontal_flip", probability, seed, false);
}

Transform random_vertical_flip(double probability, std::uint64_t seed) {
  return random_flip("random_vertical_flip", probability, seed, true);
}

Transform slice_patches(std::int64_t rows, std::int64_t columns) {
  if (rows < 1 || columns < 1 || rows * columns > 4096)
    throw error("slice_patches: {}x{} parts; must be at least 1x1", rows, columns);
  const auto types = [rows, columns](const std::vector<SampleType>& in) {
    if (in.empty()) return in;
    if (in.size() != 1) throw error("slice_patches: takes one column, not {}", in.size());
    SampleType part = in[0];
    if (part) {
      require_image("slice_patches", *part);
      Shape& s = part->shape;
      if ((s[0] != any_size && s[0] % rows != 0) || (s[1] != any_size && s[1] % columns != 0))
        throw error("slice_patches: {} cannot be cut into {}x{} equal parts", to_text(in[0]), rows, columns);
      for (const auto& [dim, parts] : {std::pair(0, rows), {1, columns}})
        if (std::int64_t& side = s[static_cast<std::size_t>(dim)]; side != any_size) side /= parts;
    }
    return std::vector<SampleType>(static_cast<std::size_t>(rows * columns), part);
  };
  const auto apply = [rows, columns](const std::vector<Tensor>& in, Chance&) {
    const auto [height, width] = size_of_image(in[0]);
    const Size size{height / rows, width / columns};
    std::vector<Tensor> parts;
    for (std::int64_t y = 0; y < rows; ++y)
      for (std::int64_t x = 0; x < columns; ++x)
        parts.push_back(window(in[0], y * size.height, x * size.width, size));
    return parts;
  };
  return {.name = "slice_patches", .types = types, .apply = apply};
}

Transform decode_image() {
  const auto type = [](const Type& t) -> SampleType {
    if (t.dtype != DType::u8 || t.shape.size() != 1)
      throw error("decode: samples are {}, must be the bytes of an image file, u8[?]",
                  to_text(SampleType(t)));
    return Type{DType::u8, {any_size, any_size, 3}};
  };
  return of_column("decode", type,
                   [](const Tensor& t, Chance&) { return decoded_image(t.bytes(), "an image"); });
}

}  // namespace shardwright

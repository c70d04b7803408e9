// MNIST in its own format: idx files, big endian, plain or gzip.
//
//   train-images-idx3-ubyte   magic 0x00000803, count, 28, 28, then one byte a pixel (0 = background)
//   train-labels-idx1-ubyte   magic 0x00000801, count, then one byte a label
//   t10k-images-idx3-ubyte    the same for the test part
//   t10k-labels-idx1-ubyte
//
// They lie in the given folder or, as MindSpore's download has them, in its `train` and `test` folders.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shardwright/base/file.h"
#include "shardwright/base/tensor.h"

namespace shardwright {

enum class MnistPart { train, test };

constexpr std::int64_t mnist_side = 28;  // pixels of an image, each way

/// Shapes: images u8 [n, 28, 28, 1], labels u8 [n], 0 to 9.
struct Mnist {
  Tensor images;
  Tensor labels;
};

/// Reads one part whole. What a header claims is checked against the file's length before memory is taken.
/// Throws: Error of kind io that names the file that is missing, truncated or damaged.
Mnist read_mnist(const std::string& directory, MnistPart part = MnistPart::train);

/// Whether images of a part lie there.
bool has_mnist(const std::string& directory, MnistPart part);

struct MnistWriteOptions {
  bool gzip = false;
};

/// The two files of one part, written and still to be kept: all that belong together, or none.
/// Throws: Error if one of them is there already, plain or .gz.
std::vector<NewFile> written_mnist(const std::string& directory, MnistPart part, const Mnist& data,
                                   const MnistWriteOptions& options = {});
/// Writes and keeps them.
void write_mnist(const std::string& directory, MnistPart part, const Mnist& data,
                 const MnistWriteOptions& options = {});

}  // namespace shardwright

// CIFAR in its binary format: records of one label byte (CIFAR-100: two, coarse and fine) and 3072 bytes of an image
// of 32x32, its three colours one behind the other.
//
//   CIFAR-10    data_batch_1.bin ... data_batch_5.bin, test_batch.bin
//   CIFAR-100   train.bin, test.bin
//
// They lie in the given folder or in the one that its archive makes: cifar-10-batches-bin, cifar-100-binary.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shardwright/base/file.h"
#include "shardwright/runtime/data/dataset.h"

namespace shardwright {

enum class Cifar { ten, hundred };
enum class CifarPart { train, test, all };

/// Columns `image` u8 [32, 32, 3] and `label` i32, or `coarse_label` and `fine_label`. Images are read when they are
/// asked for. Throws: Error of kind io that names the file that is missing, of odd length or damaged.
Dataset cifar_dataset(const std::string& directory, Cifar kind, CifarPart part = CifarPart::train);
/// Whether the folder has files of that name.
bool has_cifar(const std::string& directory, Cifar kind, CifarPart part);

struct CifarImages {
  Cifar kind = Cifar::ten;
  Tensor images;                     // u8 [n, 32, 32, 3]
  std::vector<std::int32_t> labels;  // fine ones
  std::vector<std::int32_t> coarse;  // of CIFAR-100
};
/// A file of such records. Throws: Error if one is there already.
NewFile written_cifar(const std::string& path, const CifarImages& data);

}  // namespace shardwright

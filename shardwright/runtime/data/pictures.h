// Coloured pictures drawn by formula, of which a network can learn what is on them: what CIFAR and folders of photographs
// are for, without a download. Picture `i` is a pure function of seed and i.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shardwright/runtime/data/cifar.h"

namespace shardwright {

/// What is on a picture, by its class: disc, square, ring ...
const std::vector<std::string>& picture_names();

struct CifarOptions {
  Cifar kind = Cifar::ten;  // a hundred: ten things in ten colours
  std::int64_t train = 10000;
  std::int64_t test = 2000;
  std::uint64_t seed = 1;
};
/// Writes the files of CIFAR's binary format. Throws: Error if the folder has such files already.
void write_drawn_cifar(const std::string& directory, const CifarOptions& options = {});

struct PictureOptions {
  std::int64_t classes = 10;
  std::int64_t train = 500;
  std::int64_t test = 100;
  std::uint64_t seed = 1;
};
/// Writes PNG files of many sizes: DIR/train/CLASS/0001.png, DIR/test/CLASS/0001.png ...
/// Throws: Error if there is a train or test folder already.
void write_drawn_pictures(const std::string& directory, const PictureOptions& options = {});

}  // namespace shardwright

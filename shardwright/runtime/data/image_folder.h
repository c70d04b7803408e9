// Images in folders: a folder for each class, named after it.
//
//   DIR/cat/0001.png, DIR/cat/more/0002.jpg, DIR/dog/0001.png ...
#pragma once

#include <string>
#include <vector>

#include "shardwright/runtime/data/dataset.h"

namespace shardwright {

struct ImageFolder {
  std::vector<std::string> classes;                // by name; their places are the labels
  std::vector<std::pair<std::string, int>> files;  // paths and classes, in order
};

/// Throws: Error of kind io if there is no such folder, it has no classes, or a class has no images.
ImageFolder list_images(const std::string& directory);
/// Whether it has folders, and images in the first of them.
bool has_image_folders(const std::string& directory);

enum class Decoding { now, later };

/// Columns `image` and `label` i32. Images are u8 [height, width, 3], read and decoded when they are asked for, or the
/// bytes of their files, u8 [n], for a transform that decodes them later.
Dataset image_folder_dataset(const std::string& directory, Decoding decoding = Decoding::now);

}  // namespace shardwright

// Where models come from: names, graphs as text, ONNX files, folders. One file in frontend/sources each; what a model's spec means
// is asked of the source that it is of, and nowhere told by endings of names.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "shardwright/frontend/model.h"

namespace shardwright {

struct Source {
  std::string name;
  /// Whether `spec` is of this source; none: of this, if of no other.
  std::function<bool(const std::string& spec)> matches = {};
  /// `input`: standard input, of which some models are.
  std::function<Model(const std::string& spec, const ModelOptions& options, std::string_view input)> load;
  /// `spec` with keys that say what inputs the data in this file have; none: data do not decide.
  std::function<std::string(const std::string& spec, const std::string& data)> inputs = {};
  /// `spec` with keys that say that data do not ask for all labels; none: the model knows it anyhow, or its labels are all asked for.
  std::function<std::string(const std::string& spec)> asked = {};
  /// `spec` for sequences of `length` elements, where the longest have `longest`; none: its models have no lengths.
  std::function<std::string(const std::string& spec, std::int64_t length, std::int64_t longest)> of_length =
      {};
  /// Where the tokenizer of the model lies; empty: it has none.
  std::function<std::string(const std::string& spec)> tokenizer = {};
  /// The model that this one is made of, where it is made of another.
  std::function<std::string(const std::string& spec)> inner = {};
  bool has_weights = false;      // beside the network, which Model::folder then names
  bool has_fixed_batch = false;  // shapes are written in it: no micro-batches
};

/// Every source there is; written by CMake from the files in frontend/sources/.
std::span<const Source> all_sources();
const Source& source_of_model(const std::string& spec);
/// The model that `spec` is made of in the end: itself, unless its source says an inner one.
std::string innermost_model(std::string spec);
/// Of that.
inline const Source& innermost_source(const std::string& spec) {
  return source_of_model(innermost_model(spec));
}

}  // namespace shardwright

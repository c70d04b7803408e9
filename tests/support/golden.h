// Golden text tests: a command, what it gets, and every character that it prints, in one file.
//
//   # What this shows, in a sentence or two.
//   shardwright plan MODEL --annotate a.json -o plan.json      one or more commands, '...' quotes as in a
//   shell shardwright lower MODEL --plan plan.json | grep all_reduce      keeps the lines with one of these
//   words
//   ---- file a.json                       a file of this text
//   ---- bytes weights.safetensors         a file of these bytes: \xHH, \\, and line ends do not count
//   ---- tensors data.safetensors          a safetensors file of zeros, one `name f32[2, 3]` per line
//   ---- onnx model.onnx                   an ONNX model, its messages in protobuf's text form
//   ----                                   what standard input holds; may be missing
//   ----                                   what is printed
//
// The commands run in an empty folder that holds these files and the repository's `examples`. Printed is
// standard output, then standard error: `error: ...` for `shardwright: ...`, `stderr: ...` for other lines;
// then `exit N` unless the status is 0. Measured times read `_`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shardwright {

struct GoldenFile {
  std::string kind;  // file, bytes, tensors, onnx
  std::string name;
  std::string text;
};

struct Golden {
  std::string head;  // comment, commands and sections before the expectation, as written
  std::vector<std::string> commands;
  std::vector<GoldenFile> files;
  std::string input;
  std::string want;
};

/// Throws: Error that names what is wrong with the form.
Golden parse_golden(std::string_view text);

/// What the commands print, run in `folder`, which is empty; `root` is the repository.
std::string run_golden(const Golden& golden, const std::string& folder, const std::string& root);

/// Line by line: `  ` same, `- ` wanted, `+ ` got.
std::string diff(std::string_view want, std::string_view got);

}  // namespace shardwright

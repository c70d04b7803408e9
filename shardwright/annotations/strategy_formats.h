// The two forms of strategy files, behind strategy_file.h.
#pragma once

#include <string>
#include <string_view>

#include "shardwright/annotations/strategy_file.h"

namespace shardwright::strategy_formats {

StrategyFile from_json(std::string_view text);
StrategyFile from_protobuf(std::string_view bytes);
std::string to_json(const StrategyFile& file);
std::string to_protobuf(const StrategyFile& file);

inline constexpr std::size_t most_dims = 64, most_inputs = 4096;
/// Of operators, and of parameters: as many as keys of a JSON object that are read.
inline constexpr std::size_t most_entries = 65536;
/// Throws: Error if there are more of `what` than any tensor or operator has.
void check_count(std::size_t count, std::size_t most, std::string_view what);

/// Throws: Error unless it may be the number of a stage.
int stage_number(std::int64_t number);
/// `0-NAME` of a file of several stages is NAME in stage 0.
FileParameter named_parameter(const std::string& name);
/// As a file of several stages calls it, or one of one.
std::string name_in_file(const FileParameter& parameter, bool is_joined);
/// From one of the optimizer's shards to the next, in ranks; 0 where it has none.
std::int64_t optimizer_step(const MatrixLayout& layout, std::int64_t shards);
/// Of several stages, in which names of parameters say theirs.
bool is_joined(const StrategyFile& file);

}  // namespace shardwright::strategy_formats

// What the text of a pipeline says behind its programs: how stages are strung together, and what is handed out.
//
//   crossing %relu1 of stage 0 to %relu1 of stage 1
//   hand out %loss of stage 1
//   in order %scores dim 1 of 4 blocks
//
// A pipeline of one stage, without more to it than its program, hands out the outputs of that, and says the last line alone.
#pragma once

#include <string>
#include <string_view>

#include "shardwright/base/text.h"
#include "shardwright/lower/pipeline.h"

namespace shardwright {

/// `%name`. Throws: Error.
std::string value_name(Scanner& in);

std::string lines_behind(const Pipeline& pipeline);
/// Adds what `line` says to `pipeline`, whose programs are there. Throws: Error.
void parse_line_behind(Pipeline& pipeline, std::string_view line);

}  // namespace shardwright

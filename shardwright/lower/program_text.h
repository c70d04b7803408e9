// The text form of programs and pipelines. What stands in `lower --layouts` can be read again, and a step too
// (lower/step.h).
//
//   pipeline 2 stages, 4 micro-batches, 1f1b
//   stage 0
//   program 4 micro-batches, 2 slots
//   mesh [tp=2]
//   ...                                     the graph (graph/text.h)
//   early %29 before %13                    where the transfer of a step starts
//   arena 4096
//   passing 1024                            bytes at its end that chunks of a device share; then, of what lies on the host, `host BYTES`
//   buffer activation at 512 of 256 in 2 slots from %h to %dx: %h, %y
//   ...
//   crossing %h of stage 0 to %h of stage 1
//   hand out %loss of stage 1
//
// A pipeline of one stage in the usual order is its program. A buffer is called after its first value; without `from` it
// is alive from before the first node on, without `to` until after the last.
#pragma once

#include <string>
#include <string_view>

#include "shardwright/lower/pipeline.h"

namespace shardwright {

std::string to_text(const Program& program);
std::string to_text(const Pipeline& pipeline);

/// Of one stage or several. Throws: Error that names the line.
Pipeline parse_pipeline(std::string_view text);

}  // namespace shardwright

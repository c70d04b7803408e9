// What a decoder behind an encoder is asked, and what it is fed: the labels one place later, behind a first element.
#pragma once

#include "shardwright/frontend/huggingface/family.h"

namespace shardwright::huggingface {

struct Targets {
  Traced label;  // i32[batch, length]
  Traced fed;    // as label
};

/// The key `target` says how long they are; else as long as sequences are. Labels that are not asked for feed `padding`.
/// Throws: Error where the config says no first element and data do not bring `decoder_input_ids`.
Targets targets_of(const FamilyCall& call, Trace& trace, std::int64_t length, std::int64_t vocabulary,
                   std::int64_t padding);

}  // namespace shardwright::huggingface

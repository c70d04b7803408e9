// What a decoder behind an encoder is asked, and what it is fed: the labels one place later, behind a first element.
#pragma once

#include "shardwright/frontend/huggingface/family.h"

namespace shardwright::huggingface {

struct Targets {
  Traced label;  // i32[batch, length]
  Traced fed;    // as label
};

struct TargetOptions {
  std::int64_t length = 512;              // where the key `target` says nothing
  std::optional<std::int64_t> most = {};  // places that the decoder has
  std::int64_t vocabulary = 0;
  std::int64_t padding = 0;                // fed for labels that are not asked for
  std::optional<std::int64_t> first = {};  // where the config says none
};

/// Throws: Error if one step of generation is asked for, or where nothing says the first element and data do not bring `decoder_input_ids`.
Targets targets_of(const FamilyCall& call, Trace& trace, const TargetOptions& options);

}  // namespace shardwright::huggingface

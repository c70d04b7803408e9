// Flags that say where samples lie.
#pragma once

#include "shardwright/cli/verb.h"
#include "shardwright/frontend/sample_source.h"

namespace shardwright {

/// Of a model of a source that asks data what inputs they bring: its name is completed with that, for all who build it.
void complete_model(const Verb& verb, Arguments& arguments);

Flag tokenizer_flag();
/// Of data that are talks, or documents.
Flag talks_flag();
Flag end_flag();
/// Of documents that are no rows of one length.
Flag buckets_flag();
/// What `--tokenizer` names, or the folder that is the model, if it has a tokenizer; else empty.
std::string tokenizer_of(const Arguments& arguments);
/// What `--data` or `--eval` names, with the tokenizer for texts.
SampleSource source_of(const Arguments& arguments, const std::string& flag);
/// Tells it if there is nothing among these for --tokenizer or --end; `are_apart`: the model keeps documents apart.
void tell_idle_samples(const Arguments& arguments, const std::vector<std::string>& flags, bool are_apart);

}  // namespace shardwright

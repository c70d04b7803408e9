// What a decoder is made of, in words: keys behind the name of any decoder, whose own forms are what is usual.
//
//   gpt:activation=swiglu,bias=0,norm=rms,positions=rope,tied=0     is a llama
//   llama:head_dim=128,qk_norm=1                                    heads wider than hidden / heads, normed
//   gpt:activation=squared_relu,kv_heads=2,dropout=0.1,attention_dropout=0.1
//   gpt:causal=0,labels=asked                                       an encoder that predicts tokens at their places
#pragma once

#include <map>
#include <string>

#include "shardwright/frontend/model.h"
#include "shardwright/frontend/modules/decoder.h"

namespace shardwright {

/// The keys of forms and what they are in `options`, as `models` prints them.
std::map<std::string, std::string> keys_of_forms(const DecoderOptions& options);

/// `options` with what the keys say. Throws: Error on what is none of a key's words.
DecoderOptions with_forms(const ModelArguments& arguments, DecoderOptions options);

}  // namespace shardwright

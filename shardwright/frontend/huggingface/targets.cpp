#include "shardwright/frontend/huggingface/targets.h"

#include "shardwright/frontend/label_weights.h"
#include "shardwright/ops/calls.h"

namespace shardwright::huggingface {

Targets targets_of(const FamilyCall& call, Trace& trace, const TargetOptions& options) {
  if (call.arguments.cached > 0)
    throw error("cannot generate: networks with an encoder are trained and asked, not led on");
  const std::int64_t length = call.arguments.integer("target", options.length);
  if (options.most && length > *options.most)
    throw error("target={}: the decoder has {} places", length, *options.most);
  const Type type{DType::i32, {call.batch(), length}};
  std::optional<std::int64_t> first =
      call.config.given_integer("decoder_start_token_id", 0, options.vocabulary - 1);
  if (!first && options.first && *options.first < options.vocabulary) first = options.first;
  const Traced label = trace.input("label", type);
  if (call.brings("decoder_input_ids")) return {label, trace.input("decoder_input_ids", type)};
  if (!first)
    throw error(
        "{}: has no \"decoder_start_token_id\", which the decoder is fed in front of the labels; data may "
        "bring "
        "decoder_input_ids instead",
        call.config.path());
  const auto number = [&](std::int64_t n) {
    return Traced{&trace, constant(trace.builder(), DType::i32, static_cast<double>(n))};
  };
  const Traced begin = trace.call("fill", {},
                                  {{"shape", Shape{type.shape[0], 1}},
                                   {"value", static_cast<double>(*first)},
                                   {"dtype", std::string("i32")}},
                                  "label.first");
  if (length == 1) return {label, begin};
  const Traced earlier =
      trace.call("strided_slice", {label},
                 {{"dims", Shape{1}}, {"starts", Shape{0}}, {"stops", Shape{length - 1}}}, "label.earlier");
  const Traced moved = Operator("concat", "label.moved").with("dim", std::int64_t{1})(begin, earlier);
  const Traced is_there = trace.call("not_equal", {moved, number(not_asked)}, {}, "label.is_fed");
  return {label, trace.call("where", {is_there, moved, number(options.padding)}, {}, "label.fed")};
}

}  // namespace shardwright::huggingface

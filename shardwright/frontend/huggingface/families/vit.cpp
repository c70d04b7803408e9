// ViT with the head that classifies pictures: a convolution makes an element of each patch, an element of its own stands in front, whose
// last state is classified.

#include "shardwright/frontend/functions.h"
#include "shardwright/frontend/huggingface/family.h"
#include "shardwright/frontend/modules/encoder.h"

namespace shardwright::families {

using namespace huggingface;  // NOLINT(google-build-using-namespace): a family is made of it

namespace {

struct VitOptions {
  EncoderOptions layer{.norms_before = true};
  std::int64_t layers = 12, image = 224, patch = 16, channels = 3, classes = 2;
};

VitOptions options_of(const FamilyCall& call) {
  const Config& c = call.config;
  VitOptions o;
  o.layer.hidden = c.integer_or("hidden_size", 768, 1, 1 << 20);
  o.layer.heads = c.integer_or("num_attention_heads", 12, 1, 1 << 20);
  if (o.layer.hidden % o.layer.heads != 0)
    throw c.wrong("num_attention_heads", fmt::format("a divisor of the hidden size {}", o.layer.hidden));
  o.layer.ffn = c.integer_or("intermediate_size", 3072, 1, 1 << 24);
  o.layer.epsilon = c.number_or("layer_norm_eps", 1e-12);
  o.layer.qkv_bias = c.flag_or("qkv_bias", true);
  o.layer.explicit_attention = call.arguments.attention == Attention::in_memory;
  o.layers = c.integer_or("num_hidden_layers", 12, 1, 4096);
  o.image = c.integer_or("image_size", 224, 1, 1 << 14);
  o.patch = c.integer_or("patch_size", 16, 1, o.image);
  o.channels = c.integer_or("num_channels", 3, 1, 1 << 12);
  o.classes = c.integer_or("num_labels", 2, 1, 1 << 30);
  o.classes = c.size_of_object("id2label").value_or(o.classes);
  if (o.classes < 1) throw c.wrong("id2label", "names of at least one class");
  c.only("hidden_act", "gelu", "there is gelu alone");
  o.layer.dropout = call.dropout("hidden_dropout_prob", 0);
  o.layer.attention_dropout = call.dropout("attention_probs_dropout_prob", 0);
  c.only("problem_type", "single_label_classification", "the loss would be another");
  c.pass_over({"encoder_stride", "pooler_act", "pooler_output_size"});
  return o;
}

/// Shapes: pictures [batch, channels, size, size] -> scores [batch, classes]
Traced scores_of(const VitOptions& o, Traced pictures) {
  Trace& trace = *pictures.trace;
  const std::int64_t batch = pictures.type().shape[0], hidden = o.layer.hidden, side = o.image / o.patch;
  const std::int64_t patches = side * side;
  const Parameter kernel{"patches.weight", {hidden, o.channels, o.patch, o.patch}, normal(0.02)},
      bias{"patches.bias", {hidden}, zeros()}, first{"first", {1, 1, hidden}, normal(0.02)},
      positions{"positions", {1, patches + 1, hidden}, normal(0.02)};
  const auto shaped = [](Traced x, const char* name, Shape shape) {
    return Operator("reshape", name).with("shape", std::move(shape))(x);
  };
  const Traced planes =
      Operator("conv2d", "patches", {{"strides", Shape{o.patch, o.patch}}})(pictures, kernel);
  const Traced rows =
      transpose("patches.rows", {0, 2, 1})(shaped(planes, "patches.flat", {batch, hidden, patches}));
  const Traced in_front =
      Operator("broadcast", "first.rows").with("shape", Shape{batch, 1, hidden})(trace.parameter(first));
  Traced x =
      Operator("concat", "elements").with("dim", std::int64_t{1})(in_front, add("patches.add")(rows, bias));
  x = dropped(add("elements.placed")(x, positions), "elements.dropout", o.layer.dropout);
  for (std::int64_t l = 0; l < o.layers; ++l) {
    const std::string name = fmt::format("layers.{}", l);
    x = EncoderLayer(name, o.layer, gelu(name + ".ffn.gelu"))(x);
  }
  x = LayerNorm("norm", hidden, o.layer.epsilon)(x);
  const Traced own = trace.call("strided_slice", {x},
                                {{"dims", Shape{1}}, {"starts", Shape{0}}, {"stops", Shape{1}}}, "own");
  return Dense("head", hidden, o.classes)(shaped(own, "own.row", {batch, hidden}));
}

Names names() {
  const std::string embeddings = "vit.embeddings.";
  Names out{.rows = {{"patches.weight", embeddings + "patch_embeddings.projection.weight"},
                     {"patches.bias", embeddings + "patch_embeddings.projection.bias"},
                     {"first", embeddings + "cls_token"},
                     {"positions", embeddings + "position_embeddings"},
                     {"norm.weight", "vit.layernorm.weight"},
                     {"norm.bias", "vit.layernorm.bias"},
                     {"head.weight", "classifier.weight", Lay::transposed},
                     {"head.bias", "classifier.bias"}},
            .ignored = {"vit.pooler.dense.weight", "vit.pooler.dense.bias"}};
  const auto both = [&](const std::string& ours, const std::string& theirs, Lay lay) {
    out.add_of_layer(ours, "vit.encoder.layer.#.", theirs, lay);
  };
  both("norm1", "layernorm_before", Lay::same);
  both("attention.q", "attention.attention.query", Lay::transposed);
  both("attention.k", "attention.attention.key", Lay::transposed);
  both("attention.v", "attention.attention.value", Lay::transposed);
  both("attention.o", "attention.output.dense", Lay::transposed);
  both("norm2", "layernorm_after", Lay::same);
  both("ffn.up", "intermediate.dense", Lay::transposed);
  both("ffn.down", "output.dense", Lay::transposed);
  return out;
}

BuiltFamily build(const FamilyCall& call) {
  if (call.arguments.cached > 0) throw error("cannot generate: it is no decoder");
  const VitOptions o = options_of(call);
  call.config.check_all_read();
  Trace trace(call.arguments.precision);
  const std::int64_t batch = call.batch();
  const Traced input = trace.input("input", {trace.precision(), {batch, o.channels, o.image, o.image}});
  Model model = class_model(call, trace, scores_of(o, input), "pixel_values");
  return {std::move(model), names()};
}

}  // namespace

std::vector<Family> vit() { return {{"vit", {"ViTForImageClassification"}, {}, build}}; }

}  // namespace shardwright::families

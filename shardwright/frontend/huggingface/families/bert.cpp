// BERT: norms behind the sums, learned positions, two kinds of elements; with the head that predicts masked words, whose table is that of
// the embedding, or with the one that classifies sequences by their first element.

#include "shardwright/frontend/functions.h"
#include "shardwright/frontend/huggingface/family.h"
#include "shardwright/frontend/modules/encoder.h"
#include "shardwright/frontend/modules/masks.h"

namespace shardwright::families {

using namespace huggingface;  // NOLINT(google-build-using-namespace): a family is made of it

namespace {

struct BertOptions {
  EncoderOptions layer;
  std::int64_t layers = 12, vocabulary = 30522, places = 512, types = 2, sequence = 512, padding = 0;
  std::string activation = "gelu";
};

BertOptions options_of(const FamilyCall& call) {
  const Config& c = call.config;
  BertOptions o;
  o.layer.hidden = c.integer_or("hidden_size", 768, 1, 1 << 20);
  o.layer.heads = c.integer_or("num_attention_heads", 12, 1, 1 << 20);
  if (o.layer.hidden % o.layer.heads != 0)
    throw c.wrong("num_attention_heads", fmt::format("a divisor of the hidden size {}", o.layer.hidden));
  o.layer.ffn = c.integer_or("intermediate_size", 3072, 1, 1 << 24);
  o.layer.epsilon = c.number_or("layer_norm_eps", 1e-12);
  o.layer.explicit_attention = call.arguments.attention == Attention::in_memory;
  o.layers = c.integer_or("num_hidden_layers", 12, 1, 4096);
  o.vocabulary = c.integer_or("vocab_size", 30522, 1, std::numeric_limits<std::int32_t>::max());
  o.places = c.integer_or("max_position_embeddings", 512, 1, 1 << 24);
  o.types = c.integer_or("type_vocab_size", 2, 1, 1 << 20);
  o.padding = c.integer_or("pad_token_id", 0, 0, o.vocabulary - 1);
  o.sequence = call.sequence(o.places);
  o.activation = c.text_or("hidden_act", "gelu");
  activation_of(c, "hidden_act", "gelu", false);  // there is one
  o.layer.dropout = call.dropout("hidden_dropout_prob", 0.1);
  o.layer.attention_dropout = call.dropout("attention_probs_dropout_prob", 0.1);
  c.only("is_decoder", false, "later elements would be hidden");
  c.only("add_cross_attention", false, "it would read another encoder");
  c.only("position_embedding_type", "absolute", "positions would count from each other");
  c.only("tie_word_embeddings", true, "the scores would have a table of their own");
  c.only("problem_type", "single_label_classification", "the loss would be another");
  c.pass_over({"directionality", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers",
               "pooler_size_per_head", "pooler_type"});
  return o;
}

Operator activation_called(const BertOptions& o, const std::string& name) {
  if (o.activation == "relu") return relu(name);
  if (o.activation == "gelu") return gelu(name);
  return gelu(name, o.activation == "quick_gelu" ? "sigmoid" : "tanh");
}

struct Bert {
  explicit Bert(const BertOptions& o)
      : options(o),
        words("embedding", o.vocabulary, o.layer.hidden),
        types("types", o.types, o.layer.hidden),
        positions{"positions.weight", {o.places, o.layer.hidden}, normal(0.02)},
        norm("norm", o.layer.hidden, o.layer.epsilon) {
    for (std::int64_t l = 0; l < o.layers; ++l) {
      const std::string name = fmt::format("layers.{}", l);
      layers.emplace_back(name, o.layer, activation_called(o, name + ".ffn.gelu"));
    }
  }

  /// Shapes: tokens [batch, sequence] -> [batch, sequence, hidden]
  Traced operator()(Traced tokens, std::optional<Traced> kinds, const DecoderData& data) const {
    Trace& trace = *tokens.trace;
    const std::int64_t length = tokens.type().shape[1];
    const auto rows = [&](Traced table, std::int64_t count, const char* name) {
      if (table.type().shape[0] == count) return table;
      return trace.call("strided_slice", {table},
                        {{"dims", Shape{0}}, {"starts", Shape{0}}, {"stops", Shape{count}}}, name);
    };
    Traced x = without_learning(words(tokens), tokens, options.padding, "embedding");
    x = add("embedding.types")(x,
                               kinds ? types(*kinds) : rows(trace.parameter(types.weight), 1, "types.first"));
    const Traced places = trace.parameter(positions);
    x = add("embedding.positions")(
        x, data.positions ? trace.call("gather", {places, *data.positions}, {}, "positions.rows")
                          : rows(places, length, "positions.used"));
    x = dropped(norm(x), "embedding.dropout", options.layer.dropout);
    Masks masks(trace, tokens.type().shape, data, false);
    const Seen seen{.mask = masks.of(0)};
    for (const EncoderLayer& layer : layers) x = layer(x, seen);
    return x;
  }

  BertOptions options;
  Embedding words, types;
  Parameter positions;
  LayerNorm norm;
  std::vector<EncoderLayer> layers;
};

/// Shapes: x [batch, sequence, hidden] -> scores of words [batch, sequence, vocabulary]
Traced scores_of_words(const Bert& bert, Traced x) {
  const BertOptions& o = bert.options;
  const Dense transform("head.dense", o.layer.hidden, o.layer.hidden, {.start = normal(0.02)});
  const Parameter bias{"head.bias", {o.vocabulary}, zeros()};
  x = LayerNorm("head.norm", o.layer.hidden,
                o.layer.epsilon)(activation_called(o, "head.gelu")(transform(x)));
  return add("head.add")(matmul("head.matmul", {{"transpose_b", true}})(x, bert.words.weight), bias);
}

/// Shapes: x [batch, sequence, hidden] -> scores of classes [batch, classes]
Traced scores_of_classes(const Bert& bert, Traced x, std::int64_t classes, double dropout) {
  const std::int64_t batch = x.type().shape[0], hidden = bert.options.layer.hidden;
  const Traced first = x.trace->call(
      "strided_slice", {x}, {{"dims", Shape{1}}, {"starts", Shape{0}}, {"stops", Shape{1}}}, "first");
  const Traced row = Operator("reshape", "first.row").with("shape", Shape{batch, hidden})(first);
  const Dense pooler("pooler", hidden, hidden, {.start = normal(0.02)}),
      head("head", hidden, classes, {.start = normal(0.02)});
  return head(dropped(tanh("pooler.tanh")(pooler(row)), "pooler.dropout", dropout));
}

Names names(bool has_words) {
  const std::string embeddings = "bert.embeddings.", predictions = "cls.predictions.";
  Names out{
      .rows = {{"embedding.weight", embeddings + "word_embeddings.weight"},
               {"types.weight", embeddings + "token_type_embeddings.weight"},
               {"positions.weight", embeddings + "position_embeddings.weight"},
               {"norm.weight", embeddings + "LayerNorm.weight"},
               {"norm.bias", embeddings + "LayerNorm.bias"}},
      .ignored = {embeddings + "position_ids", "cls.seq_relationship.weight", "cls.seq_relationship.bias"}};
  const std::vector<NameRow> of_words{
      {"head.dense.weight", predictions + "transform.dense.weight", Lay::transposed},
      {"head.dense.bias", predictions + "transform.dense.bias"},
      {"head.norm.weight", predictions + "transform.LayerNorm.weight"},
      {"head.norm.bias", predictions + "transform.LayerNorm.bias"},
      {"head.bias", predictions + "bias"}};
  const std::vector<NameRow> of_classes{{"pooler.weight", "bert.pooler.dense.weight", Lay::transposed},
                                        {"pooler.bias", "bert.pooler.dense.bias"},
                                        {"head.weight", "classifier.weight", Lay::transposed},
                                        {"head.bias", "classifier.bias"}};
  const auto &own = has_words ? of_words : of_classes, &others = has_words ? of_classes : of_words;
  out.rows.insert(out.rows.end(), own.begin(), own.end());
  // What was trained with another head is left out, as transformers does.
  for (const NameRow& row : others)
    if (!row.theirs.starts_with("classifier")) out.ignored.push_back(row.theirs);
  for (const char* tied : {"decoder.weight", "decoder.bias"}) out.ignored.push_back(predictions + tied);
  const auto both = [&](const std::string& ours, const std::string& theirs, Lay lay) {
    out.add_of_layer(ours, "bert.encoder.layer.#.", theirs, lay);
  };
  both("attention.q", "attention.self.query", Lay::transposed);
  both("attention.k", "attention.self.key", Lay::transposed);
  both("attention.v", "attention.self.value", Lay::transposed);
  both("attention.o", "attention.output.dense", Lay::transposed);
  both("norm1", "attention.output.LayerNorm", Lay::same);
  both("ffn.up", "intermediate.dense", Lay::transposed);
  both("ffn.down", "output.dense", Lay::transposed);
  both("norm2", "output.LayerNorm", Lay::same);
  return out;
}

BuiltFamily build(const FamilyCall& call) {
  if (call.arguments.cached > 0) throw error("cannot generate: it is no decoder");
  const Config& c = call.config;
  const std::vector<std::string> said = c.texts("architectures");
  const bool has_words = said.empty() || said.front() == "BertForMaskedLM";
  const Bert bert(options_of(call));
  const std::int64_t classes =
      c.size_of_object("id2label").value_or(c.integer_or("num_labels", 2, 1, 1 << 30));
  if (!has_words && classes < 2)
    throw c.wrong("id2label", "at least two classes; a number as label is not supported");
  if (has_words) c.pass_over({"classifier_dropout"});
  const double of_classes = has_words ? 0 : call.dropout("classifier_dropout", bert.options.layer.dropout);
  c.check_all_read();
  Trace trace(call.arguments.precision);
  const Type tokens{DType::i32, {call.batch(), bert.options.sequence}};
  const auto given = [&](const char* name) {
    return call.brings(name) ? std::optional(trace.input(name, tokens)) : std::nullopt;
  };
  const Traced input = trace.input("input", tokens);
  const DecoderData data{.attention_mask = given("attention_mask"), .positions = given("position_ids")};
  const Traced x = bert(input, given("token_type_ids"), data);
  Model model = has_words
                    ? language_model(call, trace, scores_of_words(bert, x), false)
                    : class_model(call, trace, scores_of_classes(bert, x, classes, of_classes), "input_ids");
  model.tokens = element_count(tokens.shape);
  model.classes["token_type_ids"] = bert.options.types;
  return {std::move(model), names(has_words)};
}

}  // namespace

std::vector<Family> bert() {
  return {{"bert",
           {"BertForMaskedLM", "BertForSequenceClassification"},
           {"attention_mask", "token_type_ids", "position_ids"},
           build}};
}

}  // namespace shardwright::families

// Tensor and sequence parallelism of a decoder as annotations of its operators. Products into a network split its
// features, products out of it sum over them; everything between the networks is split by the sequence, or repeated.

#include "shardwright/frontend/modules/decoder.h"

namespace shardwright {
namespace {

class Annotator {
 public:
  explicit Annotator(const DecoderSplit& split)
      : layout_({split.data, split.tensor}, {"dp", "tp"}),
        sequence_(split.sequence ? "tp" : "None"),
        between_(layout_("dp", sequence_, "None")),
        features_(layout_("dp", "None", "tp")),
        tensor_(split.tensor) {}

  void add(DecoderLayer& layer) const {
    add(layer.norm1);
    add(layer.attention);
    layer.add1.shard({between_, between_});
    add(layer.norm2);
    std::visit([this](auto& network) { add(network); }, layer.ffn);
    layer.add2.shard({between_, between_});
  }

  void add(DecoderLayer::Norm& norm) const {
    std::visit([this](auto& n) { n.norm.shard({between_}); }, norm);
  }

  void add(Embedding& embedding) const {
    embedding.gather.shard({layout_("tp", "None"), layout_("dp", "None")});
  }
  void add_between(Operator& sum) const { sum.shard({between_}); }
  void add_scores(Operator& product, bool is_transposed) const {
    product.shard(
        {layout_("dp", "None", "None"), is_transposed ? layout_("tp", "None") : layout_("None", "tp")});
  }
  void into(Dense& dense) const {
    dense.matmul.shard({layout_("dp", "None", "None"), layout_("None", "tp")});
    if (dense.has_bias) dense.add.shard({features_});
  }

 private:
  void out_of(Dense& dense) const {
    dense.matmul.shard({features_, layout_("tp", "None")});
    if (dense.has_bias) dense.add.shard({between_});
  }

  /// Where there are fewer heads of keys than devices, the search finds how those that share one work.
  void add(SelfAttention& attention) const {
    const Split heads = layout_("dp", "tp", "None", "None");
    into(attention.q.dense);
    if (attention.k.count % tensor_ == 0) {
      into(attention.k.dense);
      into(attention.v.dense);
      if (!attention.is_explicit) attention.attend.shard({heads, heads, heads});
    }
    out_of(attention.o);
  }

  void add(GatedFeedForward& network) const {
    into(network.gate);
    into(network.up);
    out_of(network.down);
  }
  static void add(MixtureOfExperts&) {}  // the search finds how experts are split
  void add(PlainFeedForward& network) const {
    into(network.up);
    out_of(network.down);
  }

  DeviceLayout layout_;
  DimAxes sequence_;
  Split between_;   // of [batch, sequence, hidden] between the networks
  Split features_;  // of [batch, sequence, features] inside
  int tensor_;
};

}  // namespace

void Decoder::shard(const DecoderSplit& split) {
  const Annotator annotator(split);
  annotator.add(embedding);
  if (options.positions == Positions::learned) annotator.add_between(add_positions);
  for (DecoderLayer& layer : layers) annotator.add(layer);
  annotator.add(norm);
  if (head)
    annotator.add_scores(head->matmul, false);
  else
    annotator.add_scores(tied_head, true);
}

}  // namespace shardwright

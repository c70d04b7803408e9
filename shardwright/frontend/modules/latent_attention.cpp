#include "shardwright/frontend/modules/latent_attention.h"

namespace shardwright {
namespace {

const Initializer drawn = normal(0.02);

Traced with_shape(Traced x, const std::string& name, Shape shape) {
  return Operator("reshape", name).with("shape", std::move(shape))(x);
}

/// Parts of the last dim.
std::vector<Traced> parts(Traced x, const std::string& name, std::int64_t first, std::int64_t second) {
  return Operator("split", name).with("dim", std::int64_t{-1}).with("sizes", Shape{first, second}).all(x);
}

Traced joined(Traced a, Traced b, const std::string& name) {
  return Operator("concat", name).with("dim", std::int64_t{-1})(a, b);
}

}  // namespace

LatentHeads::LatentHeads(const std::string& name, std::int64_t width, std::int64_t heads,
                         const LatentOptions& o, const Operator& rotary, double turned_scale)
    : name_(name),
      heads_(heads),
      options_(o),
      rotary_(o.interleaved ? rotary.with("interleaved", true) : rotary),
      turned_scale_(turned_scale),
      query_(o.query_rank > 0 ? name + ".q.up" : name + ".q", o.query_rank > 0 ? o.query_rank : width,
             heads * (o.plain + o.turned), {.bias = false, .start = drawn}),
      down_(name + ".kv.down", width, o.rank + o.turned, {.bias = o.bias, .start = drawn}),
      norm_(name + ".kv.norm", o.rank, o.epsilon),
      up_(name + ".kv.up", o.rank, heads * (o.plain + o.values), {.bias = false, .start = drawn}) {
  if (o.query_rank == 0) return;
  query_down_.emplace(name + ".q.down", width, o.query_rank, Dense::Options{.bias = o.bias, .start = drawn});
  query_norm_.emplace(name + ".q.norm", o.query_rank, o.epsilon);
}

std::array<Traced, 3> LatentHeads::operator()(Traced x, const std::optional<Traced>& positions) const {
  const LatentOptions& o = options_;
  const Shape shape = x.type().shape;
  const auto by_head = [&](Traced y, const std::string& called, std::int64_t features) {
    return transpose(called + ".transpose",
                     {0, 2, 1, 3})(with_shape(y, called + ".split", {shape[0], shape[1], heads_, features}));
  };
  const auto turned = [&](Traced y, const std::string& called) {
    y = positions ? rotary_(y, *positions) : rotary_(y);
    return turned_scale_ == 1 ? y : Operator("scale", called + ".scaled").with("factor", turned_scale_)(y);
  };
  const Traced low = query_down_ ? (*query_norm_)((*query_down_)(x)) : x;
  const std::string q = name_ + ".q", kv = name_ + ".kv";
  const std::vector<Traced> queries =
      parts(by_head(query_(low), q, o.plain + o.turned), q + ".parts", o.plain, o.turned);
  const std::vector<Traced> made = parts(down_(x), kv + ".parts", o.rank, o.turned);
  const std::vector<Traced> whole =
      parts(by_head(up_(norm_(made[0])), kv, o.plain + o.values), kv + ".of_heads", o.plain, o.values);
  const Traced one =
      turned(with_shape(made[1], kv + ".one", {shape[0], 1, shape[1], o.turned}), kv + ".rotary");
  const Traced all =
      Operator("broadcast", kv + ".all").with("shape", Shape{shape[0], heads_, shape[1], o.turned})(one);
  return {joined(queries[0], turned(queries[1], q + ".rotary"), q + ".whole"),
          joined(whole[0], all, kv + ".keys"), whole[1]};
}

}  // namespace shardwright

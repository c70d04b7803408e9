#include "shardwright/ops/attention_turns.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>
#include <vector>

#include "shardwright/graph/builder.h"
#include "shardwright/ops/turn_parts.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops {

Runs runs_of_piece(std::int64_t piece, std::int64_t length, std::int64_t order) {
  Runs out;
  if (order == 0) {
    out.list[0] = {0, piece * length, length};
    return out;
  }
  const std::int64_t half = length / 2;
  out.list = {Run{0, piece * half, half}, Run{half, (order - 1 - piece) * half, half}};
  out.count = 2;
  return out;
}

std::int64_t pairs_in_turn(const TurnOf& what, std::int64_t piece, std::int64_t turn) {
  std::int64_t out = 0;
  for (const Run& queries : runs_of_piece(piece, what.length, what.order))
    for (const Run& keys : runs_of_piece(piece_in_turn(piece, turn, what.pieces), what.length, what.order))
      for (std::int64_t i = 0; i < queries.count; ++i)
        out += seen_of(keys, queries.place + i, what.is_causal);
  return out;
}

namespace {

DType wide(DType dtype) { return size_of(dtype) < size_of(DType::f32) ? DType::f32 : dtype; }

// ---- types and rules ----

/// q stands at `first`; behind it k and v.
Turns check_turn(const Call& call, std::size_t first) {
  check_floating(call.operands[0].dtype);
  for (const char* flag : {"alibi", "causal", "final", "masked"}) call.attributes.flag(flag);
  call.attributes.number("scale", 1);
  const Turns out(call.attributes);
  const Type &q = call.operands[first], &k = call.operands[first + 1], &v = call.operands[first + 2];
  for (const Type* t : {&q, &k, &v})
    if (t->shape.size() != 4) throw error("{} should be [batch, heads, sequence, features]", to_text(*t));
  for (const Type* t : {&q, &k})
    if (out.pieces < 1 || t->shape[2] % out.pieces)
      throw error("pieces={}: does not divide the sequence of {}", out.pieces, to_text(*t));
  if (k.shape[1] == 0 || q.shape[1] % k.shape[1])
    throw error("q {} should have a multiple of the heads of k {}", to_text(q), to_text(k));
  if (v.shape[3] > most_attention_features || q.shape[3] > most_attention_features)
    throw error("heads have at most {} features", most_attention_features);
  if (out.turn < 0 || out.turn >= out.pieces)
    throw error("turn={}: there are {}, from 0 on", out.turn, out.pieces);
  check_order(out.order, q.shape[2]);
  if (out.order > 0 && (out.order != 2 * out.pieces || q.shape[2] != k.shape[2]))
    throw error("order={}: should be twice the {} pieces, of as many keys as queries", out.order, out.pieces);
  return out;
}

/// Throws: Error unless there are so many operands, a mask where `masked` says so, and all or nothing of what is carried on.
void check_count(const Call& call, std::size_t least, std::size_t carried) {
  const std::size_t all = least + call.attributes.flag("masked");
  if (call.operands.size() != all && call.operands.size() != all + carried)
    throw error("has {} operands but takes {}, and what is carried on: {}", call.operands.size(), all,
                carried);
}

/// What keys are read in a turn: piece p of queries reads piece p - turn.
std::string keys_in_turn(const Turns& turns, std::int64_t keys) {
  const std::int64_t length = keys / turns.pieces, low = -turns.turn * length;
  return fmt::format("s~({} 1 {} {} round)", length, low, low + length - 1);
}

// Operands are q, k, v, the mask, and what is carried on, y and sums; of the gradient dy, q, k, v, y, sums, the mask, and dq.
constexpr std::size_t mask_place = 3, mask_place_of_gradient = 6;

std::size_t first_carried(const Attributes& a) { return mask_place + a.flag("masked"); }
std::size_t first_carried_of_gradient(const Attributes& a) {
  return mask_place_of_gradient + a.flag("masked");
}

/// `, b 1 (s u^) z^`, or nothing.
std::string mask_rule(const Call& call, std::size_t mask) {
  return call.attributes.flag("masked") ? ", " + mask_dims(call.operands[mask], "(s u^)") + " z^" : "";
}

std::string rule(const Call& call) {
  check_count(call, mask_place, 2);
  const std::string keys = keys_in_turn(check_turn(call, 0), call.operands[1].shape[2]);
  const char* carried =
      call.operands.size() > first_carried(call.attributes) ? ", b (h r) (s u^) e^, b (h r) s u^ n^" : "";
  return fmt::format("b (h r) (s u^) d^, b h {0} d^, b h {0} e^{1}{2} -> b (h r) (s u^) e^, b (h r) s u^ n^",
                     keys, mask_rule(call, mask_place), carried);
}

/// Of each query of `q`, piece by piece: its largest score, and the sum of e^(score - that).
Shape shape_of_sums(const Type& q, const Turns& turns) {
  return {q.shape[0], q.shape[1], turns.pieces, q.shape[2] / turns.pieces, 2};
}

/// Throws: Error unless operand `sums` has two numbers for each query of q.
void check_sums(const Call& call, std::size_t q, std::size_t sums, const Turns& turns) {
  const Shape wanted = shape_of_sums(call.operands[q], turns);
  if (call.operands[sums].shape != wanted)
    throw error("operand {} is {} but should be {}", sums, to_text(call.operands[sums]), to_text(wanted));
}

std::vector<Type> infer(const Call& call) {
  check_count(call, mask_place, 2);
  const std::size_t carried = first_carried(call.attributes);
  const Turns turns = check_turn(call, 0);
  const Type& q = call.operands[0];
  if (turns.is_masked) check_mask(call, 0, mask_place);
  if (call.operands.size() > carried) check_sums(call, 0, carried + 1, turns);
  Shape y = q.shape;
  y[3] = call.operands[2].shape[3];
  const DType stored = call.attributes.flag("final") ? q.dtype : wide(q.dtype);
  return {{stored, y}, {wide(q.dtype), shape_of_sums(q, turns)}};
}

std::string gradient_rule(const Call& call) {
  check_count(call, mask_place_of_gradient, 1);
  const std::string keys = keys_in_turn(check_turn(call, 1), call.operands[2].shape[2]);
  // What is carried on is added once: with parts of e each rank would add it.
  const bool is_carried = call.operands.size() > first_carried_of_gradient(call.attributes);
  return fmt::format(
      "b (h r) (s u^) e{2}, b (h r) (s u^) d^, b h {0} d^, b h {0} e{2}, b (h r) (s u^) e{2}, b (h r) s "
      "u^ n^{3}{1} -> "
      "b (h r) (s u^) d^, b h (s w^) d^, b h (s w^) e{2}",
      keys, is_carried ? ", b (h r) (s u^) d^" : "", is_carried ? "^" : "",
      mask_rule(call, mask_place_of_gradient));
}

std::vector<Type> infer_gradient(const Call& call) {
  check_count(call, mask_place_of_gradient, 1);
  const Turns turns = check_turn(call, 1);
  check_sums(call, 1, 5, turns);
  if (turns.is_masked) check_mask(call, 1, mask_place_of_gradient);
  const DType sums = wide(call.operands[1].dtype);
  const DType stored = call.attributes.flag("final") ? call.operands[1].dtype : sums;
  return {{stored, call.operands[1].shape}, {sums, call.operands[2].shape}, {sums, call.operands[3].shape}};
}

/// Of all pieces, with the keys of one each; as attention counts them, hidden ones too.
double turn_flops(const Rule& rule, std::size_t keys, double with_d, double with_e) {
  const auto size = [&](const char* name) {
    return static_cast<double>(rule.loops[static_cast<std::size_t>(rule.loop(name))].size);
  };
  const double points = size("b") * size("h") * size("r") * size("s") * size("u") *
                        static_cast<double>(rule.operands[keys].shape[2]) / size("s");
  return points * 2 * (with_d * size("d") + with_e * size("e"));
}

// ---- kernels ----

std::int64_t workspace_of(const KernelCall& call, std::size_t keys) {  // scores of a run
  return call.rule.operands[keys].shape[2] / call.attributes.integer("pieces", 1) *
         static_cast<std::int64_t>(sizeof(double));
}

/// Of a tensor of what is carried on, which may be as short as q.
template <class T>
double carried_at(const TensorView& t, std::int64_t i) {
  using C = Compute<T>;
  if (t.dtype == dtype_for<C>()) return static_cast<double>(t.as<C>().data()[i]);
  return static_cast<double>(static_cast<C>(t.as<T>().data()[i]));
}

/// Throws: Error unless these loop dims are here as a whole, if there are such.
void check_whole(const KernelCall& call) {
  for (const char* name : {"u", "w", "d", "n", "z"})
    if (const int l = call.rule.loop(name); l >= 0)
      if (const LoopBox::Part& part = call.box.loops[static_cast<std::size_t>(l)]; part.extent != part.size)
        throw error("a turn takes all of {}", name);
}

template <class T>
void turn(const KernelCall& call) {
  check_whole(call);
  using C = Compute<T>;
  const std::size_t carried = first_carried(call.attributes);
  const bool is_carried = call.operands.size() > carried, is_final = call.results[0].dtype == dtype_for<T>();
  double* const s = reinterpret_cast<double*>(call.workspace);
  C* const kept = call.results[1].as<C>().data();
  for_each_part<T>(call, 0, mask_place, [&](const TurnPart<T>& part) {
    for (const Run& run : part.queries)
      for (std::int64_t i = run.at; i < run.at + run.count; ++i) {
        const std::int64_t row = part.rows + i, place = run.place + i - run.at + part.behind;
        TurnSums sums;
        if (is_carried) {
          sums.largest = carried_at<T>(call.operands[carried + 1], 2 * row);
          sums.sum = carried_at<T>(call.operands[carried + 1], 2 * row + 1);
          for (std::int64_t f = 0; f < part.width; ++f)
            sums.y[static_cast<std::size_t>(f)] =
                sums.sum * carried_at<T>(call.operands[carried], row * part.width + f);
        }
        for (const Run& keys : part.keys) sums.take(part, keys, part.scores(i, place, keys, s), s);
        const double inverse = sums.sum > 0 ? 1 / sums.sum : 0;
        kept[2 * row] = static_cast<C>(sums.largest);
        kept[2 * row + 1] = static_cast<C>(sums.sum);
        for (std::int64_t f = 0; f < part.width; ++f) {
          const C y = static_cast<C>(sums.y[static_cast<std::size_t>(f)] * inverse);
          if (is_final)
            call.results[0].as<T>().data()[row * part.width + f] = static_cast<T>(y);
          else
            call.results[0].as<C>().data()[row * part.width + f] = y;
        }
      }
  });
}

template <class T>
void turn_gradient(const KernelCall& call) {
  check_whole(call);
  using C = Compute<T>;
  const std::size_t carried = first_carried_of_gradient(call.attributes);
  const bool is_carried = call.operands.size() > carried, is_final = call.results[0].dtype == dtype_for<T>();
  double* const p = reinterpret_cast<double*>(call.workspace);
  for_each_part<T>(call, 1, mask_place_of_gradient, [&](const TurnPart<T>& part) {
    const std::int64_t d = part.depth, e = part.width,
                       keys_here = part.keys.list[0].count * static_cast<std::int64_t>(part.keys.count);
    C* const dk = call.results[1].as<C>().data() + part.key_rows * d;
    C* const dv = call.results[2].as<C>().data() + part.key_rows * e;
    if (part.begins_heads) {
      std::fill_n(dk, keys_here * d, C{0});
      std::fill_n(dv, keys_here * e, C{0});
    }
    for (const Run& run : part.queries)
      for (std::int64_t i = run.at; i < run.at + run.count; ++i) {
        const std::int64_t row = part.rows + i, place = run.place + i - run.at + part.behind;
        const T* const dy = call.operands[0].as<T>().data() + row * e;
        const T* const y = call.operands[4].as<T>().data() + row * e;
        const double largest = carried_at<T>(call.operands[5], 2 * row),
                     sum = carried_at<T>(call.operands[5], 2 * row + 1);
        const auto value = [](T x) { return static_cast<double>(static_cast<C>(x)); };
        std::array<double, most_attention_features> dq{};
        double mean = 0;
        for (std::int64_t f = 0; f < e; ++f) mean += value(dy[f]) * value(y[f]);
        for (const Run& keys : part.keys) {
          const std::int64_t seen = part.scores(i, place, keys, p);
          for (std::int64_t j = 0; j < seen; ++j) {
            const double weight = sum > 0 ? std::exp(p[j] - largest) / sum : 0;
            const std::int64_t at = keys.at + j;
            double dp = 0;
            for (std::int64_t f = 0; f < e; ++f) {
              dp += value(dy[f]) * value(part.v[at * e + f]);
              dv[at * e + f] += static_cast<C>(weight * value(dy[f]));
            }
            const double ds = weight * (dp - mean) * part.scale;
            for (std::int64_t f = 0; f < d; ++f) {
              dq[static_cast<std::size_t>(f)] += ds * value(part.k[at * d + f]);
              dk[at * d + f] += static_cast<C>(ds * value(part.q[i * d + f]));
            }
          }
        }
        for (std::int64_t f = 0; f < d; ++f) {
          const std::int64_t at = row * d + f;
          double all = dq[static_cast<std::size_t>(f)];
          if (is_carried) all += carried_at<T>(call.operands[carried], at);
          if (is_final)
            call.results[0].as<T>().data()[at] = static_cast<T>(static_cast<C>(all));
          else
            call.results[0].as<C>().data()[at] = static_cast<C>(all);
        }
      }
  });
}

// ---- in place of attention ----

Attributes of_turn(const Attributes& attributes, std::int64_t turn, bool is_final, bool is_masked) {
  Attributes out = attributes;
  out.set("turn", turn);
  if (is_masked) out.set("masked", true);
  if (is_final) out.set("final", true);
  return out;
}

/// The sums of a forward that was expanded, beside its y.
ValueId sums_of(const Graph& graph, ValueId y) {
  const Node* node = &graph.node(graph.value(y).producer);
  while (node->op->kind == OpKind::compute && node->operands.size() == 1)  // kept for the backward
    node = &graph.node(graph.value(node->operands[0]).producer);
  require(node->op->name == "attention_turn", "{} was not made in turns", graph.value(y).name);
  return node->results[1];
}

}  // namespace

std::vector<ValueId> attention_in_turns(Builder& builder, std::span<const ValueId> operands,
                                        const Attributes& attributes) {
  const std::int64_t pieces = attributes.integer("pieces", 1);
  std::vector<ValueId> carried;
  for (std::int64_t j = 0; j < pieces; ++j) {
    std::vector<ValueId> all(operands.begin(), operands.end());
    all.insert(all.end(), carried.begin(), carried.end());
    carried = builder.call_all(find_op("attention_turn"), std::move(all),
                               of_turn(attributes, j, j + 1 == pieces, operands.size() > mask_place));
  }
  return {carried[0]};
}

std::vector<ValueId> attention_grad_in_turns(Builder& builder, std::span<const ValueId> operands,
                                             const Attributes& attributes) {
  const std::int64_t pieces = attributes.integer("pieces", 1);
  constexpr std::size_t without_mask = 5;
  const ValueId sums = sums_of(builder.graph(), operands[4]);
  const bool is_masked = operands.size() > without_mask;
  const std::string stored(name_of(builder.type(operands[1]).dtype));
  ValueId dq, dk, dv;
  std::vector<ValueId> away;  // of the turn before: on their way home while the next turn is computed
  const auto bring_home = [&](std::int64_t turn) {
    Attributes how{{"pieces", pieces}, {"turn", turn}};
    if (turn + 1 == pieces) how.set("to", stored);
    dk = builder.call("bring_home", {dk, away[0]}, how);
    dv = builder.call("bring_home", {dv, away[1]}, how);
  };
  for (std::int64_t j = 0; j < pieces; ++j) {
    std::vector<ValueId> all(operands.begin(), operands.end());
    all.insert(all.begin() + without_mask, sums);
    if (j > 0) all.push_back(dq);
    const std::vector<ValueId> made = builder.call_all(find_op("attention_turn_grad"), std::move(all),
                                                       of_turn(attributes, j, j + 1 == pieces, is_masked));
    dq = made[0];
    if (j == 0) {
      dk = made[1], dv = made[2];
      continue;
    }
    if (j > 1) bring_home(j - 1);
    away = {made[1], made[2]};
  }
  bring_home(pieces - 1);
  return {dq, dk, dv};
}

std::vector<OpDef> attention_turns() {
  const std::vector<std::string> attributes{"alibi", "causal", "final", "masked",
                                            "order", "pieces", "scale", "turn"};
  return {
      {.name = "attention_turn",
       .doc = "attention of pieces of queries to the keys `turn` pieces before, merged with y and log of sum "
              "so far",
       .attributes = attributes,
       .rule_for = rule,
       .infer = infer,
       .flops = [](const Rule& rule) { return turn_flops(rule, 1, 1, 1); },
       .kernel =
           [](const KernelCall& call) {
             visit_floating(call.operands[0].dtype, [&]<class T>(std::type_identity<T>) { turn<T>(call); });
           },
       .workspace = [](const KernelCall& call) { return workspace_of(call, 1); },
       .samples =
           {"f32[2,4,6,4], f32[2,2,6,4], f32[2,2,6,2] (causal=true, pieces=2, turn=1)",
            "f32[2,4,12,2], f32[2,2,12,2], f32[2,2,12,4], f32[2,4,12,4], f32[2,4,2,6,2]>0 (causal=true, "
            "pieces=2, turn=1, order=4, final=true)",
            "f32[2,4,6,4], f32[2,2,6,4], f32[2,2,6,2], f32[2,1,6,6], f32[2,4,6,2], f32[2,4,2,3,2]>0 "
            "(masked=true, pieces=2, turn=1)",
            "f32[2,4,6,4], f32[2,2,6,4], f32[2,2,6,2], f32[6,6] (masked=true, causal=true, pieces=2, turn=1)",
            "f32[2,2,6,2], f32[2,2,6,2], f32[2,2,6,2] (alibi=true, pieces=3, scale=0.5)"},
       .is_chain = true},
      {.name = "attention_turn_grad",
       .doc = "gradients of a turn of attention for q, added up, and for its keys and values, where they are "
              "asked",
       .attributes = attributes,
       .rule_for = gradient_rule,
       .linear_for =
           [](const Call& call) {
             const std::size_t carried = first_carried_of_gradient(call.attributes);
             return call.operands.size() > carried ? fmt::format("{{0,{}}}", carried) : "{0}";
           },
       .infer = infer_gradient,
       .flops = [](const Rule& rule) { return turn_flops(rule, 2, 3, 2); },
       .kernel =
           [](const KernelCall& call) {
             visit_floating(call.operands[1].dtype,
                            [&]<class T>(std::type_identity<T>) { turn_gradient<T>(call); });
           },
       .workspace = [](const KernelCall& call) { return workspace_of(call, 2); },
       .samples =
           {"f32[2,4,6,2], f32[2,4,6,4], f32[2,2,6,4], f32[2,2,6,2], f32[2,4,6,2], f32[2,4,2,3,2]>0 "
            "(causal=true, pieces=2, turn=1)",
            "f32[2,4,12,2], f32[2,4,12,4], f32[2,2,12,4], f32[2,2,12,2], f32[2,4,12,2], f32[2,4,2,6,2]>0, "
            "f32[2,4,12,4] (causal=true, pieces=2, turn=1, order=4, final=true)",
            "f32[2,2,6,2], f32[2,2,6,2], f32[2,2,6,2], f32[2,2,6,2], f32[2,2,6,2], f32[2,2,3,2,2]>0 "
            "(alibi=true, pieces=3, scale=0.5)",
            "f32[2,4,6,2], f32[2,4,6,4], f32[2,2,6,4], f32[2,2,6,2], f32[2,4,6,2], f32[2,4,2,3,2]>0, "
            "f32[2,4,6,6], "
            "f32[2,4,6,4] (masked=true, pieces=2, turn=1)"},
       .is_chain = true}};
}

}  // namespace shardwright::ops

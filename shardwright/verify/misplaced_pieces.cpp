// What a rank takes is what the others hold, box by box.
//
// The boxes are worked out again from the layouts, so a piece at the wrong place is found even if all ranks have it.
// Pieces are looked at one by one, on every rank while they are few: a gather among n ranks has n on each. Where they are
// many, they are looked at on the first and the last rank of a class and on the first one of each size. Of its other
// ranks it is proven that their boxes fit: what a group gives are, each box once, the cells of a grid, so whatever is cut
// out of them lies in them once. Where they are no grid, pieces are looked at on every rank.

#include <algorithm>
#include <set>

#include "shardwright/base/index.h"
#include "shardwright/verify/box_grid.h"
#include "shardwright/verify/meetings.h"

namespace shardwright {
namespace {

/// The box, in the coordinates of the whole, that begins `offset` elements into a tensor that holds `held`; nothing if
/// it does not lie inside.
std::optional<Box> region_at(std::int64_t offset, const Shape& strides, const Shape& extent,
                             const Box& held) {
  if (extent.size() != held.extent.size() || strides != strides_of(held.extent)) return std::nullopt;
  Box out{held.offset, extent};
  for (std::size_t d = 0; d < extent.size(); ++d) {
    const std::int64_t begin = strides[d] == 0 ? 0 : offset / strides[d];
    offset -= begin * strides[d];
    if (begin < 0 || extent[d] < 0 || begin + extent[d] > held.extent[d]) return std::nullopt;
    out.offset[d] += begin;
  }
  return offset == 0 ? std::optional(out) : std::nullopt;
}

/// Pieces of a transfer on all ranks that are looked at one by one.
constexpr std::size_t few_pieces = 1 << 14;

/// What the members of a group give.
struct Given {
  const std::vector<int>& ranks;
  std::vector<std::optional<Box>> boxes;  // by member

  const std::optional<Box>* of(int rank) const {
    const auto place = std::ranges::lower_bound(ranks, rank);
    const bool is_member = place != ranks.end() && *place == rank;
    return is_member ? &boxes[static_cast<std::size_t>(place - ranks.begin())] : nullptr;
  }
};

class Pieces {
 public:
  explicit Pieces(Meetings& meetings) : meetings_(meetings), pipeline_(meetings.pipeline) {}

  Violations find() {
    for (const auto& [slots, gatherings] : meetings_.kinds) {
      seen_.clear();
      const std::size_t count = meetings_.slots[at(slots.front())].prepared.size();
      for (std::size_t t = 0; t < count && out_.empty(); ++t) compare(slots, gatherings, t);
    }
    return std::move(out_);
  }

 private:
  using Lies = std::tuple<int, Layout, Shape>;  // stage, layout, whole shape
  using Key = std::tuple<Lies, Lies, std::vector<const Transfer*>>;

  const PreparedTransfer& transfer(int slot, std::size_t t) const {
    const Slot& s = meetings_.slots[at(slot)];
    return meetings_.step_of(s).transfers[at(s.prepared[t])];
  }

  /// The t-th transfer of all groups in which the same slots meet.
  void compare(const std::vector<int>& slots, const std::vector<int>& gatherings, std::size_t t) {
    const PreparedTransfer& first = transfer(slots.front(), t);
    looks_at_all_ = are_few(gatherings);
    for (std::size_t p = 0; p < first.parts.size(); ++p) {
      for (int s : slots)
        if (const std::string why = fault_of_values(transfer(s, t), transfer(s, t).parts[p]); !why.empty())
          return bad(class_of(s).step.rank, transfer(s, t), p, why);
      if (first.crossing < 0 && !seen_.insert(key(slots, t, p)).second) continue;  // lies as another one does
      sizes_.clear();
      for (int g : gatherings)
        if (!compare(meetings_.gatherings[at(g)], t, p)) return;
    }
  }

  bool are_few(const std::vector<int>& gatherings) const {
    std::size_t pieces = 0;
    for (int g : gatherings) {
      const std::size_t members = meetings_.gatherings[at(g)].slots.size();
      pieces += members * members;
    }
    return pieces <= few_pieces;
  }

  Lies lies(int stage, ValueId v) const {
    const Value& value = graph(stage).value(v);
    return {stage, layout_of(value), value.global_type().shape};
  }
  Key key(const std::vector<int>& slots, std::size_t t, std::size_t p) const {
    const PreparedTransfer& first = transfer(slots.front(), t);
    Key out{lies(first.from_stage, first.parts[p].from), lies(first.to_stage, first.parts[p].to), {}};
    for (int s : slots) std::get<2>(out).push_back(transfer(s, t).parts[p].transfer.get());
    return out;
  }

  void bad(int rank, const PreparedTransfer& t, std::size_t p, std::string_view why) {
    out_.push_back(violation("rank {}: {}: %{} {}", rank, to_text(t, pipeline_), name_of(t, p), why));
  }

  bool compare(const Gathering& gathering, std::size_t t, std::size_t p) {
    const std::vector<int>& ranks = meetings_.groups.ranks(gathering.group);
    Given given{ranks, {}};
    std::vector<bool> is_looked_at;
    for (std::size_t m = 0; m < ranks.size(); ++m) {
      const PreparedTransfer& of_class = transfer(gathering.slots[m], t);
      const Part& part = of_class.parts[p];
      given.boxes.push_back(box_if_any(ranks[m], of_class.from_stage, part.from));
      is_looked_at.push_back(looks_at(gathering.slots[m], ranks[m], given.boxes.back(),
                                      box_if_any(ranks[m], of_class.to_stage, part.to)));
    }
    const bool all_fit =
        std::ranges::find(is_looked_at, false) == is_looked_at.end() || boxes_fit(gathering, t, p, given);
    for (std::size_t m = 0; m < ranks.size(); ++m) {
      if (all_fit && !is_looked_at[m]) continue;
      const PreparedTransfer& of_class = transfer(gathering.slots[m], t);
      const bool is_own = ranks[m] == class_of(gathering.slots[m]).step.rank;
      const PreparedTransfer own = is_own ? of_class : *meetings_.groups.transfer(of_class, ranks[m]);
      const std::string why = fault(ranks[m], own, p, given);
      if (why.empty()) continue;
      bad(ranks[m], own, p, why);
      return false;
    }
    return true;
  }

  const RankClass& class_of(int slot) const {
    return meetings_.classes[at(meetings_.slots[at(slot)].rank_class)];
  }
  /// One of each size, too, for ranks of a class may hold shards of different sizes.
  bool looks_at(int slot, int rank, const std::optional<Box>& gives, const std::optional<Box>& takes) {
    const auto extent = [](const std::optional<Box>& box) { return box ? box->extent : Shape(); };
    const RankClass& of = class_of(slot);
    const bool is_new = sizes_.emplace(slot, extent(gives), extent(takes)).second;
    return is_new || looks_at_all_ || rank == of.step.rank || rank == of.ranks.back();
  }

  /// What every member takes lies once in what the group gives, whoever it is.
  bool boxes_fit(const Gathering& gathering, std::size_t t, std::size_t p, const Given& given) const {
    const std::vector<int>& ranks = given.ranks;
    std::vector<Box> boxes;
    for (const std::optional<Box>& box : given.boxes)
      if (box) boxes.push_back(*box);
    const PreparedTransfer& any = transfer(gathering.slots.front(), t);
    const bool reduces = any.parts[p].transfer->reduces;
    if (reduces && std::ranges::adjacent_find(boxes, std::not_equal_to()) != boxes.end()) return false;
    const std::optional<Box> hull = filled_by(std::move(boxes));
    for (std::size_t m = 0; m < ranks.size(); ++m) {
      const PreparedTransfer& own = transfer(gathering.slots[m], t);
      const Part& part = own.parts[p];
      if (!part.to.is_valid()) continue;
      const Box wanted = box_on(ranks[m], own.to_stage, part.to);
      if (is_empty(wanted)) continue;
      if (!hull || intersect(*hull, wanted) != wanted) return false;
      if (own.kind() == StepKind::all_reduce && *hull != wanted) return false;
      if (!reduces && part.from.is_valid() && !holds_one_addend(own, part, ranks.front(), ranks[m]))
        return false;
    }
    return true;
  }

  bool holds_one_addend(const PreparedTransfer& t, const Part& part, int a, int b) const {
    const Layout from = layout_of(graph(t.from_stage).value(part.from));
    if (!from.is_partial()) return true;
    const Mesh& mesh = graph(t.from_stage).meshes[at(from.mesh)];
    const Axes partial = from.sum.with(from.max);
    const int first = pipeline_.first_rank(t.from_stage);
    return mesh.index_along(a - first, partial) == mesh.index_along(b - first, partial);
  }

  const std::string& name_of(const PreparedTransfer& t, std::size_t p) const {
    const Part& part = t.parts[p];
    return part.to.is_valid() ? graph(t.to_stage).value(part.to).name
                              : graph(t.from_stage).value(part.from).name;
  }

  const Graph& graph(int stage) const { return pipeline_.stage(stage).graph; }
  Box box_on(int rank, int stage, ValueId v) const {
    return box_of(graph(stage), v, rank - pipeline_.first_rank(stage));
  }

  std::optional<Box> box_if_any(int rank, int stage, ValueId v) const {
    return v.is_valid() ? std::optional(box_on(rank, stage, v)) : std::nullopt;
  }

  /// What is wrong with what a member takes; empty if nothing.
  std::string fault(int rank, const PreparedTransfer& transfer, std::size_t p, const Given& given) const {
    const Part& part = transfer.parts[p];
    const Transfer& t = *part.transfer;
    const std::optional<Box>& own = *given.of(rank);
    if (own && t.from_shape != own->extent)
      return fmt::format("gives {} but holds {}", to_text(t.from_shape), to_text(own->extent));
    if (!part.to.is_valid()) return t.pieces.empty() ? "" : "only gives and yet takes";
    const Box wanted = box_on(rank, transfer.to_stage, part.to);
    if (t.to_shape != wanted.extent)
      return fmt::format("takes {} but holds {}", to_text(t.to_shape), to_text(wanted.extent));
    if (t.kind == StepKind::all_reduce && own && *own != wanted)  // sums whole operands, wherever they lie
      return fmt::format("sums {} where {} should be", to_text(own->extent), to_text(wanted.extent));
    if (t.clears) return t.pieces.empty() ? "" : "is cleared and yet takes";
    if (std::string why = fault_of_addends(transfer, part, rank); !why.empty()) return why;
    return fault_of_pieces(t, wanted, given);
  }

  /// What is partial and not reduced stays with those who hold the same addend.
  std::string fault_of_addends(const PreparedTransfer& t, const Part& part, int rank) const {
    if (!part.from.is_valid() || part.transfer->reduces) return "";
    const Layout from = layout_of(graph(t.from_stage).value(part.from));
    if (!from.is_partial()) return "";
    const Mesh& mesh = graph(t.from_stage).meshes[at(from.mesh)];
    const Axes partial = from.sum.with(from.max);
    const int first = pipeline_.first_rank(t.from_stage);
    for (const Piece& piece : part.transfer->pieces)
      if (mesh.index_along(piece.source - first, partial) != mesh.index_along(rank - first, partial))
        return fmt::format("takes an addend of rank {} for its own", piece.source);
    return "";
  }

  std::string fault_of_values(const PreparedTransfer& t, const Part& part) const {
    for (const Value* v : values_of(t, part))
      if (v->type.dtype != part.dtype)
        return fmt::format("is {} but {} moves", shardwright::name_of(v->type.dtype),
                           shardwright::name_of(part.dtype));
    return fault_of_formats(t, part);
  }

  /// Pieces are cut out of row-major tensors. A sum of whole ones may have its elements in any order, but one.
  std::string fault_of_formats(const PreparedTransfer& t, const Part& part) const {
    const std::vector<const Value*> values = values_of(t, part);
    if (part.transfer->kind == StepKind::all_reduce) {
      const bool is_one = values.front()->format == values.back()->format;
      return is_one ? "" : "and its operand lie in different formats";
    }
    for (const Value* v : values)
      if (!v->format.is_row_major())
        return fmt::format("moves in pieces but %{} lies in {}", v->name, to_text(v->format));
    return "";
  }

  /// What is given and what is made.
  std::vector<const Value*> values_of(const PreparedTransfer& t, const Part& part) const {
    std::vector<const Value*> out;
    if (part.from.is_valid()) out.push_back(&graph(t.from_stage).value(part.from));
    if (part.to.is_valid()) out.push_back(&graph(t.to_stage).value(part.to));
    return out;
  }

  static std::string fault_of_pieces(const Transfer& t, const Box& wanted, const Given& given) {
    std::vector<Box> regions;
    std::int64_t taken = 0;
    std::vector<int> sources;
    for (const Piece& piece : t.pieces) {
      const std::optional<Box>* const source = given.of(piece.source);
      if (!source) return fmt::format("is taken from rank {}, outside the group", piece.source);
      if (!*source) return fmt::format("is taken from rank {}, which gives nothing", piece.source);
      const auto from = region_at(piece.from_offset, piece.from_strides, piece.extent, **source);
      auto to = region_at(piece.to_offset, piece.to_strides, piece.extent, wanted);
      if (!from || !to || *from != *to)
        return fmt::format("takes {} elements of rank {} from other places than it puts them",
                           element_count(piece.extent), piece.source);
      if (t.reduces && *to != wanted) return fmt::format("reduces a part of rank {}'s only", piece.source);
      sources.push_back(piece.source);
      regions.push_back(std::move(*to));
      taken += element_count(piece.extent);
    }
    if (t.reduces) {
      std::sort(sources.begin(), sources.end());
      return sources == t.group ? "" : "does not reduce one operand of every rank of the group";
    }
    if (overlap(regions)) return "takes some elements twice";
    if (taken != element_count(wanted.extent))
      return fmt::format("takes {} elements of {}", taken, element_count(wanted.extent));
    return "";
  }

  /// Sorted by where they begin in the first dim that cuts them, boxes of one tensor overlap with near ones only.
  static bool overlap(std::vector<Box>& boxes) {
    if (boxes.size() < 2) return false;
    if (boxes.front().offset.empty()) return true;
    std::size_t d = 0;
    const auto begins_elsewhere = [&](const Box& b) { return b.offset[d] != boxes.front().offset[d]; };
    while (d + 1 < boxes.front().offset.size() && std::none_of(boxes.begin(), boxes.end(), begins_elsewhere))
      ++d;
    std::sort(boxes.begin(), boxes.end(),
              [&](const Box& a, const Box& b) { return a.offset[d] < b.offset[d]; });
    for (std::size_t a = 0; a < boxes.size(); ++a)
      for (std::size_t b = a + 1;
           b < boxes.size() && boxes[b].offset[d] < boxes[a].offset[d] + boxes[a].extent[d]; ++b)
        if (!is_empty(intersect(boxes[a], boxes[b]))) return true;
    return false;
  }

  Meetings& meetings_;
  const Pipeline& pipeline_;
  std::set<Key> seen_;
  bool looks_at_all_ = false;
  std::set<std::tuple<int, Shape, Shape>> sizes_;  // that one rank of the slot has, given and taken
  Violations out_;
};

}  // namespace

Violations misplaced_pieces(Meetings& meetings) { return Pieces(meetings).find(); }

}  // namespace shardwright

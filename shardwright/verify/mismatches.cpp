// Members of a group agree on its transfers.
//
// A communicator knows a transfer by its group, its channel and its place in the order in which the group prepares them;
// so that is how two ranks' transfers are paired here, and then everything else about them must be equal or fit. The
// boxes are worked out again from the layouts, so a piece at the wrong place is found even if all ranks have it.

#include <algorithm>
#include <map>

#include "shardwright/verify/violation.h"

namespace shardwright {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// A group's transfers as one member knows them.
struct Member {
  const RankStep* rank = nullptr;
  std::vector<int> prepared;         // transfers
  std::vector<Instruction> started;  // `what` is the place among the group's
};

using GroupKey = std::pair<std::vector<int>, int>;  // ranks and channel

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

class Matching {
 public:
  Matching(const std::vector<RankStep>& ranks, const Pipeline& pipeline)
      : ranks_(ranks), pipeline_(pipeline) {}

  Violations find() {
    for (const RankStep& rank : ranks_) collect(rank);
    for (const auto& [key, members] : groups_) compare(key, members);
    return std::move(out_);
  }

 private:
  void collect(const RankStep& rank) {
    std::vector<std::pair<Member*, int>> places;  // by transfer: among the group's
    for (std::size_t t = 0; t < rank.transfers.size(); ++t) {
      const PreparedTransfer& transfer = rank.transfers[t];
      if (!is_sound(rank, transfer)) return;
      Member& member = groups_[{transfer.group(), transfer.channel()}][rank.rank];
      member.rank = &rank;
      places.emplace_back(&member, static_cast<int>(member.prepared.size()));
      member.prepared.push_back(static_cast<int>(t));
    }
    for (const Instruction& i : rank.instructions)
      if (i.act == Act::start)
        places[at(i.what)].first->started.push_back(
            {Act::start, 0, places[at(i.what)].second, i.micro_batch});
  }

  /// The transfer alone makes sense.
  bool is_sound(const RankStep& rank, const PreparedTransfer& transfer) {
    const std::vector<int>& group = transfer.group();
    const auto bad = [&](std::string_view why) {
      out_.push_back(violation("rank {}: {}: {}", rank.rank, to_text(transfer, pipeline_), why));
      return false;
    };
    if (!std::is_sorted(group.begin(), group.end()) ||
        std::adjacent_find(group.begin(), group.end()) != group.end())
      return bad("the ranks of the group should ascend");
    if (!std::binary_search(group.begin(), group.end(), rank.rank)) return bad("it is not in that group");
    if (group.front() < 0 || group.back() >= static_cast<int>(ranks_.size()))
      return bad(fmt::format("there are {} ranks", ranks_.size()));
    for (const Part& part : transfer.parts)
      if (part.transfer->group != group || part.transfer->channel != transfer.channel() ||
          part.transfer->kind != transfer.kind())
        return bad("what runs as one should have one kind and one group");
    return true;
  }

  void compare(const GroupKey& key, const std::map<int, Member>& members) {
    const Member& first = members.begin()->second;
    if (members.size() != key.first.size()) return report_missing(key, members);
    for (const auto& [rank, member] : members) {
      compare_prepared(first, member);
      if (&member != &first) compare_started(first, member);
    }
    if (!out_.empty()) return;
    for (std::size_t t = 0; t < first.prepared.size(); ++t) compare_boxes(members, t);
  }

  void report_missing(const GroupKey& key, const std::map<int, Member>& members) {
    const Member& first = members.begin()->second;
    for (int r : key.first)
      if (!members.contains(r)) {
        out_.push_back(violation("rank {}: {} but rank {}: {}", first.rank->rank,
                                 text(first, first.prepared.front()), r,
                                 counterpart(r, first, first.prepared.front())));
        return;
      }
  }

  /// What rank `r` has in place of a transfer that it does not have in the same group.
  std::string counterpart(int r, const Member& member, int transfer) const {
    const PreparedTransfer& wanted = member.rank->transfers[at(transfer)];
    const RankStep& rank = ranks_[at(r)];
    for (const PreparedTransfer& t : rank.transfers)
      if (t.crossing == wanted.crossing && t.node == wanted.node && t.to_stage == wanted.to_stage)
        return to_text(t, pipeline_);
    return "no such transfer";
  }

  std::string text(const Member& m, int transfer) const {
    return to_text(m.rank->transfers[at(transfer)], pipeline_);
  }

  void disagree(const Member& a, const std::string& one, const Member& b, const std::string& other,
                std::string_view why) {
    out_.push_back(violation("rank {}: {} but rank {}: {}{}", a.rank->rank, one, b.rank->rank, other, why));
  }

  void compare_prepared(const Member& first, const Member& member) {
    const std::size_t count = std::min(first.prepared.size(), member.prepared.size());
    for (std::size_t t = 0; t < count; ++t) {
      const PreparedTransfer& a = member.rank->transfers[at(member.prepared[t])];
      const PreparedTransfer& b = first.rank->transfers[at(first.prepared[t])];
      const std::string why = difference(a, b);
      if (why.empty() && a.to_stage == b.to_stage) continue;
      return disagree(member, text(member, member.prepared[t]), first, text(first, first.prepared[t]), why);
    }
    if (first.prepared.size() == member.prepared.size()) return;
    const bool is_less = member.prepared.size() < first.prepared.size();
    const Member &more = is_less ? first : member, &less = is_less ? member : first;
    disagree(more, text(more, more.prepared[count]), less,
             counterpart(less.rank->rank, more, more.prepared[count]), "");
  }

  /// In what two members' sides of a transfer differ that they should share; empty if in nothing.
  static std::string difference(const PreparedTransfer& a, const PreparedTransfer& b) {
    const auto differ = [](std::string_view what) { return fmt::format(" ({} differ)", what); };
    if (a.crossing != b.crossing) return differ("crossings");
    if (a.crossing < 0 && a.node != b.node) return differ("nodes");
    if (a.kind() != b.kind()) return differ("kinds");
    if (a.copies != b.copies) return differ("numbers of copies");
    if (a.parts.size() != b.parts.size()) return differ("numbers of tensors");
    for (std::size_t p = 0; p < a.parts.size(); ++p) {
      const Part &x = a.parts[p], &y = b.parts[p];
      if (x.dtype != y.dtype) return differ("types");
      if (x.transfer->reduces != y.transfer->reduces) return differ("kinds");
      if (x.transfer->reduces && x.transfer->reduction != y.transfer->reduction) return differ("reductions");
      if (a.crossing < 0 && (x.from != y.from || x.to != y.to)) return differ("values");
      if (x.transfer->reduces && x.transfer->from_shape != y.transfer->from_shape) return differ("shapes");
    }
    return "";
  }

  void compare_started(const Member& first, const Member& member) {
    const std::size_t count = std::min(first.started.size(), member.started.size());
    for (std::size_t i = 0; i < count; ++i)
      if (member.started[i] != first.started[i])
        return disagree(member, started_text(member, i), first, started_text(first, i), " in its place");
    if (first.started.size() == member.started.size()) return;
    const bool is_less = member.started.size() < first.started.size();
    const Member &more = is_less ? first : member, &less = is_less ? member : first;
    disagree(more, started_text(more, count), less, "nothing more of this group", "");
  }

  std::string started_text(const Member& m, std::size_t i) const {
    Instruction instruction = m.started[i];
    instruction.what = m.prepared[at(instruction.what)];
    return to_text(*m.rank, instruction, pipeline_);
  }

  void compare_boxes(const std::map<int, Member>& members, std::size_t t) {
    const auto transfer = [&](const Member& m) -> const PreparedTransfer& {
      return m.rank->transfers[at(m.prepared[t])];
    };
    const std::size_t parts = transfer(members.begin()->second).parts.size();
    for (std::size_t p = 0; p < parts; ++p) {
      std::map<int, std::optional<Box>> given;
      for (const auto& [rank, m] : members) given[rank] = box_of_operand(m, transfer(m), p);
      for (const auto& [rank, m] : members) {
        const std::string why = fault(m, transfer(m), p, given);
        if (why.empty()) continue;
        out_.push_back(
            violation("rank {}: {}: %{} {}", rank, text(m, m.prepared[t]), name_of(transfer(m), p), why));
        return;
      }
    }
  }

  const std::string& name_of(const PreparedTransfer& t, std::size_t p) const {
    const Part& part = t.parts[p];
    return part.to.is_valid() ? graph(t.to_stage).value(part.to).name
                              : graph(t.from_stage).value(part.from).name;
  }

  const Graph& graph(int stage) const { return pipeline_.stage(stage).graph; }
  Box box_on(const Member& m, int stage, ValueId v) const {
    return box_of(graph(stage), v, m.rank->rank - pipeline_.first_rank(stage));
  }

  std::optional<Box> box_of_operand(const Member& m, const PreparedTransfer& t, std::size_t p) const {
    const ValueId v = t.parts[p].from;
    return v.is_valid() ? std::optional(box_on(m, t.from_stage, v)) : std::nullopt;
  }

  /// What is wrong with what a member takes; empty if nothing.
  std::string fault(const Member& m, const PreparedTransfer& transfer, std::size_t p,
                    const std::map<int, std::optional<Box>>& given) const {
    const Part& part = transfer.parts[p];
    const Transfer& t = *part.transfer;
    for (const Value* v : values_of(transfer, part))
      if (v->type.dtype != part.dtype)
        return fmt::format("is {} but {} moves", shardwright::name_of(v->type.dtype),
                           shardwright::name_of(part.dtype));
    if (std::string why = fault_of_formats(transfer, part); !why.empty()) return why;
    const std::optional<Box>& own = given.at(m.rank->rank);
    if (own && t.from_shape != own->extent)
      return fmt::format("gives {} but holds {}", to_text(t.from_shape), to_text(own->extent));
    if (!part.to.is_valid()) return t.pieces.empty() ? "" : "only gives and yet takes";
    const Box wanted = box_on(m, transfer.to_stage, part.to);
    if (t.to_shape != wanted.extent)
      return fmt::format("takes {} but holds {}", to_text(t.to_shape), to_text(wanted.extent));
    if (t.kind == StepKind::all_reduce && own && *own != wanted)  // sums whole operands, wherever they lie
      return fmt::format("sums {} where {} should be", to_text(own->extent), to_text(wanted.extent));
    if (t.clears) return t.pieces.empty() ? "" : "is cleared and yet takes";
    if (std::string why = fault_of_addends(transfer, part, m); !why.empty()) return why;
    return fault_of_pieces(t, wanted, given);
  }

  /// What is partial and not reduced stays with those who hold the same addend.
  std::string fault_of_addends(const PreparedTransfer& t, const Part& part, const Member& m) const {
    if (!part.from.is_valid() || part.transfer->reduces) return "";
    const Layout from = layout_of(graph(t.from_stage).value(part.from));
    if (!from.is_partial()) return "";
    const Mesh& mesh = graph(t.from_stage).meshes[at(from.mesh)];
    const Axes partial = from.sum.with(from.max);
    const int first = pipeline_.first_rank(t.from_stage);
    for (const Piece& piece : part.transfer->pieces)
      if (mesh.index_along(piece.source - first, partial) != mesh.index_along(m.rank->rank - first, partial))
        return fmt::format("takes an addend of rank {} for its own", piece.source);
    return "";
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

  static std::string fault_of_pieces(const Transfer& t, const Box& wanted,
                                     const std::map<int, std::optional<Box>>& given) {
    std::vector<Box> regions;
    std::int64_t taken = 0;
    std::vector<int> sources;
    for (const Piece& piece : t.pieces) {
      const auto source = given.find(piece.source);
      if (source == given.end()) return fmt::format("is taken from rank {}, outside the group", piece.source);
      if (!source->second) return fmt::format("is taken from rank {}, which gives nothing", piece.source);
      const auto from = region_at(piece.from_offset, piece.from_strides, piece.extent, *source->second);
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

  const std::vector<RankStep>& ranks_;
  const Pipeline& pipeline_;
  std::map<GroupKey, std::map<int, Member>> groups_;
  Violations out_;
};

}  // namespace

Violations mismatches(const std::vector<RankStep>& ranks, const Pipeline& pipeline) {
  return Matching(ranks, pipeline).find();
}

}  // namespace shardwright

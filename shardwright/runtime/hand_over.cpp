#include "shardwright/runtime/hand_over.h"

#include "shardwright/runtime/session.h"

namespace shardwright {
namespace {

/// Whether `rank` of `session` holds all of `where`, in full precision.
bool holds(int rank, const Session& session, const Kept& value, const Box& where) {
  const auto [stage, v] = session.kept().place_of(value);
  const Placement place = placement_of(session.pipeline(), stage, v);
  return place.has(rank) &&
         intersect(place.box_on(rank, session.kept().type_of(value).shape), where) == where;
}

/// Whether every process holds what it needs: all of them come to the same answer. Of sessions of as many ranks,
/// process r is rank r of both; of others nobody knows.
bool is_at_hand(const Session& to, const Kept& needed, const Session& from, const Kept& held) {
  const int givers = from.pipeline().rank_count(), takers = to.pipeline().rank_count();
  for (int r = 0; r < takers; ++r)
    for (const Box& where : to.kept().held_by(r, needed))
      for (int g = givers == takers ? r : 0; g < (givers == takers ? r + 1 : givers); ++g)
        if (!holds(g, from, held, where)) return false;
  return true;
}

Tensor in_type(DType dtype, Tensor tensor) {
  return tensor.dtype() == dtype ? tensor : convert(tensor, dtype);
}

}  // namespace

void hand_over(Session& to, const Session& from, std::string_view name) {
  const Kept& needed = to.kept().named(name);
  const Kept& held = from.kept().named(name);
  const Type type = to.kept().type_of(needed);
  const Type given = from.kept().type_of(held);
  if (given.shape != type.shape)
    throw error("'{}' is {} here but {} there", name, to_text(type), to_text(given));
  const bool is_all_here = static_cast<int>(from.ranks().size()) == from.pipeline().rank_count();
  if (is_all_here || !is_at_hand(to, needed, from, held))
    return to.set(name, in_type(type.dtype, from.get(name)));
  for (int rank : to.ranks())
    for (const Box& where : to.kept().held_by(rank, needed))
      to.set(name, where, in_type(type.dtype, from.get_own(name, where)));
}

}  // namespace shardwright

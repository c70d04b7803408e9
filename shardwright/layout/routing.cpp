#include "shardwright/layout/routing.h"

#include <algorithm>

namespace shardwright {

double share_of_rows(const Routing& routing, std::int64_t parts) {
  const double all = static_cast<double>(routing.experts), held = all / static_cast<double>(parts);
  double none = 1;  // of the choices, which are different ones, falls on these
  for (std::int64_t i = 0; i < routing.choices && i < routing.experts; ++i) {
    const auto gone = static_cast<double>(i);
    none *= std::max(0.0, all - held - gone) / (all - gone);
  }
  return 1 - none;
}

Axes routed_axes(const Routing& routing, const Layout& gathered) {
  Axes out = routing.axes;
  for (const Axes& dim : gathered.dims) out = out.without(dim);
  return out;
}

ExpertSets::ExpertSets(const Routing& routing, const Layout& gathered, const Mesh& mesh,
                       std::span<const int> ranks)
    : experts_(routing.experts),
      choices_(routing.choices),
      words_((static_cast<std::size_t>(routing.experts) + bits - 1) / bits),
      sets_(ranks.size() * words_) {
  const Axes others = routing.axes.without(routed_axes(routing, gathered));
  const Layout split{.dims = {routing.axes}, .sum = {}, .max = {}};
  for (std::size_t m = 0; m < ranks.size(); ++m)
    for (const int rank : mesh.group_of(ranks[m], others)) {
      const Box own = box(split, mesh, {routing.experts}, rank);
      for (std::int64_t e = own.offset[0]; e < own.offset[0] + own.extent[0]; ++e) add(m, e);
    }
}

ExpertSets::ExpertSets(const ExpertSets& all, std::span<const std::size_t> members)
    : experts_(all.experts_), choices_(all.choices_), words_(all.words_) {
  for (const std::size_t m : members)
    sets_.insert(sets_.end(), all.sets_.begin() + static_cast<std::ptrdiff_t>(m * words_),
                 all.sets_.begin() + static_cast<std::ptrdiff_t>((m + 1) * words_));
}

ExpertSets::ExpertSets(std::span<const ExpertSets> of) : ExpertSets(of.front()) {
  for (const ExpertSets& next : of.subspan(1))
    sets_.insert(sets_.end(), next.sets_.begin(), next.sets_.end());
}

ExpertSets ExpertSets::joined(std::span<const std::size_t> members) const {
  ExpertSets out;
  out.experts_ = experts_, out.choices_ = choices_, out.words_ = words_;
  out.sets_.resize(words_);
  for (const std::size_t m : members)
    for (std::size_t w = 0; w < words_; ++w) out.sets_[w] |= sets_[m * words_ + w];
  return out;
}

}  // namespace shardwright

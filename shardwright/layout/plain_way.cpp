#include "shardwright/layout/plain_way.h"

#include <array>

#include "shardwright/base/index.h"
#include "shardwright/layout/layout_steps.h"

namespace shardwright {
namespace {

/// How a tensor lies along one axis: the dim that it shards, or one of these.
constexpr int nowhere = -1, partial = -2;

/// Per axis of the mesh.
using Places = std::array<int, Axes::max_size>;

Places places_of(const Layout& layout) {
  Places out;
  out.fill(nowhere);
  for (std::size_t d = 0; d < layout.dims.size(); ++d)
    for (int a : layout.dims[d]) out[at(a)] = static_cast<int>(d);
  for (int a : layout.sum) out[at(a)] = partial;
  return out;
}

class Way {
 public:
  Way(const Layout& from, const Layout& to, const Type& type, const Mesh& mesh, const MeshCost& cost)
      : from_(from),
        to_(to),
        mesh_(mesh),
        cost_(cost),
        from_places_(places_of(from)),
        to_places_(places_of(to)),
        dims_(static_cast<int>(to.dims.size())) {
    held_ = static_cast<double>(element_count(type.shape)) * static_cast<double>(size_of(type.dtype));
    for (const Axes& axes : from.dims) held_ /= mesh.count(axes);
  }

  double seconds() {
    for (int d = 0; d < dims_; ++d)
      if (const Axes axes = moving(nowhere, d); !axes.empty()) {
        held_ /= mesh_.count(axes);
        copy();
      }
    for (int d = 0; d < dims_; ++d) scatter(d);
    if (const Axes axes = moving(partial, nowhere); !axes.empty()) pay(StepKind::all_reduce, axes);
    for (int d = 0; d < dims_; ++d)
      for (int e = 0; e < dims_; ++e)
        if (const Axes axes = moving(d, e); d != e && !axes.empty()) pay(StepKind::all_to_all, axes);
    for (int d = 0; d < dims_; ++d) gather(d);
    for (int d = 0; d < dims_; ++d)
      if (const Axes axes = disordered(d); !axes.empty()) pay(StepKind::permute, axes);
    if (!moving(nowhere, partial).empty()) copy();
    return seconds_;
  }

 private:
  Axes moving(int from, int to) const {
    Axes out;
    for (int a = 0; a < mesh_.axis_count(); ++a)
      if (from_places_[at(a)] == from && to_places_[at(a)] == to) out.push_back(a);
    return out;
  }

  void pay(StepKind kind, const Axes& axes) { seconds_ += step_seconds(kind, held_, axes, mesh_, cost_); }
  void copy() { seconds_ += held_ * cost_.copy_seconds_per_byte; }

  void scatter(int d) {
    const Axes axes = moving(partial, d);
    if (axes.empty()) return;
    pay(StepKind::reduce_scatter, axes);
    held_ /= mesh_.count(axes);
  }
  void gather(int d) {
    Axes axes = moving(d, nowhere);
    for (int a : moving(d, partial)) axes.push_back(a);
    if (axes.empty()) return;
    held_ *= mesh_.count(axes);
    pay(StepKind::all_gather, axes);
  }

  /// Axes that stay in dim `d` while a more major one leaves it or comes: their parts are elsewhere then.
  Axes disordered(int d) const {
    const Axes &before = from_.dims[at(d)], &after = to_.dims[at(d)];
    Axes out;
    int same = 0;
    while (same < before.size() && same < after.size() && before[same] == after[same]) ++same;
    for (int i = same; i < before.size(); ++i)
      if (to_places_[at(before[i])] == d) out.push_back(before[i]);
    return out;
  }

  const Layout& from_;
  const Layout& to_;
  const Mesh& mesh_;
  const MeshCost& cost_;
  const Places from_places_, to_places_;
  const int dims_;
  double held_ = 0;  // bytes of a rank by now
  double seconds_ = 0;
};

}  // namespace

double plain_seconds(const Layout& from, const Layout& to, const Type& type, const Mesh& mesh,
                     const MeshCost& cost) {
  return from == to ? 0 : Way(from, to, type, mesh, cost).seconds();
}

}  // namespace shardwright

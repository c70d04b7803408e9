#include "shardwright/layout/mesh.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace shardwright {
namespace {

constexpr std::int64_t max_ranks = 1 << 20;
constexpr std::int64_t max_shares = std::int64_t{1} << 31;  // whose square fits

constexpr std::string_view shares_word = "/shares";

/// Where the grain of `dp.tp/128` begins, with its slash; npos: it has none. Names have slashes, too, but no numbers behind them.
std::size_t grain_in(std::string_view word) {
  const std::size_t slash = word.rfind('/');
  if (slash == std::string_view::npos || slash + 1 == word.size()) return std::string_view::npos;
  const bool is_number = word.find_first_not_of("0123456789", slash + 1) == std::string_view::npos;
  return is_number ? slash : std::string_view::npos;
}

}  // namespace

bool Axes::contains(int axis) const { return std::find(begin(), end(), axis) != end(); }

void Axes::push_back(int axis) {
  require(axis >= 0 && axis < 256, "there is no axis {}", axis);
  if (size_ == max_size) throw error("an axis is used twice: a mesh has {} at most", max_size);
  index_[size_++] = static_cast<std::uint8_t>(axis);
}

Axes Axes::prefix(int n) const {
  Axes out;
  for (int i = 0; i < n; ++i) out.push_back((*this)[i]);
  return out.cut_as(*this);
}

Axes Axes::of_grain(std::int64_t grain) const {
  Axes out = *this;
  out.grain_ = empty() ? 0 : grain;
  return out;
}

Axes Axes::by_shares(bool is_by_shares) const {
  Axes out = *this;
  out.is_by_shares_ = is_by_shares && !empty();
  return out;
}

Axes Axes::suffix(int n) const {
  Axes out;
  for (int i = size_ - n; i < size_; ++i) out.push_back((*this)[i]);
  return out;
}

Axes Axes::with(const Axes& more) const {
  Axes out = *this;
  for (int a : more) out.push_back(a);
  return out;
}

Axes Axes::without(const Axes& others) const {
  Axes out;
  for (int a : *this)
    if (!others.contains(a)) out.push_back(a);
  return out.sorted();
}

Axes Axes::sorted() const {
  Axes out = *this;
  std::sort(out.index_.begin(), out.index_.begin() + out.size_);
  return out.cut_as({});
}

int Mesh::size() const {
  int n = 1;
  for (const Axis& a : axes) n *= a.size;
  return n;
}

int Mesh::count(const Axes& some) const {
  int n = 1;
  for (int a : some) n *= size_of(a);
  return n;
}

bool Mesh::has_shares() const {
  return std::ranges::any_of(axes, [](const Axis& a) { return !a.shares.empty(); });
}

bool Mesh::has_shares(const Axes& some) const {
  return std::ranges::any_of(some, [&](int a) { return !axes[static_cast<std::size_t>(a)].shares.empty(); });
}

Axes Mesh::all_axes() const {
  Axes out;
  for (int a = 0; a < axis_count(); ++a) out.push_back(a);
  return out;
}

int Mesh::axis(std::string_view name) const {
  for (int a = 0; a < axis_count(); ++a)
    if (axes[static_cast<std::size_t>(a)].name == name) return a;
  throw error("axis '{}' is not in {}", name, to_text(*this));
}

int Mesh::stride_of(int axis) const {
  int stride = 1;
  for (int a = axis + 1; a < axis_count(); ++a) stride *= size_of(a);
  return stride;
}

int Mesh::index_along(int rank, const Axes& some) const {
  int index = 0;
  for (int a : some) index = index * size_of(a) + coordinate(rank, a);
  return index;
}

std::vector<int> Mesh::group_of(int rank, const Axes& some) const {
  std::vector<int> group{rank};
  for (int a : some) {  // replace each member by its row along `a`; later axes vary fastest
    const int stride = stride_of(a);
    std::vector<int> wider;
    wider.reserve(group.size() * static_cast<std::size_t>(size_of(a)));
    for (int r : group) {
      const int first = r - coordinate(r, a) * stride;
      for (int i = 0; i < size_of(a); ++i) wider.push_back(first + i * stride);
    }
    group = std::move(wider);
  }
  return group;
}

std::string to_text(const Mesh& mesh) {
  std::string out = "mesh [";
  for (const Axis& a : mesh.axes) {
    out += fmt::format("{}{}={}", out.ends_with('[') ? "" : ", ", a.name, a.size);
    if (!a.shares.empty()) out += " by " + shares_text(a.shares);
  }
  return out + "]";
}

std::string to_text(const Axes& axes, const Mesh& mesh) {
  std::string out;
  for (int a : axes) {
    if (!out.empty()) out += ".";
    out += mesh.axes[static_cast<std::size_t>(a)].name;
  }
  if (axes.grain() > (axes.is_by_shares() ? 1 : 0)) out += fmt::format("/{}", axes.grain());
  if (axes.is_by_shares()) out += shares_word;
  return out.empty() ? "-" : out;
}

Mesh parse_mesh(Scanner& in) {
  Mesh mesh;
  in.expect("mesh");
  in.expect("[");
  if (!in.accept("]")) {
    do {
      Axis axis{in.name("an axis name"), 1};
      in.expect("=");
      axis.size = axis_size(axis.name, in.integer("the axis's size"));
      if (in.accept("by")) {
        do
          axis.shares.push_back(
              static_cast<int>(std::clamp<std::int64_t>(in.integer("a share"), 0, max_ranks)));
        while (in.accept(":"));
      }
      mesh.axes.push_back(std::move(axis));
    } while (in.accept(","));
    in.expect("]");
  }
  check(mesh);
  return mesh;
}

Axes parse_axes(Scanner& in, const Mesh& mesh) {
  Axes out;
  if (in.accept("-")) return out;
  const std::string said = in.name("axes or -");
  const bool is_by_shares = said.ends_with(shares_word);
  const std::string word = said.substr(0, said.size() - (is_by_shares ? shares_word.size() : 0));
  const std::size_t slash = grain_in(word);
  for (std::string_view name : split(std::string_view(word).substr(0, slash), '.')) {
    const int a = mesh.axis(name);
    if (out.contains(a)) throw error("axis '{}' is used twice in '{}'", name, word);
    out.push_back(a);
  }
  if (is_by_shares && !mesh.has_shares(out))
    throw error("'{}': no axis of {} has shares", said, to_text(mesh));
  out = out.by_shares(is_by_shares);
  if (slash == std::string::npos) return out;
  const auto grain = to_integer(std::string_view(word).substr(slash + 1));
  if (grain.value_or(0) < 1) throw error("'{}': elements that stay together are 1 or more", word);
  return out.of_grain(*grain);
}

int axis_size(std::string_view name, std::int64_t size) {
  if (size < 1) throw error("axis '{}' has size {}; sizes start at 1", name, size);
  if (size > max_ranks)
    throw error("axis '{}' has size {}; at most {} ranks are possible", name, size, max_ranks);
  return static_cast<int>(size);
}

std::string shares_text(std::span<const int> shares) {
  std::string out;
  for (const int share : shares) out += fmt::format("{}{}", out.empty() ? "" : ":", share);
  return out;
}

std::vector<int> shares_of(std::string_view text) {
  std::vector<int> out;
  for (const std::string_view word : split(text, ':')) {
    const auto share = to_integer(word);
    if (!share || *share < 1 || *share > Axis::most_share)
      throw error("shares are numbers from 1 to {}, as 3:1, not '{}'", Axis::most_share, text);
    out.push_back(static_cast<int>(*share));
  }
  return out;
}

void check(const Mesh& mesh) {
  std::set<std::string> names;
  std::int64_t ranks = 1, shares = 1;
  for (const Axis& a : mesh.axes) {
    axis_size(a.name, a.size);
    if (a.name.empty() || a.name == "None" || a.name.find('.') != std::string::npos ||
        grain_in(a.name) != std::string::npos || a.name.ends_with(shares_word))
      throw error("'{}' cannot name an axis", a.name);
    if (!a.shares.empty() && (static_cast<int>(a.shares.size()) != a.size || std::ranges::min(a.shares) < 1 ||
                              std::ranges::max(a.shares) > Axis::most_share))
      throw error("axis '{}' of size {} has shares {}; each along it has one, from 1 to {}", a.name, a.size,
                  shares_text(a.shares), Axis::most_share);
    if (!names.insert(a.name).second) throw error("axis '{}' is twice in {}", a.name, to_text(mesh));
    ranks *= a.size;
    if (ranks > max_ranks) throw error("{} has more than {} ranks", to_text(mesh), max_ranks);
    shares *= a.shares.empty() ? a.size : std::accumulate(a.shares.begin(), a.shares.end(), std::int64_t{0});
    if (shares > max_shares)
      throw error("{}: its shares, multiplied, are more than {}; say smaller ones", to_text(mesh),
                  max_shares);
  }
  if (mesh.axis_count() > Axes::max_size)
    throw error("{} has {} axes; at most {} are possible", to_text(mesh), mesh.axis_count(), Axes::max_size);
}

namespace {

/// Calls `use` with each axis longer than 1 of the given meshes and what it spans in accumulated sizes, [inner, outer).
template <class F>
void for_each_span(std::span<const Mesh> meshes, F use) {
  for (const Mesh& mesh : meshes) {
    int inner = 1;
    for (int a = mesh.axis_count(); a-- > 0;) {
      const int outer = inner * mesh.size_of(a);
      if (outer != inner) use(mesh.axes[static_cast<std::size_t>(a)], inner, outer);
      inner = outer;
    }
  }
}

/// The axis that spans exactly [inner, outer): with the name and the shares of the first given one that does and has some. Nothing
/// where one with shares would be taken apart, or two have others.
std::optional<Axis> axis_of_part(std::span<const Mesh> meshes, int inner, int outer) {
  Axis out{"", outer / inner};
  bool is_torn = false;
  for_each_span(meshes, [&](const Axis& axis, int begin, int end) {
    if (begin != inner || end != outer) {
      is_torn = is_torn || (!axis.shares.empty() && begin < outer && inner < end);
      return;
    }
    if (out.name.empty()) out.name = axis.name;
    if (axis.shares.empty()) return;  // what is cut by it says nothing of shares
    is_torn = is_torn || (!out.shares.empty() && out.shares != axis.shares);
    out.shares = axis.shares;
  });
  return is_torn ? std::nullopt : std::optional(out);
}

}  // namespace

std::optional<Refinement> refine(std::span<const Mesh> meshes) {
  std::set<int> products{1};
  for (const Mesh& mesh : meshes) {
    require(mesh.size() == meshes.front().size(), "{} and {} differ in size", to_text(mesh),
            to_text(meshes.front()));
    int product = 1;
    for (int a = mesh.axis_count(); a-- > 0;) products.insert(product *= mesh.size_of(a));
  }
  const std::vector<int> cuts(products.begin(), products.end());
  for (std::size_t i = 1; i < cuts.size(); ++i)
    if (cuts[i] % cuts[i - 1]) return std::nullopt;

  Refinement out;
  std::set<std::string> taken;
  for (std::size_t i = cuts.size(); i-- > 1;) {  // outermost first
    std::optional<Axis> axis = axis_of_part(meshes, cuts[i - 1], cuts[i]);
    if (!axis) return std::nullopt;
    if (!taken.insert(axis->name).second) axis->name = "";
    out.mesh.axes.push_back(*std::move(axis));
  }
  for (Axis& axis : out.mesh.axes)
    for (int k = 0; axis.name.empty(); ++k)
      if (std::string name = fmt::format("x{}", k); taken.insert(name).second) axis.name = name;
  for (const Mesh& mesh : meshes) {
    std::vector<Axes> parts;
    int next = 0;  // next axis of the refined mesh
    for (const Axis& axis : mesh.axes) {
      Axes some;
      for (int product = 1; product < axis.size; ++next) {
        product *= out.mesh.size_of(next);
        some.push_back(next);
      }
      parts.push_back(some);
    }
    out.axes_of.push_back(std::move(parts));
  }
  return out;
}

}  // namespace shardwright

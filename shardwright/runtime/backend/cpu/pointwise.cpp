// A chain of point-wise calls as an interpreter over their block kernels: for each block of elements all calls
// in turn, so that what passes between them stays in the first-level cache. A block is long enough to hide the
// calls and short enough that all blocks of the chain fit.
//
// Every operand of a block kernel stands as that many elements. A tensor of the chain's shape is read and written
// where it lies; what is broadcast is expanded into a block first, once per run if every block would be the same.

#include <algorithm>
#include <numeric>
#include <vector>

#include "shardwright/base/index.h"
#include "shardwright/ops/strided.h"
#include "shardwright/runtime/backend/cpu/rows.h"
#include "shardwright/runtime/backend/cpu/scratch.h"

namespace shardwright::cpu {
namespace {

/// Where the elements of a value are while a block is computed.
struct Place {
  std::byte* base = nullptr;  // of element `origin`; none: in a block of its own
  std::int64_t origin = 0;
  std::size_t element_bytes = 0;
  int scratch = -1;  // which block
};

/// A tensor that is stretched to the chain's shape.
struct Expansion {
  int place = 0;
  const std::byte* from = nullptr;
  ops::Walk<2> walk;         // over the chain's shape and the tensor
  bool is_constant = false;  // every block is the same

  /// After how many elements it repeats, if only rows repeat; else 0.
  std::int64_t period() const {
    const auto around = walk.around_row();
    if (std::any_of(around.begin(), around.end(), [](const auto& pass) { return pass.strides[1] != 0; }))
      return 0;
    return walk.row().strides[1] == 0 ? 1 : walk.row().extent;
  }
};

/// Elements [start, start + count) of the stretched tensor.
template <class T>
void expand(const Expansion& e, std::int64_t start, std::int64_t count, std::byte* out) {
  const T* const from = reinterpret_cast<const T*>(e.from);
  T* to = reinterpret_cast<T*>(out);
  const auto [row, strides] = e.walk.row();  // along a row the tensor stands still or goes on
  while (count > 0) {
    std::int64_t outer = start / row, offset = 0;
    for (const auto& pass : e.walk.around_row()) {
      offset += outer % pass.extent * pass.strides[1];
      outer /= pass.extent;
    }
    const std::int64_t column = start % row, n = std::min(count, row - column);
    if (strides[1] == 0)
      std::fill_n(to, n, from[offset]);
    else
      std::copy_n(from + offset + column, n, to);
    to += n;
    start += n;
    count -= n;
  }
}

void expand(const Expansion& e, std::size_t element_bytes, std::int64_t start, std::int64_t count,
            std::byte* out) {
  switch (element_bytes) {
    case 1: return expand<std::uint8_t>(e, start, count, out);
    case 2: return expand<std::uint16_t>(e, start, count, out);
    case 4: return expand<std::uint32_t>(e, start, count, out);
    default: return expand<std::uint64_t>(e, start, count, out);
  }
}

/// One call, with room for the addresses of its blocks.
struct Instruction {
  BlockKernel kernel;
  std::vector<int> operands;  // places
  std::vector<int> results;   // places
  std::vector<std::byte*> operand_data;
  std::vector<std::byte*> result_data;
};

class Chain {
 public:
  Chain(std::span<const FusedCall> calls, Workspace& panels, Rows head)
      : head_(std::move(head)), panels_(&panels) {
    const KernelCall& first = calls.front().call;
    shape_ = first.results.front().shape;
    count_ = element_count(shape_);
    if (head_) {
      head_place_ = place_of_result(calls.front(), 0);
      read_.assign(first.operands.begin(), first.operands.end());
      calls = calls.subspan(1);
    }
    for (const FusedCall& c : calls) add(c);
    allocate();
  }

  void operator()() {
    for (const Expansion& e : expansions_)
      if (e.is_constant) fill(e, 0, std::min(block_, count_));
    if (!head_) return run(0, count_);
    const std::int64_t columns = head_.count == 0 ? 0 : count_ / head_.count;
    for (std::int64_t row = 0; row < head_.count; row += panel_rows_) {
      const std::int64_t rows = std::min(panel_rows_, head_.count - row), begin = row * columns;
      if (uses_panel_) {
        places_[at(head_place_)].base = panels_->data();
        places_[at(head_place_)].origin = begin;
      }
      head_.make(row, rows, address(head_place_, begin));
      run(begin, begin + rows * columns);
    }
  }

 private:
  /// The value's place, made when it is first met. Values without an id are all different.
  int place_of(ValueId id, const TensorView& view) {
    const auto known = std::find_if(known_.begin(), known_.end(),
                                    [&](const auto& k) { return id.is_valid() && k.first == id; });
    if (known != known_.end()) return known->second;
    const int place = static_cast<int>(places_.size());
    places_.push_back({.base = view.data, .element_bytes = size_of(view.dtype)});
    last_use_.push_back(-1);
    known_.emplace_back(id, place);
    return place;
  }
  int place_of_result(const FusedCall& c, std::size_t r) {
    return place_of(c.results.empty() ? ValueId{} : c.results[r], c.call.results[r]);
  }

  void add(const FusedCall& c) {
    Instruction in{.kernel = {}, .operands = {}, .results = {}, .operand_data = {}, .result_data = {}};
    std::vector<Type> operands, results;
    for (std::size_t i = 0; i < c.call.operands.size(); ++i) {
      const TensorView& view = c.call.operands[i];
      operands.push_back({view.dtype, view.shape});
      read_.push_back(view);
      const std::size_t before = places_.size();
      in.operands.push_back(place_of(c.operands.empty() ? ValueId{} : c.operands[i], view));
      const bool is_new = places_.size() > before;
      if (is_new && view.size() != count_) stretch(in.operands.back(), view);
      last_use_[at(in.operands.back())] = static_cast<int>(instructions_.size());
    }
    for (std::size_t r = 0; r < c.call.results.size(); ++r) {
      results.push_back({c.call.results[r].dtype, c.call.results[r].shape});
      in.results.push_back(place_of_result(c, r));
    }
    in.kernel = c.op.block({operands, results, c.call.attributes});
    in.operand_data.resize(in.operands.size());
    in.result_data.resize(in.results.size());
    instructions_.push_back(std::move(in));
  }

  void stretch(int place, const TensorView& view) {
    places_[at(place)].base = nullptr;
    expansions_.push_back({place, view.data, ops::broadcast_walk(view.shape, shape_)});
  }

  /// Gives blocks to the values that need one and decides how long they are.
  void allocate() {
    std::vector<std::size_t> widths;  // bytes of an element, by block
    for (const Expansion& e : expansions_) own_block(e.place, widths);
    std::vector<int> free;
    for (std::size_t i = 0; i < instructions_.size(); ++i) {
      for (int r : instructions_[i].results)
        if (places_[at(r)].base == nullptr && r != head_place_) take_block(r, widths, free);
      for (int o : instructions_[i].operands)
        if (last_use_[at(o)] == static_cast<int>(i) && is_passed_on(o)) {
          free.push_back(places_[at(o)].scratch);
          last_use_[at(o)] = -1;  // an operand may be read twice
        }
    }
    block_ = block_length(widths);
    std::size_t bytes = 0;
    constexpr std::size_t skew = 320;  // blocks a multiple of 4 KiB apart would wait for each other's stores
    std::vector<std::size_t> offsets;
    for (std::size_t w : widths) {
      offsets.push_back(bytes);
      bytes += (static_cast<std::size_t>(block_) * w + 63) / 64 * 64 + skew;
    }
    blocks_ = Scratch(bytes);
    for (std::size_t o : offsets) block_data_.push_back(blocks_.data() + o);
    allocate_panel();
    for (Expansion& e : expansions_) {
      const std::int64_t period = e.period();
      e.is_constant =
          period > 0 && (block_ % period == 0 || block_ >= count_) && starts_are_multiples(period);
    }
  }

  /// The head's rows: where they belong, or where the chain's result is going to be, or in a panel that is used
  /// again and again.
  void allocate_panel() {
    if (!head_) return;
    Place& place = places_[at(head_place_)];
    panel_rows_ = std::min(head_.panel, head_.count);
    if (place.base == nullptr) place.base = free_result();
    if (place.base != nullptr) return;
    const std::int64_t columns = head_.count == 0 ? 0 : count_ / head_.count;
    panels_->reserve(static_cast<std::size_t>(panel_rows_ * columns) * place.element_bytes);
    uses_panel_ = true;
  }

  /// Memory of a result that is written when the head's value has been read for the last time, and where nothing
  /// lies that the chain reads. None if there is no such result.
  std::byte* free_result() const {
    const Place& head = places_[at(head_place_)];
    for (std::size_t i = 0; i < instructions_.size(); ++i)
      for (int r : instructions_[i].results) {
        std::byte* const base = places_[at(r)].base;
        const bool is_late = static_cast<int>(i) >= last_use_[at(head_place_)];
        if (base != nullptr && is_late && places_[at(r)].element_bytes == head.element_bytes &&
            !is_read(base, count_ * static_cast<std::int64_t>(head.element_bytes)))
          return base;
      }
    return nullptr;
  }

  /// Something that the chain reads lies in the `bytes` bytes at `base`.
  bool is_read(const std::byte* base, std::int64_t bytes) const {
    return std::any_of(read_.begin(), read_.end(), [&](const TensorView& view) {
      const std::int64_t own = view.size() * static_cast<std::int64_t>(size_of(view.dtype));
      return view.data != nullptr && view.data < base + bytes && base < view.data + own;
    });
  }

  /// Passed from call to call in a block, and not expanded.
  bool is_passed_on(int place) const {
    return places_[at(place)].scratch >= 0 && std::none_of(expansions_.begin(), expansions_.end(),
                                                           [&](const auto& e) { return e.place == place; });
  }

  void own_block(int place, std::vector<std::size_t>& widths) {
    places_[at(place)].scratch = static_cast<int>(widths.size());
    widths.push_back(places_[at(place)].element_bytes);
  }

  void take_block(int place, std::vector<std::size_t>& widths, std::vector<int>& free) {
    const auto fits = std::find_if(free.begin(), free.end(),
                                   [&](int b) { return widths[at(b)] == places_[at(place)].element_bytes; });
    if (fits == free.end()) return own_block(place, widths);
    places_[at(place)].scratch = *fits;
    free.erase(fits);
  }

  std::int64_t block_length(const std::vector<std::size_t>& widths) const {
    if (instructions_.size() == 1 && expansions_.empty() && !head_) return std::max<std::int64_t>(count_, 1);
    constexpr std::size_t cache = 12 * 1024;  // of 32 to 48 KiB, through which operands stream, too
    std::size_t bytes = std::accumulate(widths.begin(), widths.end(), std::size_t{0});
    for (const Place& p : places_)
      if (p.scratch < 0) bytes += p.element_bytes;
    std::int64_t length = std::clamp<std::int64_t>(
        static_cast<std::int64_t>(cache / std::max<std::size_t>(bytes, 1)) / 64 * 64, 256, 2048);
    // Whole periods of what is stretched need to be expanded only once.
    for (const Expansion& e : expansions_)
      if (e.period() > 1 && e.period() <= length) length -= length % e.period();
    return std::min(length, std::max<std::int64_t>(count_, 1));
  }

  /// Blocks start at multiples of the block's length from 0 and from each panel's begin.
  bool starts_are_multiples(std::int64_t period) const {
    if (!head_ || head_.count == 0) return true;
    return panel_rows_ >= head_.count || panel_rows_ * (count_ / head_.count) % period == 0;
  }

  void fill(const Expansion& e, std::int64_t start, std::int64_t count) {
    const Place& p = places_[at(e.place)];
    expand(e, p.element_bytes, start, count, block_data_[at(p.scratch)]);
  }

  std::byte* address(int place, std::int64_t start) const {
    const Place& p = places_[at(place)];
    if (p.scratch >= 0) return block_data_[at(p.scratch)];
    return p.base + static_cast<std::size_t>(start - p.origin) * p.element_bytes;
  }

  void run(std::int64_t begin, std::int64_t end) {
    for (std::int64_t start = begin; start < end; start += block_) {
      const std::int64_t count = std::min(block_, end - start);
      for (const Expansion& e : expansions_)
        if (!e.is_constant) fill(e, start, count);
      for (Instruction& in : instructions_) {
        for (std::size_t i = 0; i < in.operands.size(); ++i)
          in.operand_data[i] = address(in.operands[i], start);
        for (std::size_t i = 0; i < in.results.size(); ++i) in.result_data[i] = address(in.results[i], start);
        in.kernel({in.operand_data, in.result_data, count});
      }
    }
  }

  Rows head_;
  int head_place_ = -1;
  std::int64_t panel_rows_ = 0;
  Shape shape_;
  std::int64_t count_ = 0;  // elements of the chain's shape
  std::int64_t block_ = 0;  // elements of a block
  std::vector<Place> places_;
  std::vector<std::pair<ValueId, int>> known_;
  std::vector<TensorView> read_;  // all operands, the head's too
  std::vector<int> last_use_;     // by place: the last instruction that reads it
  std::vector<Expansion> expansions_;
  std::vector<Instruction> instructions_;
  Scratch blocks_;
  std::vector<std::byte*> block_data_;
  Workspace* panels_;
  bool uses_panel_ = false;  // for the rows of the head
};

}  // namespace

PreparedKernel pointwise(std::span<const FusedCall> calls, Workspace& panels, Rows head) {
  return PreparedKernel(Chain(calls, panels, std::move(head)));
}

}  // namespace shardwright::cpu

#include "shardwright/passes/part_turns.h"

#include <algorithm>
#include <limits>

#include "shardwright/base/index.h"

namespace shardwright {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

class TurnTaking {
 public:
  TurnTaking(std::span<const PartItem> items, int parts)
      : items_(items),
        launches_(items.size()),
        to_next_start_(items.size() + 1, never),
        next_(at(parts), 0),
        arrives_(at(parts), std::vector<double>(items.size(), 0)) {
    for (std::size_t i = 0; i < items.size(); ++i)
      if (items[i].transfer_seconds > 0 && items[i].operand >= 0)
        launches_[at(items[i].operand)].push_back(i);
    for (std::size_t i = items.size(); i-- > 0;)
      to_next_start_[i] = items[i].seconds + (launches_[i].empty() ? to_next_start_[i + 1] : 0);
  }

  std::vector<Turn> run() {
    for (std::size_t part = 0; part < next_.size(); ++part)
      for (std::size_t i = 0; i < items_.size(); ++i)
        if (items_[i].transfer_seconds > 0 && items_[i].operand < 0) send(part, i);
    std::vector<Turn> out;
    while (out.size() < items_.size() * next_.size()) {
      const std::size_t part = next_part();
      out.push_back({static_cast<int>(next_[part]), static_cast<int>(part)});
      take(part);
    }
    return out;
  }

 private:
  bool may_go_on(std::size_t part) const {
    return next_[part] < items_.size() && (part == 0 || next_[part] < next_[part - 1]);
  }
  double ready(std::size_t part) const { return std::max(now_, arrives_[part][next_[part]]); }

  std::size_t next_part() const {
    std::size_t best = next_.size();
    for (std::size_t part = 0; part < next_.size(); ++part) {
      if (!may_go_on(part)) continue;
      if (best == next_.size() || ready(part) < ready(best) ||
          (ready(part) == ready(best) && to_next_start_[next_[part]] < to_next_start_[next_[best]]))
        best = part;
    }
    return best;
  }

  void take(std::size_t part) {
    const std::size_t item = next_[part];
    const PartItem& i = items_[item];
    now_ = ready(part) + i.seconds + (part == 0 ? i.first_seconds : 0) +
           (part + 1 == next_.size() ? i.last_seconds : 0);
    ++next_[part];
    for (std::size_t transfer : launches_[item]) send(part, transfer);
  }

  void send(std::size_t part, std::size_t item) {
    links_free_ = std::max(links_free_, now_) + items_[item].transfer_seconds;
    arrives_[part][item] = links_free_;
  }

  std::span<const PartItem> items_;
  std::vector<std::vector<std::size_t>> launches_;  // by item: those whose transfers it lets start
  std::vector<double> to_next_start_;               // by item: of computing, until a transfer starts
  std::vector<std::size_t> next_;                   // by part
  std::vector<std::vector<double>> arrives_;        // by part and item
  double now_ = 0, links_free_ = 0;
};

}  // namespace

std::vector<Turn> part_turns(std::span<const PartItem> items, int parts) {
  return TurnTaking(items, parts).run();
}

}  // namespace shardwright

#include "shardwright/exchange/python/task_lists.h"

#include <set>
#include <tuple>

#include "shardwright/base/index.h"
#include "shardwright/graph/op.h"

namespace shardwright::python {
namespace {

/// Lists, each of which is a part of one order, as one: what stands behind one another in any of them does so here.
class Merged {
 public:
  void add(const std::vector<Item>& list) {
    std::size_t before = none;
    for (const Item& item : list) {
      const std::size_t n = number_of(item);
      items_[n].is_last = items_[n].is_last || item.is_last;
      if (before != none && behind_[before].insert(n).second) ++waits_for_[n];
      before = n;
    }
  }

  bool has(const Item& item) const { return numbers_.contains(key_of(item)); }

  std::vector<Item> list() const {
    std::vector<int> left = waits_for_;
    std::set<std::size_t> ready;
    for (std::size_t n = 0; n < items_.size(); ++n)
      if (left[n] == 0) ready.insert(n);
    std::vector<Item> out;
    while (!ready.empty()) {
      const std::size_t n = ready.extract(ready.begin()).value();
      out.push_back(items_[n]);
      for (std::size_t next : behind_[n])
        if (--left[next] == 0) ready.insert(next);
    }
    require(out.size() == items_.size(), "ranks of a group do the same in different orders");
    return out;
  }

 private:
  using Key = std::tuple<Act, int, int, bool, int>;
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  static Key key_of(const Item& i) { return {i.act, i.stage, i.what, i.is_crossing, i.micro_batch}; }

  std::size_t number_of(const Item& item) {
    const auto [known, is_new] = numbers_.emplace(key_of(item), items_.size());
    if (is_new) {
      items_.push_back(item);
      behind_.emplace_back();
      waits_for_.push_back(0);
    }
    return known->second;
  }

  std::map<Key, std::size_t> numbers_;
  std::vector<Item> items_;  // in the order in which they were seen
  std::vector<std::set<std::size_t>> behind_;
  std::vector<int> waits_for_;
};

class Reader {
 public:
  Reader(const Pipeline& pipeline, const RankStep& step) : pipeline_(pipeline), step_(step) {}

  std::vector<Item> items(const std::vector<Instruction>& instructions) const {
    std::vector<Item> out;
    for (const Instruction& i : instructions) add(i, out);
    return out;
  }

 private:
  void add(const Instruction& i, std::vector<Item>& out) const {
    Item item{.act = i.act, .stage = i.stage, .what = i.what, .micro_batch = i.micro_batch};
    switch (i.act) {
      case Act::start:
      case Act::finish: return add_transfer(item, step_.transfer(i), out);
      case Act::keep: return add_kept(item, out);
      case Act::copy: item.act = Act::compute; break;
      case Act::run:
        item.stage = step_.section(i).stage;
        item.what = static_cast<int>(step_.section(i).phase);
        item.is_last = step_.section(i).only_last;
        break;
      default: break;
    }
    out.push_back(item);
  }

  const Node& node(int stage, int n) const { return pipeline_.stage(stage).graph.node({n}); }

  /// What is done by a rank alone is written as a line.
  void add_transfer(Item item, const PreparedTransfer& transfer, std::vector<Item>& out) const {
    item.is_crossing = transfer.crossing >= 0;
    item.what = item.is_crossing ? transfer.crossing : transfer.node.index;
    if (!item.is_crossing && !is_collective(transfer.kind())) {
      if (item.act == Act::start) return;
      item.act = Act::compute;
    }
    out.push_back(item);
  }

  /// Others of its group may have something to do.
  void add_kept(Item item, std::vector<Item>& out) const {
    const Node& n = node(item.stage, item.what);
    if (n.op->kind == OpKind::receive) {
      for (std::size_t c = 0; c < pipeline_.crossings.size(); ++c)
        if (pipeline_.crossings[c].to == item.stage && pipeline_.crossings[c].received == n.results.front())
          item.what = static_cast<int>(c);
      item.act = Act::finish;
      item.is_crossing = true;
    } else if (!is_collective(*n.op->step)) {
      item.act = Act::compute;
    } else {
      item.act = Act::start;
      out.push_back(item);
      item.act = Act::finish;
    }
    out.push_back(item);
  }

  const Pipeline& pipeline_;
  const RankStep& step_;
};

}  // namespace

TaskLists task_lists(const Pipeline& pipeline, const std::vector<RankStep>& steps) {
  std::vector<Merged> tasks(at(pipeline.group_count()));
  std::map<std::pair<int, Phase>, Merged> all, usual;
  for (const RankStep& step : steps) {
    const Reader reader(pipeline, step);
    tasks[at(pipeline.group_of(step.rank))].add(reader.items(step.instructions));
    for (const Section& section : step.sections) {
      const std::pair key(section.stage, section.phase);
      const std::vector<Item> items = reader.items(section.instructions);
      all[key].add(items);
      if (!section.only_last) usual[key].add(items);
    }
  }
  TaskLists out;
  for (const Merged& group : tasks) out.tasks.push_back(group.list());
  for (const auto& [key, section] : all) {
    std::vector<Item>& items = out.sections[key] = section.list();
    const auto others = usual.find(key);  // of micro-batches that are not the last
    for (Item& item : items) item.is_last = others != usual.end() && !others->second.has(item);
  }
  return out;
}

}  // namespace shardwright::python

#include "shardwright/runtime/checkpoint/load.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "shardwright/autodiff/accumulate.h"
#include "shardwright/autodiff/train_step.h"
#include "shardwright/base/error.h"
#include "shardwright/base/text.h"
#include "shardwright/runtime/checkpoint/shard.h"

namespace shardwright {
namespace {

/// States that come and go with the precision or the schedule, and may begin anew.
bool may_be_missing(std::string_view name) {
  return name == loss_scale_state || name == good_steps_state || name == steps_state;
}

/// What a value is called where the source lacks it. States of a network that is only asked are the network's own.
constexpr std::string_view of_network = "state", weight = "parameter", of_optimizer = "";
std::string_view kind_of(const KeptValues& kept, const Kept& value, Restored what) {
  if (!kept.is_state(value)) return weight;
  return what == Restored::network ? of_network : of_optimizer;
}

using Items = std::map<std::string_view, const TensorSource::Item*>;

std::string model_text(const TensorSource& source) {
  return source.run.model.empty() ? "it is of another model"
                                  : fmt::format("it is of another model ({})", source.run.model);
}

/// Throws: Error if the source has no such value, or another one.
void check_value(const TensorSource& source, const Items& items, const Kept& value, const Type& own,
                 std::string_view kind, std::vector<std::string>& notices) {
  const auto it = items.find(value.name);
  if (it == items.end()) {
    if (kind != of_optimizer)
      throw error("{}: has no {} '{}'; {}", source.path, kind, value.name, model_text(source));
    if (!may_be_missing(value.name))
      throw error(
          "{}: has no state '{}': it was trained by another optimizer; --init takes its weights alone",
          source.path, value.name);
    if (value.name != steps_state)
      notices.push_back(
          fmt::format("{}: has no '{}', which starts at its initial value", source.path, value.name));
    return;
  }
  const Type& saved = it->second->type;
  if (saved.shape != own.shape || is_floating(saved.dtype) != is_floating(own.dtype))
    throw error("{}: '{}' is {} but {} here; {}", source.path, value.name, to_text(saved), to_text(own),
                model_text(source));
}

/// Parameters that a source may be without: where some are frozen it may hold those alone, as what they were trained in before,
/// or none of them, as checkpoints do.
struct MayLack {
  bool frozen = false, trained = false;

  bool operator()(const KeptValues& kept, const Kept& value) const {
    return !kept.is_state(value) && (kept.is_frozen(value) ? frozen : trained);
  }
};
MayLack lacks_of(const KeptValues& kept, const Items& items) {
  bool has_frozen = false, has_trained = false, is_any_frozen = false;
  for (const Kept& value : kept.all()) {
    if (kept.is_state(value)) continue;
    is_any_frozen = is_any_frozen || kept.is_frozen(value);
    (kept.is_frozen(value) ? has_frozen : has_trained) |= items.contains(value.name);
  }
  if (!is_any_frozen || has_frozen == has_trained) return {};
  return {.frozen = !has_frozen, .trained = !has_trained};
}

/// Throws: Error if the two do not belong together.
std::vector<std::string> check_match(const Session& session, const TensorSource& source, const Items& items,
                                     Restored what) {
  std::vector<std::string> notices;
  std::set<std::string_view> known;
  const KeptValues& kept = session.kept();
  const MayLack may_lack = lacks_of(kept, items);
  for (const Kept& value : kept.all()) {
    known.insert(value.name);
    if (&kept.parameter_of(value) != &value || follows_from_step(value.name) || kept.is_cache(value) ||
        may_lack(kept, value))
      continue;
    if (!kept.is_state(value) || what != Restored::parameters)
      check_value(source, items, value, kept.type_of(value), kind_of(kept, value, what), notices);
  }
  for (const TensorSource::Item& saved : source.items) {
    if (known.contains(saved.name) || (saved.is_state && what != Restored::all)) continue;
    if (!saved.is_state)
      throw error("{}: its parameter '{}' does not exist here; {}", source.path, saved.name,
                  model_text(source));
    if (!may_be_missing(saved.name))
      throw error(
          "{}: its state '{}' does not exist here: it was trained by another optimizer; --init takes "
          "its "
          "weights alone",
          source.path, saved.name);
    if (saved.name != steps_state)
      notices.push_back(fmt::format("{}: its '{}' is not used here", source.path, saved.name));
  }
  return notices;
}

}  // namespace

std::vector<std::string> load(Session& session, const TensorSource& source, Restored what) {
  Items items;
  for (const TensorSource::Item& item : source.items) items[item.name] = &item;
  std::vector<std::string> notices = check_match(session, source, items, what);
  const KeptValues& kept = session.kept();
  std::set<std::string, std::less<>> wanted;
  for (const Kept& value : kept.all())
    if ((what != Restored::parameters || !kept.is_state(value)) && !kept.is_cache(value))
      wanted.insert(value.name);
  const auto step = static_cast<double>(source.run.step);
  const auto fill = [](const Type& type, double number, std::span<std::byte> to) {
    Tensor one({DType::f64, type.shape});
    std::ranges::fill(one.as<double>(), number);
    std::ranges::copy(convert(one, type.dtype).bytes(), to.begin());
  };
  const auto read = [&](const std::string& name, const Box& where, std::span<std::byte> to) {
    if (!wanted.contains(name) || is_rate(name)) return false;
    const Type own{kept.type_of(kept.named(name)).dtype, where.extent};
    if (name == micro_batch_count) return fill(own, step * session.pipeline().batch_parts(), to), true;
    const auto it = items.find(name);
    if (it == items.end()) return name == steps_state && (fill(own, step, to), true);
    return source.read_as(own.dtype, *it->second, where, to), true;
  };
  // A rank that throws ends the session, and damage is no reason for that: an earlier checkpoint may be whole.
  std::mutex mutex;
  std::optional<Error> failure;
  session.copy_in([&](const std::string& name, const Box& where, std::span<std::byte> to) {
    try {
      return read(name, where, to);
    } catch (const Error& e) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = e;
      return false;
    }
  });
  if (failure) throw Error(*failure);
  return notices;
}

}  // namespace shardwright

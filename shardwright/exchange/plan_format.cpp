#include "shardwright/exchange/plan_format.h"

#include <algorithm>
#include <utility>

#include "shardwright/base/text.h"
#include "shardwright/base/unknown.h"

namespace shardwright {
namespace {

std::vector<std::string> names_of(bool (*is_one)(const PlanFormat&)) {
  std::vector<std::string> out;
  for (const PlanFormat& format : all_formats())
    if (is_one(format)) out.push_back(format.name);
  std::ranges::sort(out);
  return out;
}

const PlanFormat& named(std::string_view name, bool (*is_one)(const PlanFormat&), std::string_view kind) {
  for (const PlanFormat& format : all_formats())
    if (format.name == name && is_one(format)) return format;
  throw unknown(kind, name, names_of(is_one));
}

bool is_written(const PlanFormat& format) { return format.write != nullptr; }
bool is_read(const PlanFormat& format) { return format.read != nullptr; }

}  // namespace

void Recipe::say(std::string flag, std::string text, std::string key) {
  said.push_back({std::move(flag), std::move(text), std::move(key)});
}

std::vector<std::string> written_formats() { return names_of(is_written); }
std::vector<std::string> read_formats() { return names_of(is_read); }

const PlanFormat& written_format(std::string_view name) { return named(name, is_written, "format to write"); }
const PlanFormat& read_format(std::string_view name) { return named(name, is_read, "format to read"); }

const PlanFormat& format_of(const RecipeFile& file) {
  for (const PlanFormat& format : all_formats())
    if (format.is_one && format.is_one(file)) return format;
  throw error("{}: looks like none of {}; --from NAME says what it is", file.path,
              join(read_formats(), ", "));
}

bool names_file(const Error& e, std::string_view path) {
  std::string_view what = e.what();
  constexpr std::string_view kind = "config ";  // as one that --config reads is called
  if (what.starts_with(kind)) what.remove_prefix(kind.size());
  return what.starts_with(path);
}

Recipe read_recipe(const PlanFormat& format, const RecipeFile& file) try {
  return format.read(file);
} catch (const Error& e) {
  if (names_file(e, file.path)) throw;
  throw with_context(e, file.path);
}

}  // namespace shardwright

// Plans in the words of what others train with: one file in exchange/formats/ is one format, written, read or both.
//
// Writing:  a plan of names -> WrittenPlan (written_plan.h: how every tensor lies, which degrees that is) -> Exported.
// Reading:  a file -> Recipe: settings by our flags, each with the key of the file that says it -> the way of all flags.
// Nothing is dropped in silence: what a format has no word for stands in `not_carried`, what a file says and nobody here
// does in `not_heeded`.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/plan/plan.h"

namespace shardwright {

struct WrittenPlan;

struct Exported {
  std::string text;
  std::vector<std::string> not_carried = {};  // a line each
};

/// A file that is read.
struct RecipeFile {
  std::string path;  // told in errors
  std::string text;  // of a protobuf its bytes
  int devices = 1;   // of the cluster that it is for
};

/// What a file of somebody else asks of a plan.
struct Recipe {
  struct Said {
    std::string flag;
    std::string text;
    std::string key;  // of the file, that says it
  };
  /// A size of the model, by the key that our models have for it.
  struct Size {
    std::string name;  // `layers`
    std::int64_t value = 0;
    std::string key;
  };
  std::vector<Said> said;
  std::string family;                        // of models that Size is of: `llama`; empty: nobody says
  std::vector<Size> sizes;                   // of it, or of the model that is named
  std::optional<Plan> plan;                  // the file is a whole plan, and all else is empty
  std::vector<std::string> not_heeded = {};  // a line each

  void say(std::string flag, std::string text, std::string key);
};

struct PlanFormat {
  std::string name;
  std::string doc;                                  // a line
  Exported (*write)(const WrittenPlan&) = nullptr;  // null: it is only read
  Recipe (*read)(const RecipeFile&) = nullptr;      // null: it is only written
  /// Whether a file looks like this.
  bool (*is_one)(const RecipeFile&) = nullptr;
};

/// Every format there is; written by CMake from the files in exchange/formats/.
std::span<const PlanFormat> all_formats();

/// `megatron, torchtitan, ...`: those that are written, or read.
std::vector<std::string> written_formats();
std::vector<std::string> read_formats();

/// Throws: Error that lists those that there are.
const PlanFormat& written_format(std::string_view name);
const PlanFormat& read_format(std::string_view name);
/// The one that the file looks like. Throws: Error that lists them if it is none.
const PlanFormat& format_of(const RecipeFile& file);

/// What the file says in that format. Throws: Error that begins with its path.
Recipe read_recipe(const PlanFormat& format, const RecipeFile& file);

/// The message begins with the file, so that it needs no context.
bool names_file(const Error& e, std::string_view path);

}  // namespace shardwright

// Changes ONNX models at random and loads them: every one must load or end in one Error, quickly and in bounded memory.
//
//   onnx_fuzz [--seconds N] [--seed S] [--keep FOLDER]
//   onnx_fuzz FILE.onnx        loads one file, as the fuzzer does
//
// Models are changed as messages (fields set to extreme or to each other's values, elements doubled, moved, taken out)
// and as bytes (cut off, flipped, repeated). Changed models that still load are changed further. What a loaded model
// says is used: it is verified, differentiated, and its initial values are read. A fault is an exception that is no
// Error, a report of a sanitizer, more than 10 seconds of the processor or more memory than is allowed; the file that made it is kept.

#include <fmt/format.h>
#include <google/protobuf/message.h>
#include <onnx/onnx_pb.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/base/error.h"
#include "shardwright/base/text.h"
#include "shardwright/frontend/model.h"
#include "shardwright/graph/verify.h"
#include "tests/support/onnx_text.h"

// Read by the address sanitizer when it starts: memory is bounded, and a file that asks for more is a fault.
extern "C" const char* __asan_default_options() {  // NOLINT(bugprone-reserved-identifier): its name
  return "hard_rss_limit_mb=3000:max_allocation_size_mb=1500:detect_leaks=0";
}

namespace shardwright {
namespace {

namespace fs = std::filesystem;
namespace pb = google::protobuf;

constexpr int slowest_seconds = 10;

using Random = std::mt19937_64;

std::size_t below(Random& random, std::size_t n) { return n == 0 ? 0 : random() % n; }

std::string bytes_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// ---- changes of messages ----

/// A field of a message somewhere in the model.
struct Place {
  pb::Message* message;
  const pb::FieldDescriptor* field;
};

/// All fields that are set, depth first; of long lists only some messages are looked into.
void find_places(pb::Message& message, std::vector<Place>& places) {
  const pb::Reflection& reflection = *message.GetReflection();
  std::vector<const pb::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const pb::FieldDescriptor* field : fields) {
    places.push_back({&message, field});
    if (field->cpp_type() != pb::FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      find_places(*reflection.MutableMessage(&message, field), places);
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field); ++i)
      find_places(*reflection.MutableRepeatedMessage(&message, field, i), places);
  }
}

std::int64_t interesting(Random& random) {
  static constexpr std::int64_t numbers[] = {0,
                                             1,
                                             2,
                                             3,
                                             4,
                                             5,
                                             7,
                                             8,
                                             9,
                                             10,
                                             13,
                                             16,
                                             17,
                                             64,
                                             255,
                                             1024,
                                             4097,
                                             65536,
                                             1 << 20,
                                             INT32_MAX,
                                             INT32_MIN,
                                             std::int64_t{1} << 31,
                                             std::int64_t{1} << 32,
                                             std::int64_t{1} << 40,
                                             std::int64_t{1} << 62,
                                             INT64_MAX,
                                             INT64_MIN,
                                             -1,
                                             -2,
                                             -3,
                                             -7,
                                             -8,
                                             -100,
                                             INT64_MAX - 1,
                                             INT64_MIN + 1};
  return numbers[below(random, std::size(numbers))];
}

/// A string of the model, so that names meet others of their kind; or one of none.
std::string some_string(Random& random, const std::vector<Place>& places) {
  static const std::string odd[] = {
      "",      "x",      "..",         "/dev/zero", "weights.bin",        std::string(600, 'n'), "a\nb",
      "Split", "Gather", "SAME_UPPER", "VALID",     std::string("\0", 1), "9223372036854775807", "-1"};
  for (int tries = 0; tries < 8; ++tries) {
    const Place& p = places[below(random, places.size())];
    if (p.field->type() != pb::FieldDescriptor::TYPE_STRING) continue;
    const pb::Reflection& r = *p.message->GetReflection();
    if (!p.field->is_repeated()) return r.GetString(*p.message, p.field);
    const int size = r.FieldSize(*p.message, p.field);
    if (size > 0)
      return r.GetRepeatedString(*p.message, p.field,
                                 static_cast<int>(below(random, static_cast<std::size_t>(size))));
  }
  return odd[below(random, std::size(odd))];
}

void set_value(Random& random, const Place& p, const std::vector<Place>& places) {
  const pb::Reflection& r = *p.message->GetReflection();
  pb::Message* const m = p.message;
  const int size = p.field->is_repeated() ? r.FieldSize(*m, p.field) : 0;
  const int at = static_cast<int>(below(random, static_cast<std::size_t>(size)));
  const auto set = [&](auto single, auto repeated) { p.field->is_repeated() ? repeated() : single(); };
  if (p.field->is_repeated() && size == 0) return;
  switch (p.field->cpp_type()) {
    case pb::FieldDescriptor::CPPTYPE_INT64: {
      const std::int64_t v = interesting(random);
      return set([&] { r.SetInt64(m, p.field, v); }, [&] { r.SetRepeatedInt64(m, p.field, at, v); });
    }
    case pb::FieldDescriptor::CPPTYPE_INT32: {
      const auto v = static_cast<std::int32_t>(
          random() % 2 ? random() % 18 : static_cast<std::uint64_t>(interesting(random)));
      return set([&] { r.SetInt32(m, p.field, v); }, [&] { r.SetRepeatedInt32(m, p.field, at, v); });
    }
    case pb::FieldDescriptor::CPPTYPE_FLOAT: {
      static constexpr float numbers[] = {0, 1, -1, 0.5F, 1e-30F, 1e30F, -1e30F, HUGE_VALF, NAN};
      const float v = numbers[below(random, std::size(numbers))];
      return set([&] { r.SetFloat(m, p.field, v); }, [&] { r.SetRepeatedFloat(m, p.field, at, v); });
    }
    case pb::FieldDescriptor::CPPTYPE_STRING: {
      std::string v = p.field->type() == pb::FieldDescriptor::TYPE_BYTES
                          ? std::string(below(random, 80), '\x7f')
                          : some_string(random, places);
      return set([&] { r.SetString(m, p.field, v); }, [&] { r.SetRepeatedString(m, p.field, at, v); });
    }
    case pb::FieldDescriptor::CPPTYPE_ENUM: {
      const pb::EnumDescriptor& e = *p.field->enum_type();
      const auto* v = e.value(static_cast<int>(below(random, static_cast<std::size_t>(e.value_count()))));
      return set([&] { r.SetEnum(m, p.field, v); }, [&] { r.SetRepeatedEnum(m, p.field, at, v); });
    }
    default: return;
  }
}

/// Takes out, doubles or moves elements of a list, or clears a field.
void change_list(Random& random, const Place& p) {
  const pb::Reflection& r = *p.message->GetReflection();
  if (!p.field->is_repeated()) return r.ClearField(p.message, p.field);
  const int size = r.FieldSize(*p.message, p.field);
  if (size == 0) return;
  const int a = static_cast<int>(below(random, static_cast<std::size_t>(size)));
  switch (random() % 4) {
    case 0: r.SwapElements(p.message, p.field, a, size - 1); return r.RemoveLast(p.message, p.field);
    case 1:
      return r.SwapElements(p.message, p.field, a,
                            static_cast<int>(below(random, static_cast<std::size_t>(size))));
    case 2:
      if (p.field->cpp_type() == pb::FieldDescriptor::CPPTYPE_INT64)
        return r.AddInt64(p.message, p.field, interesting(random));
      if (p.field->cpp_type() == pb::FieldDescriptor::CPPTYPE_STRING)
        return r.AddString(p.message, p.field, r.GetRepeatedString(*p.message, p.field, a));
      if (p.field->cpp_type() == pb::FieldDescriptor::CPPTYPE_MESSAGE) {
        const std::string copy = r.GetRepeatedMessage(*p.message, p.field, a).SerializeAsString();
        r.AddMessage(p.message, p.field)->ParseFromString(copy);
      }
      return;
    default: return r.ClearField(p.message, p.field);
  }
}

void change_message(Random& random, onnx::ModelProto& model) {
  for (std::size_t changes = 1 + below(random, 4); changes > 0; --changes) {
    std::vector<Place> places;
    find_places(model, places);
    if (places.empty()) return;
    const Place& p = places[below(random, places.size())];
    random() % 4 == 0 ? change_list(random, p) : set_value(random, p, places);
  }
}

// ---- changes of bytes ----

void change_bytes(Random& random, std::string& bytes) {
  for (std::size_t changes = 1 + below(random, 3); changes > 0 && !bytes.empty(); --changes) {
    const std::size_t at = below(random, bytes.size()),
                      n = 1 + below(random, std::min<std::size_t>(bytes.size() - at, 64));
    switch (random() % 5) {
      case 0: bytes[at] = static_cast<char>(random()); break;
      case 1: bytes[at] = static_cast<char>(bytes[at] ^ (1 << (random() % 8))); break;
      case 2: bytes.resize(at); break;
      case 3: bytes.erase(at, n); break;
      default: bytes.insert(at, bytes.substr(below(random, bytes.size()), n)); break;
    }
  }
}

std::string changed(Random& random, const std::string& bytes) {
  onnx::ModelProto model;
  std::string out = bytes;
  if (random() % 5 != 0 && model.ParseFromString(bytes)) {
    change_message(random, model);
    out = model.SerializeAsString();
  }
  if (random() % 4 == 0) change_bytes(random, out);
  return out;
}

// ---- loading ----

/// Whether the file is a model that can be trained. What it says in its messages is an Error; everything else a fault.
bool loads(const std::string& path, std::uint64_t choice) try {
  static const char* const losses[] = {"mean_squared_error", "cross_entropy", ""};
  ModelOptions options{.loss = losses[choice % std::size(losses)]};
  if (choice % 5 != 0) options.global_batch = 2;
  if (choice % 7 == 0) options.precision = DType::f64;
  Model model = build_model(path, options);
  verify(model.graph);
  for (const auto& [name, value] : model.initial)
    require(value().type() == model.graph.value(model.graph.find(name)).type, "{} starts as another type",
            name);
  add_train_step(model.graph, model.loss, {});
  verify(model.graph);
  return true;
} catch (const Error& e) {
  require(std::string_view(e.what()).size() < 2000 &&
              std::string_view(e.what()).find('\n') == std::string_view::npos,
          "a message that is no short line: {}", e.what());
  return false;
}

/// The fault that loading ends in; empty if there is none.
std::string fault_of(const std::string& path, std::uint64_t choice, bool& has_loaded) {
  const std::clock_t start = std::clock();  // of the processor: another program's turn is none of ours
  alarm(6 * slowest_seconds);               // ends the process; the file is there
  try {
    has_loaded = loads(path, choice);
  } catch (const std::exception& e) {
    return e.what();
  }
  alarm(0);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  return seconds > slowest_seconds ? fmt::format("took {:.1f} seconds", seconds) : "";
}

std::vector<std::string> seeds() {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator("tests/onnx/seeds"))
    if (entry.path().extension() == ".txt") out.push_back(onnx_of_text(bytes_of(entry.path())));
  if (out.empty()) throw error("no models in tests/onnx/seeds: run from the root of the repository");
  std::ranges::sort(out);
  return out;
}

struct Options {
  double seconds = 60;
  std::uint64_t seed = std::random_device{}();
  fs::path keep = fs::temp_directory_path() / fmt::format("onnx_fuzz.{}", ::getpid());
  std::string file;
};

int fuzz(const Options& options) {
  constexpr std::size_t most_models = 400;
  std::vector<std::string> models = seeds();
  const std::size_t seed_count = models.size();
  fs::create_directories(options.keep);
  std::ofstream(options.keep / "weights.bin", std::ios::binary) << std::string(4096, '\0');
  const std::string path = options.keep / "model.onnx";
  fmt::print("onnx_fuzz: seed {}, {} models; the file at work is {}\n", options.seed, seed_count, path);
  std::fflush(stdout);

  Random random(options.seed);
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  std::int64_t count = 0, loaded = 0;
  for (; seconds() < options.seconds; ++count) {
    const std::string bytes = count < static_cast<std::int64_t>(seed_count)
                                  ? models[static_cast<std::size_t>(count)]
                                  : changed(random, models[below(random, models.size())]);
    std::ofstream(path, std::ios::binary) << bytes;
    bool has_loaded = false;
    const std::string fault = fault_of(path, random(), has_loaded);
    if (!fault.empty()) {
      fmt::print(stderr, "onnx_fuzz: fault after {} models: {}\n  kept as {}\n", count, fault, path);
      return 1;
    }
    if (!has_loaded) continue;
    ++loaded;
    if (bytes.size() < 65536 && models.size() < most_models)
      models.push_back(bytes);
    else if (bytes.size() < 65536)
      models[seed_count + below(random, most_models - seed_count)] = bytes;
  }
  struct rusage usage {};
  getrusage(RUSAGE_SELF, &usage);
  fmt::print("{} models, {} of them loaded, {:.0f} a second, {} MB at most\n", count, loaded,
             static_cast<double>(count) / seconds(), usage.ru_maxrss / 1024);
  for (const fs::path& made : {fs::path(path), options.keep / "weights.bin"}) fs::remove(made);
  if (fs::is_empty(options.keep)) fs::remove(options.keep);  // it may be a folder of the user's
  return 0;
}

Options options_of(const std::vector<std::string>& words) {
  Options out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto value = [&] {
      if (i + 1 == words.size()) throw error("{} needs a value", words[i]);
      return words[++i];
    };
    if (words[i] == "--seconds")
      out.seconds = to_number(value()).value_or(60);
    else if (words[i] == "--seed")
      out.seed = static_cast<std::uint64_t>(to_integer(value()).value_or(1));
    else if (words[i] == "--keep")
      out.keep = value();
    else
      out.file = words[i];
  }
  return out;
}

int run(const std::vector<std::string>& words) {
  const Options options = options_of(words);
  if (options.file.empty()) return fuzz(options);
  for (std::uint64_t choice = 0; choice < 105; ++choice) {  // every combination of what loads() chooses
    bool has_loaded = false;
    const std::string fault = fault_of(options.file, choice, has_loaded);
    if (!fault.empty()) {
      fmt::print(stderr, "onnx_fuzz: {}: {}\n", options.file, fault);
      return 1;
    }
  }
  return 0;
}

}  // namespace
}  // namespace shardwright

int main(int argc, char** argv) {
  try {
    return shardwright::run({argv + 1, argv + argc});
  } catch (const std::exception& e) {
    fmt::print(stderr, "onnx_fuzz: {}\n", e.what());
    return 2;
  }
}

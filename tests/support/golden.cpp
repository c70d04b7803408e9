#include "tests/support/golden.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "shardwright/base/text.h"
#include "shardwright/cli/verb.h"
#include "shardwright/runtime/safetensors.h"
#include "tests/support/onnx_text.h"
#include "tests/support/verified_command.h"

namespace shardwright {
namespace {

constexpr std::string_view rule = "----";

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  bool is_quoted = false, is_open = false;
  for (char c : line) {
    if (c == '\'') {
      is_quoted = !is_quoted;
      if (!std::exchange(is_open, true)) words.emplace_back();
    } else if (c == ' ' && !is_quoted) {
      is_open = false;
    } else {
      if (!std::exchange(is_open, true)) words.emplace_back();
      words.back() += c;
    }
  }
  if (is_quoted) throw error("a quote is not closed in: {}", line);
  return words;
}

std::string bytes_of(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') continue;
    if (text[i] == '\\' && text.substr(i + 1, 1) == "x") {
      out += static_cast<char>(std::stoi(std::string(text.substr(i + 2, 2)), nullptr, 16));
      i += 3;
    } else {
      if (text[i] == '\\') ++i;
      out += text[i];
    }
  }
  return out;
}

void write_tensors(const std::string& name, std::string_view text) {
  std::map<std::string, Tensor> tensors;
  for (std::string_view line : split(text, '\n')) {
    if (trim(line).empty()) continue;
    Scanner in(line, "tensor");
    const std::string tensor = in.name("a name");
    tensors[tensor] = Tensor(parse_type(in));
  }
  write_safetensors(name, tensors);
}

void write(const GoldenFile& file) {
  if (file.kind == "tensors") return write_tensors(file.name, file.text);
  const std::string bytes = file.kind == "bytes"  ? bytes_of(file.text)
                            : file.kind == "onnx" ? onnx_of_text(file.text)
                                                  : file.text;
  std::ofstream(file.name, std::ios::binary) << bytes;
}

std::string without_times(const std::string& text) {
  static const std::regex json(R"re(("(search_seconds|median_step_seconds)": ?)[0-9.e+-]+)re");
  static const std::regex report(R"([0-9.e+-]+ ms a step)");
  return std::regex_replace(std::regex_replace(text, json, "$1_"), report, "_ ms a step");
}

std::string lines_with(const std::string& text, const std::vector<std::string>& words) {
  std::string out;
  for (std::string_view line : split(text, '\n'))
    if (std::ranges::any_of(words, [&](const std::string& w) { return line.find(w) != line.npos; }))
      out += std::string(line) + "\n";
  return out;
}

std::string run_one(const std::string& command, const std::string& input) {
  std::vector<std::string> words = words_of(command), kept;
  const auto pipe = std::ranges::find(words, "|");
  if (pipe != words.end()) {
    kept.assign(pipe + 1, words.end());
    words.erase(pipe, words.end());
    if (kept.size() < 2 || kept[0] != "grep") throw error("only `| grep WORD...` can stand behind a command");
    kept.erase(kept.begin());
  }
  words.erase(words.begin());
  std::istringstream in(input);
  std::ostringstream out, err;
  Terminal terminal{in, out, err};
  const int status = testing::run_verified(words, terminal);
  std::string printed = kept.empty() ? out.str() : lines_with(out.str(), kept);
  // Errors repeat the command line, and this is ours.
  const std::string told = std::regex_replace(err.str(), std::regex(" --verify-passes"), "");
  for (std::string_view line : split(told, '\n')) {
    if (line.empty()) continue;
    const bool is_error = line.starts_with("shardwright: ");
    printed += fmt::format("{}: {}\n", is_error ? "error" : "stderr", is_error ? line.substr(13) : line);
  }
  if (status != 0) printed += fmt::format("exit {}\n", status);
  return without_times(printed);
}

/// Stays in a folder as long as it lives.
class WorkingFolder {
 public:
  explicit WorkingFolder(const std::string& folder) : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(folder);
  }
  ~WorkingFolder() { std::filesystem::current_path(before_); }
  WorkingFolder(const WorkingFolder&) = delete;
  WorkingFolder& operator=(const WorkingFolder&) = delete;

 private:
  std::filesystem::path before_;
};

}  // namespace

Golden parse_golden(std::string_view text) {
  Golden out;
  if (!text.starts_with("# ")) throw error("the first line should say in a comment what is shown");
  std::vector<GoldenFile> sections{{"commands", "", ""}};
  std::size_t expectation = std::string_view::npos, at = 0;
  for (std::string_view line : split(text, '\n')) {
    const std::size_t next = std::min(at + line.size() + 1, text.size());
    if (line.starts_with(rule)) {
      const auto words = words_of(line);
      if (words.size() != 1 && words.size() != 3) throw error("'{}' should be ---- or ---- KIND NAME", line);
      sections.push_back({words.size() == 3 ? words[1] : "", words.size() == 3 ? words[2] : "", ""});
      expectation = next;
    } else if (sections.back().kind != "commands") {
      sections.back().text += text.substr(at, next - at);
    } else if (line.starts_with("shardwright ") || line == "shardwright") {
      out.commands.emplace_back(line);
    } else if (!line.empty() && line[0] != '#') {
      throw error("'{}' is neither a comment nor a command of shardwright", line);
    }
    at = next;
  }
  if (out.commands.empty()) throw error("there is no command");
  if (!sections.back().kind.empty() || sections.size() < 2) throw error("the last section should be ----");
  out.head = text.substr(0, expectation);
  out.want = sections.back().text;
  sections.pop_back();
  for (std::size_t i = 1; i < sections.size(); ++i) {
    if (std::ranges::count(std::array{"file", "bytes", "tensors", "onnx"}, sections[i].kind) > 0)
      out.files.push_back(sections[i]);
    else if (sections[i].kind.empty() && i + 1 == sections.size())
      out.input = sections[i].text;
    else
      throw error("section '{}' is unknown; there are file, bytes, tensors, onnx", sections[i].kind);
  }
  return out;
}

std::string run_golden(const Golden& golden, const std::string& folder, const std::string& root) {
  const WorkingFolder here(folder);
  std::filesystem::create_directory_symlink(root + "/examples", "examples");
  for (const GoldenFile& file : golden.files) write(file);
  std::string out;
  for (const std::string& command : golden.commands) out += run_one(command, golden.input);
  return out;
}

std::string diff(std::string_view want, std::string_view got) {
  const auto a = split(want, '\n'), b = split(got, '\n');
  // longest[i][j]: of the common subsequences of a[i...] and b[j...]
  std::vector<std::vector<int>> longest(a.size() + 1, std::vector<int>(b.size() + 1));
  for (std::size_t i = a.size(); i-- > 0;)
    for (std::size_t j = b.size(); j-- > 0;)
      longest[i][j] =
          a[i] == b[j] ? longest[i + 1][j + 1] + 1 : std::max(longest[i + 1][j], longest[i][j + 1]);
  std::string out;
  for (std::size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    if (i < a.size() && j < b.size() && a[i] == b[j]) {
      out += fmt::format("  {}\n", a[i++]);
      ++j;
    } else if (j == b.size() || (i < a.size() && longest[i + 1][j] >= longest[i][j + 1])) {
      out += fmt::format("- {}\n", a[i++]);
    } else {
      out += fmt::format("+ {}\n", b[j++]);
    }
  }
  return out;
}

}  // namespace shardwright

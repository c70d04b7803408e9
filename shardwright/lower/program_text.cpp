#include "shardwright/lower/program_text.h"

#include <algorithm>
#include <unordered_map>

#include "shardwright/base/index.h"
#include "shardwright/base/text.h"
#include "shardwright/graph/text.h"
#include "shardwright/lower/lines_behind.h"

namespace shardwright {
namespace {

constexpr std::int64_t most_bytes = std::int64_t{1} << 61;

std::string count_text(int count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : what.ends_with("ch") ? "es" : "s");
}

/// `3 slots`. Throws: Error unless it is from 1 to `most`.
int parse_count(Scanner& in, std::string_view what, int most) {
  const std::int64_t count = in.integer(what);
  if (count < 1 || count > most) throw error("{} {}s: should be from 1 to {}", count, what, most);
  in.expect(count_text(static_cast<int>(count), what).substr(std::to_string(count).size() + 1));
  return static_cast<int>(count);
}

/// `4 micro-batches`, `4 micro-batches in 2 parts`.
std::string micro_batches_text(int count, int interleave) {
  std::string out = count_text(count, "micro-batch");
  return interleave == 1 ? out : fmt::format("{} in {}", out, count_text(interleave, "part"));
}

int parse_interleave(Scanner& in) {
  return in.accept("in") ? parse_count(in, "part", most_micro_batches) : 1;
}

/// Reads line by line; the lines of graphs are left to the parser of graphs, at their places, so that errors name them.
class Parser {
 public:
  explicit Parser(std::string_view text) : lines_(split(text, '\n')) {}

  Pipeline parse() {
    for (number_ = 0; number_ < lines_.size(); ++number_) {
      const std::string_view line = trim(lines_[number_].substr(0, lines_[number_].find('#')));
      if (line.empty()) continue;
      if (Scanner in(line); in.accept("stage") || in.accept("program")) finish_program();
      in_this_line([&] { parse_line(line); });
    }
    finish_program();
    const int wanted = is_pipeline_ ? out_.pipelining.parts() : 1;
    if (out_.stage_count() != wanted)
      throw error("{} stand here but the pipeline has {}", count_text(out_.stage_count(), "program"), wanted);
    if (!is_pipeline_) out_ = Pipeline(std::move(out_.stages.front()));
    for (const auto& [line, text] : behind_) {
      number_ = line;
      in_this_line([&] {
        if (!is_pipeline_ && !text.starts_with("in order"))
          throw error("'{}' is of a pipeline; write 'pipeline' in the first line", text);
        parse_line_behind(out_, text);
      });
    }
    return std::move(out_);
  }

 private:
  template <class F>
  void in_this_line(F parse) try {
    parse();
  } catch (const Error& e) {
    throw with_context(e, fmt::format("line {}", number_ + 1));
  }

  void parse_line(std::string_view line) {
    Scanner in(line, "program");
    if (in.accept("pipeline"))
      parse_pipeline_head(in);
    else if (in.accept("stage"))
      parse_stage(in);
    else if (in.accept("program"))
      parse_program_head(in);
    else if (in.accept("early"))
      parse_early(in);
    else if (in.accept("part"))
      parse_part(in);
    else if (in.accept("arena"))
      program_.arena_bytes = parse_bytes(in, "an arena");
    else if (in.accept("passing"))
      program_.passing_bytes = parse_bytes(in, "what passes");
    else if (in.peek("host") && !in.peek("host %"))
      parse_host(in);
    else if (in.peek("buffer"))
      return buffers_.emplace_back(number_, line), void();
    else if (in.peek("crossing") || in.peek("hand") || in.peek("in order"))
      return behind_.emplace_back(number_, line), void();
    else
      return add_graph_line(line);
    if (!in.at_end()) in.fail("the end of the line");
  }

  void parse_pipeline_head(Scanner& in) {
    if (is_pipeline_ || is_open_) throw error("'pipeline' stands in the first line, once");
    is_pipeline_ = true;
    out_.pipelining.stages = parse_count(in, "stage", most_micro_batches);
    in.expect(",");
    out_.pipelining.micro_batches = parse_count(in, "micro-batch", most_micro_batches);
    out_.pipelining.interleave = parse_interleave(in);
    in.expect(",");
    out_.pipelining.schedule = schedule_called(trim(in.rest()));
    check(out_.pipelining);
  }

  void parse_stage(Scanner& in) {
    const std::int64_t stage = in.integer("a stage");
    if (!is_pipeline_) throw error("'stage' stands in a pipeline; write 'pipeline' in the first line");
    if (stage != out_.stage_count())
      throw error("stage {} stands where stage {} should", stage, out_.stage_count());
  }

  void parse_program_head(Scanner& in) {
    is_open_ = true;
    program_ = Program{};
    program_.micro_batches = parse_count(in, "micro-batch", most_micro_batches);
    program_.interleave = parse_interleave(in);
    const Pipelining& p = out_.pipelining;
    if (is_pipeline_ && (program_.micro_batches != p.micro_batches || program_.interleave != p.interleave))
      throw error("the program is of {} but the pipeline of {}",
                  micro_batches_text(program_.micro_batches, program_.interleave),
                  micro_batches_text(p.micro_batches, p.interleave));
    if (in.accept(",")) parse_lanes(parse_count(in, "slot", program_.micro_batches));
    if (!in.accept(",")) return;
    in.expect("sends");
    in.expect("kept");
    program_.keeps_sends = true;
  }

  /// Where micro-batches are not simply one slot after the other, the schedule says where they are.
  void parse_lanes(int slots) {
    program_.lanes.slots[0] = slots;
    if (!is_pipeline_ || out_.stage_count() >= out_.pipelining.parts()) return;
    const Lanes lanes = micro_batches_of(out_.pipelining, out_.stage_count()).lanes;
    if (lanes.slot_of.empty()) return;
    if (lanes.slots[0] != slots)
      throw error("{} but {} has {} in stage {}", count_text(slots, "slot"),
                  name_of(out_.pipelining.schedule), lanes.slots[0], out_.stage_count());
    program_.lanes = lanes;
  }

  /// `3 slots`, `2 slots until weights`.
  void parse_slots(Scanner& in, Buffer& b) {
    b.slots = parse_count(in, "slot", program_.micro_batches);
    if (in.accept("until")) {
      b.life = in.accept("inputs") ? Life::to_inputs : Life::to_weights;
      if (b.life == Life::to_weights) in.expect("weights");
    }
    const int most = program_.lanes.slots[static_cast<std::size_t>(b.life)];
    if (b.slots > most) throw error("{}: should be from 1 to {}", count_text(b.slots, "slot"), most);
  }

  void parse_early(Scanner& in) {
    const std::string step = value_name(in);
    in.expect("before");
    early_.push_back({number_, step, value_name(in)});
  }

  void parse_part(Scanner& in) {
    const int part = static_cast<int>(in.integer("a part"));
    if (part < 1 || part >= program_.interleave)
      throw error("part {}: should be from 1 to {}", part, program_.interleave - 1);
    in.expect("of");
    const std::string of = value_name(in);
    in.expect("is");
    named_parts_.push_back({number_, part, of, value_name(in)});
  }

  void add_graph_line(std::string_view line) {
    if (!is_open_) throw error("'{}' stands above 'program', which begins a program", line);
    graph_.append(number_ - graph_lines_, '\n');
    graph_ += line;
    graph_lines_ = number_;
  }

  void finish_program() {
    if (!is_open_) return;
    is_open_ = false;
    if (program_.own_bytes() < 0)
      throw error("{} bytes of an arena of {} pass: should be at most all", program_.passing_bytes,
                  program_.arena_bytes);
    program_.graph = parse_program_graph(graph_);
    by_name_.clear();
    for (std::size_t v = 0; v < program_.graph.values.size(); ++v)
      by_name_.emplace(program_.graph.values[v].name, static_cast<int>(v));
    graph_.clear();
    graph_lines_ = 0;
    Graph& graph = program_.graph;
    if (!early_.empty()) program_.starts = graph.node_ids();
    const std::size_t last = number_;
    for (const Early& e : early_) {
      number_ = e.line;
      in_this_line([&] {
        const NodeId step = graph.value(called(e.step)).producer;
        const NodeId before = graph.value(called(e.before)).producer;
        if (before > step) throw error("early %{}: %{} is behind it", e.step, e.before);
        program_.starts[at(step.index)] = before;
      });
    }
    for (const NamedPart& p : named_parts_) {
      number_ = p.line;
      in_this_line([&] { program_.parts.push_back({called(p.of), p.part, called(p.value)}); });
    }
    if (!buffers_.empty()) program_.buffer_of.assign(graph.values.size(), -1);
    for (const auto& [line, text] : buffers_) {
      number_ = line;
      in_this_line([&] { parse_buffer(text); });
    }
    number_ = last;
    early_.clear();
    named_parts_.clear();
    buffers_.clear();
    out_.stages.push_back(std::move(program_));
  }

  /// Of the program that is being read.
  ValueId called(const std::string& name) const {
    const auto known = by_name_.find(name);
    return known != by_name_.end() ? ValueId{known->second} : program_.graph.find(name);
  }

  static std::int64_t parse_bytes(Scanner& in, std::string_view what) {
    const std::int64_t bytes = in.integer("bytes");
    if (bytes < 0) throw error("{} of {} bytes: should be from 0 on", what, bytes);
    return bytes;
  }

  void parse_host(Scanner& in) {
    in.expect("host");
    program_.host_bytes = parse_bytes(in, "memory of the host");
    if (std::max(program_.host_bytes, program_.arena_bytes) > most_bytes)
      throw error("memory of the host of {} bytes behind an arena of {}: should be at most 2^61 each",
                  program_.host_bytes, program_.arena_bytes);
  }

  void parse_buffer(std::string_view line) {
    const Graph& graph = program_.graph;
    Scanner in(line, "buffer");
    in.expect("buffer");
    Buffer b{.kind = buffer_kind_called(in.name("what it is for")),
             .end = {static_cast<int>(graph.nodes.size())}};
    in.expect("at");
    b.offset = in.integer("an offset");
    in.expect("of");
    b.bytes = in.integer("bytes");
    if (in.accept("in")) parse_slots(in, b);
    if (in.accept("from")) b.begin = graph.value(called(value_name(in))).producer;
    if (in.accept("to")) b.end = graph.value(called(value_name(in))).producer;
    const std::int64_t all = program_.arena_bytes + program_.host_bytes;
    if (b.offset < 0 || b.offset > all || b.bytes < 0 || b.bytes > (all - b.offset) / b.slots)
      throw error("it ends behind the arena of {} bytes", all);
    in.expect(":");
    do {
      const ValueId v = called(value_name(in));
      int& buffer = program_.buffer_of[at(v.index)];
      if (buffer >= 0) throw error("%{} lies in two buffers", graph.value(v).name);
      if (!b.value.is_valid()) b.value = v, b.space = space_of(graph, v);
      buffer = static_cast<int>(program_.buffers.size());
    } while (in.accept(","));
    if (!in.at_end()) in.fail("the end of the line");
    program_.buffers.push_back(b);
  }

  struct NamedPart {
    std::size_t line = 0;
    int part = 1;
    std::string of, value;
  };
  struct Early {
    std::size_t line = 0;
    std::string step, before;
  };

  std::vector<std::string_view> lines_;
  std::size_t number_ = 0;  // of the line that is read
  Pipeline out_;
  bool is_pipeline_ = false;
  bool is_open_ = false;  // a program has begun
  Program program_;
  std::unordered_map<std::string, int> by_name_;  // its values
  std::string graph_;                             // its lines, at their places
  std::size_t graph_lines_ = 0;
  std::vector<Early> early_;
  std::vector<NamedPart> named_parts_;
  std::vector<std::pair<std::size_t, std::string_view>> buffers_;
  std::vector<std::pair<std::size_t, std::string_view>> behind_;  // what is said behind the programs
};

std::string to_text(const Program& program, int number, const std::vector<ValueId>& values) {
  const Graph& graph = program.graph;
  const Buffer& b = program.buffers[at(number)];
  std::string out = fmt::format("buffer {} at {} of {}", name_of(b.kind), b.offset, b.bytes);
  if (b.slots > 1) out += fmt::format(" in {}", count_text(b.slots, "slot"));
  if (b.slots > 1 && b.life != Life::whole)
    out += b.life == Life::to_inputs ? " until inputs" : " until weights";
  if (b.begin.is_valid()) out += fmt::format(" from %{}", graph.name_of(b.begin));
  if (b.end.index < static_cast<int>(graph.nodes.size())) out += fmt::format(" to %{}", graph.name_of(b.end));
  out += fmt::format(": %{}", graph.value(b.value).name);
  for (ValueId v : values)
    if (v != b.value) out += fmt::format(", %{}", graph.value(v).name);
  return out + "\n";
}

}  // namespace

std::string to_text(const Program& program) {
  std::string out = "program " + micro_batches_text(program.micro_batches, program.interleave);
  const OfLives& slots = program.lanes.slots;
  if (slots[0] > 1 || program.keeps_sends) out += ", " + count_text(slots[0], "slot");
  out += program.keeps_sends ? ", sends kept\n" : "\n";
  const Graph& graph = program.graph;
  out += to_text(graph);
  for (const PartValue& p : program.parts)
    out += fmt::format("part {} of %{} is %{}\n", p.part, graph.value(p.of).name, graph.value(p.value).name);
  for (std::size_t i = 0; i < program.starts.size(); ++i)
    if (const NodeId node{static_cast<int>(i)}; program.starts[i] < node)
      out += fmt::format("early %{} before %{}\n", graph.name_of(node), graph.name_of(program.starts[i]));
  if (program.buffers.empty()) return out;
  out += fmt::format("arena {}\n", program.arena_bytes);
  if (program.passing_bytes > 0) out += fmt::format("passing {}\n", program.passing_bytes);
  if (program.host_bytes > 0) out += fmt::format("host {}\n", program.host_bytes);
  std::vector<std::vector<ValueId>> values(program.buffers.size());
  for (int v = 0; v < static_cast<int>(graph.values.size()); ++v)
    if (const int b = program.buffer_of[at(v)]; b >= 0) values[at(b)].push_back({v});
  for (int b = 0; b < static_cast<int>(values.size()); ++b) out += to_text(program, b, values[at(b)]);
  return out;
}

std::string to_text(const Pipeline& pipeline) {
  const Pipelining& p = pipeline.pipelining;
  if (p == Pipelining{.micro_batches = p.micro_batches, .interleave = p.interleave})
    return to_text(pipeline.stage(0)) + lines_behind(pipeline);
  std::string out = fmt::format("pipeline {}, {}, {}\n", count_text(p.stages, "stage"),
                                micro_batches_text(p.micro_batches, p.interleave), to_text(p.schedule));
  for (int s = 0; s < pipeline.stage_count(); ++s)
    out += fmt::format("stage {}\n{}", s, to_text(pipeline.stage(s)));
  return out + lines_behind(pipeline);
}

Pipeline parse_pipeline(std::string_view text) { return Parser(text).parse(); }

}  // namespace shardwright

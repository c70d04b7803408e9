#include "shardwright/runtime/trace.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/frontend/training_data.h"
#include "shardwright/graph/op.h"
#include "shardwright/passes/compile.h"
#include "shardwright/runtime/executor.h"
#include "shardwright/runtime/session.h"
#include "shardwright/runtime/trace_file.h"
#include "shardwright/search/planning/make_plan.h"
#include "tests/support/allocations.h"
#include "tests/support/device.h"
#include "tests/support/program.h"

namespace shardwright {
namespace {

using testing::counting;
using testing::program_of;

constexpr int micro_batches = 4;

/// Two stages of two ranks, and their batches.
struct Network {
  Pipeline pipeline;
  TrainingData data;
};

Network two_stages(Schedule schedule) {
  const std::string name = "ffn:batch=32,widths=48-32-32-24-10";
  Model model =
      build_model(name, {.global_batch = {}, .precision = {}, .loss = "", .micro_batches = micro_batches});
  add_train_step(model.graph, model.loss, {"momentum", {{"rate", 0.01}, {"momentum", 0.9}}});
  const PlanRequest request{.model = name,
                            .devices = 4,
                            .parallel = Parallel::data_parallel,
                            .constraints = constraints_of({.pipelining = {schedule, 2, micro_batches}})};
  std::ostringstream notices;
  return {
      compile_pipeline(model.graph, make_plan(model.graph, request), {.formats = default_devices().formats}),
      training_data(model, micro_batches, "", "", 7, notices)};
}

/// Step 0 is not recorded, steps 1 and 2 are.
StepTrace recorded(Session& session, const TrainingData& data) {
  for (int step = 0; step < 3; ++step) {
    session.record(step > 0);
    session.step(data.batch(step));
  }
  return session.trace();
}

/// Of the second recorded step, in the order of their begins.
std::vector<Span> second_step(const Track& track) {
  std::vector<Span> out;
  std::int64_t begin = 0;
  for (const Span& span : track.spans)
    if (span.name == "step 2") begin = span.begin;
  for (const Span& span : track.spans)
    if (span.begin >= begin) out.push_back(span);
  return out;
}

void expect_nested(const std::vector<Span>& spans) {
  std::vector<const Span*> open;
  for (const Span& span : spans) {
    EXPECT_LE(span.begin, span.end) << span.name;
    while (!open.empty() && open.back()->end <= span.begin) open.pop_back();
    if (!open.empty()) {
      EXPECT_LE(span.end, open.back()->end) << span.name << " in " << open.back()->name;
    }
    open.push_back(&span);
  }
}

bool is_compute(const Track& track) { return track.name.ends_with(" compute"); }

TEST(Trace, spans_of_a_track_nest_or_follow_one_another) {
  const Network network = two_stages(Schedule::one_forward_one_backward());
  Session session(network.pipeline);
  const Tracks tracks = tracks_of(network.pipeline, recorded(session, network.data));
  std::vector<std::string> names;
  for (const Track& track : tracks.tracks) {
    SCOPED_TRACE(track.name);
    expect_nested(track.spans);
    EXPECT_FALSE(track.spans.empty());
    if (is_compute(track) || track.name.ends_with(" communication")) names.push_back(track.name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"rank 0 (stage 0) compute", "rank 0 (stage 0) communication",
                                             "rank 1 (stage 0) compute", "rank 1 (stage 0) communication",
                                             "rank 2 (stage 1) compute", "rank 2 (stage 1) communication",
                                             "rank 3 (stage 1) compute", "rank 3 (stage 1) communication"}));
}

TEST(Trace, tasks_stand_in_the_order_of_the_schedule) {
  for (const Schedule& schedule : {Schedule::gpipe(), Schedule::one_forward_one_backward()}) {
    const Network network = two_stages(schedule);
    Session session(network.pipeline);
    for (const Track& track : tracks_of(network.pipeline, recorded(session, network.data)).tracks) {
      if (!is_compute(track)) continue;
      std::vector<std::string> have, want;
      for (const Span& span : second_step(track))
        if (span.category == "schedule") have.push_back(span.name);
      want.emplace_back("step 2");
      for (const Task& task : tasks_of(network.pipeline.pipelining, track.stage))
        want.push_back(fmt::format("{} {}", name_of(task.phase), task.micro_batch));
      want.emplace_back("update");
      EXPECT_EQ(have, want) << track.name << ", " << name_of(schedule);
    }
  }
}

TEST(Trace, every_kernel_is_there_with_every_micro_batch) {
  const Network network = two_stages(Schedule::one_forward_one_backward());
  Session session(network.pipeline);
  for (const Track& track : tracks_of(network.pipeline, recorded(session, network.data)).tracks) {
    if (!is_compute(track)) continue;
    std::map<std::string, std::multiset<int>> have, want;
    for (const Span& span : second_step(track))
      for (const std::string& node : span.nodes)
        if (span.category == "compute") have[node].insert(span.micro_batch);
    const Graph& graph = network.pipeline.stage(track.stage).graph;
    for (const NodeId id : graph.node_ids()) {
      const Node& node = graph.node(id);
      if (node.op->kind != OpKind::compute || node.op->is_alias) continue;
      if (node.phase == Phase::update)
        want[graph.name_of(id)] = {-1};
      else
        for (int m = 0; m < micro_batches; ++m) want[graph.name_of(id)].insert(m);
    }
    EXPECT_EQ(have, want) << track.name;
    EXPECT_GT(want.size(), 10U);
  }
}

TEST(Trace, transfers_last_from_start_to_finish_and_arrows_follow_what_is_sent) {
  const Network network = two_stages(Schedule::one_forward_one_backward());
  Session session(network.pipeline);
  const StepTrace trace = recorded(session, network.data);
  const Tracks tracks = tracks_of(network.pipeline, trace);
  std::size_t received = 0;
  for (int rank = 0; rank < 4; ++rank) {
    std::map<std::string, int> waits, transfers;
    for (const Track& track : tracks.tracks)
      for (const Span& span : track.spans) {
        if (track.rank != rank) continue;
        if (span.name.starts_with("wait for the taking of "))
          ++waits["send " + span.name.substr(23)];
        else if (span.category == "bubble" && span.name != "idle")
          ++waits["receive " + span.name.substr(9)];
        else if (span.name.starts_with("wait for "))
          ++waits[span.name.substr(9)];
        if (span.category == "communication") ++transfers[span.name];
        received += span.name.starts_with("receive ");
      }
    EXPECT_EQ(transfers, waits) << "rank " << rank;
    EXPECT_FALSE(transfers.empty());
  }
  EXPECT_EQ(received, 4U * 2 * micro_batches);  // by each rank, one way, in two steps
  ASSERT_EQ(tracks.arrows.size(), received);    // each from the one rank that has this part of the batch
  for (const Arrow& arrow : tracks.arrows) {
    const Track& from = tracks.tracks[static_cast<std::size_t>(arrow.from)];
    const Track& to = tracks.tracks[static_cast<std::size_t>(arrow.to)];
    EXPECT_EQ(from.stage, 1 - to.stage);
    EXPECT_LT(arrow.begin, arrow.end) << arrow.name;
  }
}

TEST(Trace, tells_how_long_ranks_wait) {
  const Network network = two_stages(Schedule::gpipe());
  Session session(network.pipeline);
  const StepTrace trace = recorded(session, network.data);
  const TraceFigures figures = figures_of(network.pipeline, trace);
  double bubble = 0, all = 0, steps = 0;
  for (const Track& track : tracks_of(network.pipeline, trace).tracks)
    for (const Span& span : track.spans) {
      const auto length = static_cast<double>(span.end - span.begin);
      if (span.category == "bubble") bubble += length;
      if (span.name == "idle" || span.name.starts_with("step")) all += length;
      if (span.name.starts_with("step")) steps += length;
    }
  EXPECT_NEAR(figures.bubble_fraction, bubble / all, 1e-9);
  EXPECT_GT(figures.bubble_fraction, 0.0);
  EXPECT_LT(figures.bubble_fraction, 1.0);
  EXPECT_GT(figures.exposed_communication_seconds, 0.0);
  EXPECT_LT(figures.exposed_communication_seconds, steps * 1e-9);
}

TEST(Trace, the_file_is_json_that_names_tracks_and_memory) {
  const Network network = two_stages(Schedule::one_forward_one_backward());
  Session session(network.pipeline);
  const StepTrace trace = recorded(session, network.data);
  const MemoryMarks memory = session.memory_marks();
  const auto json = nlohmann::json::parse(trace_text({network.pipeline, host_cluster(4), trace, memory}));
  std::set<std::string> tracks;
  std::map<std::string, int> kinds;
  int planned = 0;
  std::int64_t most_alive = 0;
  for (const auto& event : json.at("traceEvents")) {
    ++kinds[event.at("ph").get<std::string>()];
    if (event.at("name") == "thread_name") tracks.insert(event.at("args").at("name").get<std::string>());
    if (event.at("ph") == "X") {
      EXPECT_GE(event.at("ts").get<double>(), 0.0);
      EXPECT_GE(event.at("dur").get<double>(), 0.0);
    }
    if (event.at("name") != "rank 3 memory, bytes") continue;
    const auto& bytes = event.at("args");
    if (bytes.contains("alive")) {
      most_alive = std::max(most_alive, bytes.at("alive").get<std::int64_t>());
    } else {
      EXPECT_EQ(bytes.at("planned"), memory.planned[3]);
      EXPECT_EQ(bytes.at("measured"), memory.measured[3]);
      ++planned;
    }
  }
  EXPECT_EQ(planned, 1);
  EXPECT_GT(most_alive, memory.planned[3] / 2);
  EXPECT_LE(most_alive, memory.planned[3]);
  EXPECT_TRUE(tracks.contains("rank 3 (stage 1) compute"));
  EXPECT_EQ(kinds["s"], kinds["f"]);
}

const char* const contracted = R"(
mesh [tp=2]
%x = input f32[4, 4] as [4, 8] [-, tp]
%w = param f32[4, 6] (init=normal) as [8, 6] [tp, -]
%1 = matmul %x, %w {k: tp} : f32[4, 6] as [4, 6] [-, -] sum(tp)
%y = all_reduce.sum %1 over tp : f32[4, 6] as [4, 6] [-, -]
%z = relu %y : f32[4, 6] as [4, 6] [-, -]
update:
%w2 = fill (shape=[8, 6], value=2) {i0: tp} : f32[4, 6] as [8, 6] [tp, -]
output %z
update %w <- %w2
)";

/// The spans of all tracks without times; and without replacing, which is told only where it takes a microsecond.
std::string text_of(const Tracks& tracks) {
  std::string out;
  for (const Track& track : tracks.tracks) {
    out += track.name + "\n";
    for (const Span& span : track.spans)
      if (span.name != "replace leaves") out += fmt::format("  {}: {}\n", span.category, span.name);
  }
  return out;
}

TEST(Trace, names_what_a_step_does) {
  const Pipeline pipeline = program_of(contracted);
  Session session(pipeline);
  session.record(true);
  session.step({{"x", counting({DType::f32, {4, 8}})}});
  const std::string rank = R"(  schedule: step 0
  schedule: forward 0
  data: inputs
  compute: matmul %1
  exposed: wait for all_reduce.sum y
  compute: z
  data: outputs
  schedule: backward 0
  schedule: update
  compute: w2
)";
  EXPECT_EQ(text_of(tracks_of(pipeline, session.trace())),
            "rank 0 (stage 0) compute\n" + rank +
                "rank 0 (stage 0) communication\n  communication: all_reduce.sum y\n" +
                "rank 1 (stage 0) compute\n" + rank +
                "rank 1 (stage 0) communication\n  communication: all_reduce.sum y\n");
}

TEST(Trace, the_first_of_ranks_of_their_own_gets_the_events_of_all) {
  const Network network = two_stages(Schedule::one_forward_one_backward());
  Session together(network.pipeline);
  const auto names = [&](const StepTrace& trace) {
    std::map<std::string, int> out;
    for (const Track& track : tracks_of(network.pipeline, trace).tracks)
      for (const Span& span : track.spans)
        if (span.category == "compute" || span.category == "communication")
          ++out[fmt::format("{}: {}", track.rank, span.name)];
    return out;
  };
  const auto want = names(recorded(together, network.data));
  std::vector<StepTrace> traces(4);
  std::vector<std::jthread> ranks;
  for (auto& communicator : thread_communicators(4))
    ranks.emplace_back([&, own = std::move(communicator)]() mutable {
      const auto rank = static_cast<std::size_t>(own->rank());
      Session session(network.pipeline, std::move(own));
      traces[rank] = recorded(session, network.data);
      const MemoryMarks memory = session.memory_marks();
      EXPECT_EQ(memory.planned, together.memory_marks().planned);
      EXPECT_EQ(memory.processes.size(), rank == 0 ? 4U : 0U);
    });
  ranks.clear();
  EXPECT_EQ(names(traces[0]), want);
  for (std::size_t rank = 1; rank < 4; ++rank) EXPECT_TRUE(traces[rank].ranks.empty()) << "rank " << rank;
}

/// What only looks at a session may be asked by several threads at a time.
TEST(Session, is_read_by_several_threads) {
  const Network network = two_stages(Schedule::one_forward_one_backward());
  const Session session(network.pipeline);
  const std::string name =
      session.pipeline().stage(0).graph.value(session.pipeline().stage(0).graph.updates.front().leaf).name;
  const std::vector<double> want = to_doubles(session.get(name));
  const std::vector<std::int64_t> planned = session.memory_marks().planned;
  std::vector<std::jthread> readers;
  for (int i = 0; i < 4; ++i)
    readers.emplace_back([&] {
      for (int k = 0; k < 50; ++k) {
        EXPECT_EQ(to_doubles(session.get(name)), want);
        EXPECT_EQ(session.memory_marks().planned, planned);
      }
    });
}

TEST(Trace, recording_allocates_nothing_while_a_step_runs) {
  const Pipeline pipeline = program_of(R"(
mesh [dp=1]
%x = input f32[4, 8] as [4, 8] [-, -]
%w = param f32[8, 6] as [8, 6] [-, -]
%y = matmul %x, %w : f32[4, 6] as [4, 6] [-, -]
%z = relu %y : f32[4, 6] as [4, 6] [-, -]
output %z
)");
  const auto communicators = testing::device_communicators(1);
  const auto backend = testing::device();
  backend->enter_thread();
  Executor executor(pipeline, *backend, *communicators[0]);
  executor.run();
  Recorder recorder;
  executor.record(&recorder);
  const std::int64_t before = testing::allocations_of_this_thread();
  executor.run();
  EXPECT_EQ(testing::allocations_of_this_thread() - before, 0);
  EXPECT_EQ(recorder.events().size(), 7U);  // three sections, inputs, outputs and two kernels
  executor.record(nullptr);
  executor.run();
  EXPECT_EQ(recorder.events().size(), 7U);  // three sections, inputs, outputs and two kernels
}

TEST(Trace, events_survive_packing) {
  const std::vector<TraceEvent> events{{.begin = 1,
                                        .end = std::int64_t{1} << 60,
                                        .instruction = {Act::replace, 4095, 70000, 65535},
                                        .activity = Activity::progress,
                                        .phase = Phase::update},
                                       {.begin = 5,
                                        .end = 6,
                                        .instruction = {Act::start, 0, 0, 0},
                                        .activity = Activity::step,
                                        .phase = Phase::forward}};
  EXPECT_EQ(unpacked(packed(events)), events);
}

}  // namespace
}  // namespace shardwright

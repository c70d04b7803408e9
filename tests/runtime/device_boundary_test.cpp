// Nothing but a backend looks at device memory. All tests of runtime/ run again in fenced_tests, on devices whose memory
// others cannot read; here is that such a device bites, and that sessions run on the devices that they are told.

#include <gtest/gtest.h>

#include <sys/wait.h>

#include <algorithm>
#include <csignal>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/frontend/model.h"
#include "shardwright/passes/compile.h"
#include "shardwright/runtime/backend/cpu/cpu.h"
#include "shardwright/runtime/prepare.h"
#include "shardwright/runtime/session.h"
#include "shardwright/search/planning/make_plan.h"
#include "tests/support/device.h"
#include "tests/support/evaluate.h"
#include "tests/support/fenced_backend.h"
#include "tests/support/program.h"

namespace shardwright {
namespace {

using testing::FencedBackend;

/// A sanitizer tells of the signal and exits.
bool is_fault(int status) {
  return WIFSIGNALED(status) ? WTERMSIG(status) == SIGSEGV : WIFEXITED(status) && WEXITSTATUS(status) != 0;
}

TEST(DeviceBoundary, memory_behind_the_fence_is_reached_by_the_backend) {
  FencedBackend backend;
  const Memory memory = backend.allocate(10000);
  const TensorView first{DType::f32, {100}, memory.data()}, second{DType::f32, {100}, memory.data() + 4096};
  EXPECT_EQ(to_doubles(testing::read(backend, first)), std::vector<double>(100, 0));
  backend.fill(first, 2.5);
  backend.copy(second.data, first.data, 400);
  backend.fill(first, 0);
  EXPECT_EQ(to_doubles(testing::read(backend, second)), std::vector<double>(100, 2.5));
  EXPECT_EQ(to_doubles(testing::read(backend, first)), std::vector<double>(100, 0));
}

TEST(DeviceBoundaryDeathTest, a_look_over_the_fence_is_the_end) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  FencedBackend backend;
  const Memory memory = backend.allocate(64), more = backend.allocate(64);
  backend.fill({DType::f32, {16}, memory.data()}, 1);
  const auto look = [](const std::byte* at) { return *static_cast<const volatile std::byte*>(at); };
  EXPECT_EXIT(static_cast<void>(look(memory.data())), is_fault, "");
  EXPECT_EXIT(memory.data()[5] = std::byte{1}, is_fault, "");
  EXPECT_EXIT(static_cast<void>(look(more.data())), is_fault, "");
}

/// Sums of ranks, by a communicator of the host that is handed device memory.
TEST(DeviceBoundaryDeathTest, communicators_of_the_host_cannot_work_there) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const std::vector<Mesh> meshes{{{{"a", 1}}}};
  const Step mask{.kind = StepKind::mask, .from = replicated(1), .to = replicated(1)};
  const auto run = [&](Communicator& communicator) {
    FencedBackend backend;
    const Memory memory = communicator.allocate(128, backend);
    const BoundTransfer bound{transfer_of(mask, meshes, {16}, 0), DType::f32, memory.data(),
                              memory.data() + 64};
    communicator.run(communicator.prepare({&bound, 1}));
    return to_doubles(testing::read(backend, {DType::f32, {16}, memory.data() + 64}));
  };
  const FencedBackend fenced;
  EXPECT_EQ(run(*staged(std::move(thread_communicators(1).front()), fenced)), std::vector<double>(16, 0));
  EXPECT_EXIT(run(*thread_communicators(1).front()), is_fault, "");
}

TEST(DeviceBoundary, a_session_runs_on_the_devices_that_it_is_told) {
  const Program p = testing::program_of(R"(
mesh [dp=2]
%x = input f32[2, 3] as [4, 3] [dp, -]
%w = param f32[3, 2] (init=normal) as [3, 2] [-, -]
%1 = matmul %x, %x (transpose_a=true) {k: dp} : f32[3, 3] as [3, 3] [-, -] sum(dp)
%y = all_reduce.sum %1 over dp : f32[3, 3] as [3, 3] [-, -]
%z = matmul %y, %w : f32[3, 2] as [3, 2] [-, -]
update:
%w2 = fill (shape=[3, 2], value=2) : f32[3, 2] as [3, 2] [-, -]
output %z
update %w <- %w2
)");
  std::vector<int> asked;
  std::mutex mutex;
  DeviceKind devices = testing::fenced_devices();
  devices.backend = [&, make = devices.backend](int rank) {
    const std::lock_guard lock(mutex);
    asked.push_back(rank);
    return make(rank);
  };
  Session fenced(p, {.seed = 3, .devices = devices}), cpu(p, {.seed = 3});
  const Tensor x = testing::counting({DType::f32, {4, 3}});
  EXPECT_EQ(fenced.get("w"), cpu.get("w"));
  for (int step = 0; step < 2; ++step) EXPECT_EQ(fenced.step({{"x", x}}), cpu.step({{"x", x}}));
  EXPECT_EQ(fenced.get("w"), cpu.get("w"));
  std::ranges::sort(asked);
  EXPECT_EQ(asked, (std::vector<int>{0, 1}));
}

TEST(DeviceBoundary, a_program_in_formats_is_not_for_devices_without) {
  Program p = testing::program_of(R"(
mesh [dp=1]
%x = input f32[1, 16, 2, 2] as [1, 16, 2, 2] [-, -, -, -]
%y = relu %x : f32[1, 16, 2, 2] as [1, 16, 2, 2] [-, -, -, -]
output %y
)");
  p.graph.values[static_cast<std::size_t>(p.graph.find("y").index)].format = parse_format("aBcd16b");
  DeviceKind devices = testing::fenced_devices();
  EXPECT_NO_THROW(Session(p, {.devices = devices}));
  const auto refused = [&](FormatsOf formats) -> std::string {
    devices.formats = std::move(formats);
    try {
      Session session(p, {.devices = devices});
    } catch (const Error& e) {
      return e.what();
    }
    return "nothing";
  };
  EXPECT_EQ(refused(nullptr),
            "rank 0: %y lies in aBcd16b but these devices know row-major only; compile the program with "
            "their formats");
  const std::string wanted =
      "rank 0: %y lies in aBcd16b but relu of these devices wants another format; compile the program with "
      "theirs";
  EXPECT_EQ(refused([](const OpDef&, const KernelCall&) { return Formats{}; }), wanted);
  EXPECT_EQ(refused([](const OpDef&, const KernelCall&) {
              return Formats{.operands = {Format{}}, .results = {parse_format("acdb")}};
            }),
            wanted);
  const auto any_of = [](const char* common) {
    return [common](const OpDef&, const KernelCall&) {
      return Formats{.operands = {std::nullopt}, .results = {std::nullopt}, .common = {parse_format(common)}};
    };
  };
  EXPECT_EQ(refused(any_of("aBcd8b")), wanted);
  EXPECT_EQ(refused(any_of("aBcd16b")), "nothing");
}

Pipeline trained(const FormatsOf& formats, const char* offload) {
  Model m = build_model("ffn:batch=8,widths=12-16-10");
  add_train_step(m.graph, m.loss, {.name = "adam", .attributes = {{"rate", 0.01}}});
  const Plan plan = make_plan(
      m.graph, {.model = "ffn",
                .devices = 2,
                .parallel = Parallel::data_parallel,
                .constraints = parse_constraints({"test", fmt::format("offload={{{}}}", offload)})});
  return compile_pipeline(m.graph, plan, {.formats = formats});
}

std::vector<double> losses_of(const Pipeline& pipeline, const DeviceKind& devices) {
  Session session(pipeline, {.seed = 3, .devices = devices});
  std::vector<double> out;
  for (int step = 0; step < 3; ++step)
    out.push_back(to_doubles(session
                                 .step({{"input", testing::counting({DType::f32, {8, 12}})},
                                        {"label", Tensor({DType::i32, {8}})}})
                                 .front())
                      .front());
  return out;
}

/// Who prepares a program for a device is told what it cannot run.
TEST(DeviceBoundary, kernels_that_are_missing_are_told) {
  Model m = build_model("ffn:batch=8,widths=12-16-10");
  add_train_step(m.graph, m.loss, {.name = "adam", .attributes = {{"rate", 0.01}}});
  const Plan plan = make_plan(m.graph, {.model = "ffn", .parallel = Parallel::stand_alone});
  EXPECT_EQ(prepare(m.graph, plan, {.device = testing::fenced_devices()}).notices(),
            std::vector<std::string>());
  EXPECT_EQ(prepare(m.graph, plan, {.device = testing::fenced_devices_without({"relu", "adam", "conv2d"})})
                .notices(),
            std::vector<std::string>{
                "this device has no kernel for adam, relu: on the host, and what it takes and makes "
                "goes there and back"});
}

/// Copies of these devices are done no sooner than they are waited for, and kernels look whether they were.
TEST(DeviceBoundary, what_is_on_the_host_comes_when_it_is_waited_for) {
  const std::vector<double> want = losses_of(trained(cpu_formats, "none"), cpu_devices());
  for (const char* offload : {"optimizer", "parameters", "activations", "optimizer,parameters,activations",
                              "dense1.matmul", "relu1"})
    EXPECT_EQ(losses_of(trained(cpu_formats, offload), testing::fenced_devices()), want) << offload;
}

TEST(DeviceBoundary, what_a_device_has_no_kernel_for_runs_on_the_host) {
  const std::vector<double> want = losses_of(trained(cpu_formats, "none"), cpu_devices());
  for (const char* op : {"relu", "matmul", "adam", "cross_entropy_terms"}) {
    const DeviceKind devices = testing::fenced_devices_without({op});
    const Pipeline pipeline = trained(devices.formats, "none");
    EXPECT_GT(pipeline.stage(0).host_bytes, 0) << op;
    EXPECT_EQ(losses_of(pipeline, devices), want) << op;
  }
}

TEST(DeviceBoundary, a_kernel_that_reads_what_is_under_way_is_found) {
  FencedBackend backend;
  const Memory memory = backend.allocate(256), host = backend.allocate_host(64);
  const TensorView x{DType::f32, {16}, memory.data()}, y{DType::f32, {16}, memory.data() + 64};
  const OpDef& relu = find_op("relu");
  const Type type{DType::f32, {16}};
  const std::vector<Type> types{type};
  const Rule rule = rule_of(relu, {types, types, {}});
  const LoopBox box = whole_box(rule);
  const std::vector<TensorView> operands{x}, results{y};
  const Attributes none;
  const PreparedKernel kernel = backend.prepare(relu, {operands, results, none, rule, box});
  backend.copy_later(DeviceStream::fetch, memory.data(), host.data(), 64);
  EXPECT_THROW(kernel(), InternalError);
  backend.wait_for(backend.record(DeviceStream::fetch), DeviceStream::compute);
  EXPECT_NO_THROW(kernel());
  backend.copy_later(DeviceStream::evict, host.data(), memory.data() + 64, 64);
  EXPECT_THROW(kernel(), InternalError);
}

/// Of two ranks: sums of 1 and 2, which this device copies to the host no sooner than somebody waits.
TEST(DeviceBoundary, kernels_are_asked_for_while_operands_of_transfers_are_on_their_way) {
  const std::vector<Mesh> meshes{{{{"a", 2}}}};
  Scanner partial("[-] sum(a)");
  const Step sum{.kind = StepKind::all_reduce,
                 .axes = {0},
                 .from = parse_layout(partial, meshes[0]),
                 .to = replicated(1)};
  const auto work = [&](Communicator& communicator) {
    FencedBackend backend;
    const Memory memory = communicator.allocate(256, backend);
    const TensorView x{DType::f32, {16}, memory.data()}, y{DType::f32, {16}, memory.data() + 64},
        other{DType::f32, {16}, memory.data() + 128};
    const BoundTransfer bound{transfer_of(sum, meshes, {16}, communicator.rank()), DType::f32, x.data,
                              y.data};
    const int prepared = communicator.prepare({&bound, 1});
    for (int step = 1; step <= 3; ++step) {
      backend.fill(x, step * (1 + communicator.rank()));
      communicator.start(prepared);
      EXPECT_FALSE(backend.is_past({DeviceStream::evict, step}));
      communicator.progress();
      EXPECT_THROW(backend.fill(x, 0), InternalError);
      EXPECT_NO_THROW(backend.fill(other, 5));
      communicator.finish(prepared);
      EXPECT_NO_THROW(backend.fill(x, 0));
      EXPECT_EQ(to_doubles(testing::read(backend, y)), std::vector<double>(16, step * 3));
    }
  };
  auto communicators = thread_communicators(2);
  for (auto& c : communicators) c = staged(std::move(c), FencedBackend());
  const std::jthread other([&] { work(*communicators[1]); });
  work(*communicators[0]);
}

/// Counts who waits for all of a device.
class Counted final : public testing::ForwardingBackend {
 public:
  explicit Counted(std::atomic<int>& waits)
      : ForwardingBackend(std::make_unique<FencedBackend>()), waits_(waits) {}
  void wait() override {
    ++waits_;
    ForwardingBackend::wait();
  }

 private:
  std::atomic<int>& waits_;
};

TEST(DeviceBoundary, a_recorded_step_waits_no_more_often) {
  std::atomic<int> waits = 0;
  DeviceKind devices = testing::fenced_devices();
  devices.backend = [&](int) { return std::make_unique<Counted>(waits); };
  Session session(trained(devices.formats, "optimizer"), {.seed = 3, .devices = devices});
  const auto waits_of_step = [&] {
    const int before = waits;
    session.step({{"input", testing::counting({DType::f32, {8, 12}})}, {"label", Tensor({DType::i32, {8}})}});
    return waits - before;
  };
  const int unrecorded = waits_of_step();
  session.record(true);
  EXPECT_EQ(waits_of_step(), unrecorded);
  const StepTrace trace = session.trace();
  for (const auto& events : trace.ranks)
    for (const TraceEvent& e : events) {
      EXPECT_LE(e.begin, e.end);
      EXPECT_LE(events.front().begin, e.end);
    }
}

/// As the backend's interface promises.
TEST(DeviceBoundary, a_device_is_asked_by_the_thread_that_drives_it) {
  FencedBackend backend;
  const Memory memory = backend.allocate(64);
  backend.enter_thread();
  EXPECT_NO_THROW(backend.fill({DType::f32, {16}, memory.data()}, 1));
  std::jthread([&] {
    EXPECT_THROW(backend.fill({DType::f32, {16}, memory.data()}, 1), InternalError);
    EXPECT_THROW(backend.wait(), InternalError);
    EXPECT_THROW(backend.allocate(64), InternalError);
    EXPECT_THROW(static_cast<void>(backend.resident_bytes({memory.data(), 64})), InternalError);
  });
}

TEST(DeviceBoundary, sessions_ask_devices_by_the_threads_that_drive_them) {
  Session session(testing::program_of("mesh [a=2]\n%w = param f32[2] as [4] [a]\noutput %w\n"),
                  {.devices = testing::fenced_devices()});
  const Tensor w = testing::counting({DType::f32, {4}});
  EXPECT_NO_THROW(session.set("w", w));
  EXPECT_EQ(session.get("w"), w);
  EXPECT_EQ(session.memory_marks().measured.size(), 2U);
}

}  // namespace
}  // namespace shardwright

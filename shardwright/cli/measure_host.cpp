#include "shardwright/cli/measure_host.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <map>
#include <sstream>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/base/index.h"
#include "shardwright/base/progress.h"
#include "shardwright/frontend/model.h"
#include "shardwright/frontend/training_data.h"
#include "shardwright/runtime/communicator/threads.h"
#include "shardwright/runtime/start.h"
#include "shardwright/search/planning/make_plan.h"
#include "shardwright/simulate/stage_prices.h"

namespace shardwright {
namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The cores that this process may use; found before anything is kept on one.
const std::vector<int>& cores() {
  static const std::vector<int> all = [] {
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    std::vector<int> out;
    for (int c = 0; c < CPU_SETSIZE; ++c)
      if (CPU_ISSET(c, &set)) out.push_back(c);
    return out;
  }();
  return all;
}

/// Other processes only lengthen what is measured.
double first_quartile(std::vector<double> values) {
  std::ranges::sort(values);
  return values[(values.size() - 1) / 4];
}

/// `work` on a thread for each device, kept on a core each as far as there are enough.
void on_devices(const HostMeasuring& how, int devices, const std::function<void(Communicator&)>& work) {
  cores();
  on_threads(devices, [&](Communicator& own) {
    keep_on_core(how.first_core + own.rank());
    work(own);
  });
}

/// Of rounds that all ranks begin together: seconds of a call, of which a round has `calls`.
template <class F>
double quiet_seconds(Communicator& all, int rounds, int calls, F call) {
  std::vector<double> seconds;
  for (int r = 0; r <= rounds; ++r) {
    all.barrier();
    const double start = seconds_now();
    for (int c = 0; c < calls; ++c) call();
    if (r > 0) seconds.push_back((seconds_now() - start) / calls);  // the first warms
  }
  return first_quartile(std::move(seconds));
}

// ---- streams ----

/// y = a + b of f32 in `bytes` altogether.
class Stream {
 public:
  Stream(Backend& backend, double bytes) : elements_(static_cast<std::int64_t>(bytes / 12)) {
    for (int i = 0; i < 3; ++i) {
      memory_.push_back(backend.allocate(elements_ * 4));
      views_.push_back({DType::f32, {elements_}, memory_.back().data()});
    }
    const OpDef& op = find_op("add");
    const Type type{DType::f32, {elements_}};
    const std::vector<Type> operands{type, type}, results{type};
    rule_ = rule_of(op, {operands, results, attributes_});
    for (const LoopDim& loop : rule_.loops) box_.loops.push_back({0, loop.size, loop.size});
    kernel_ = backend.prepare(op, {{views_.data(), 2}, {views_.data() + 2, 1}, attributes_, rule_, box_});
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void run() const { kernel_(); }
  double bytes() const { return 12.0 * static_cast<double>(elements_); }

 private:
  std::int64_t elements_;
  std::vector<Memory> memory_;
  std::vector<TensorView> views_;
  Attributes attributes_;
  Rule rule_;
  LoopBox box_;
  PreparedKernel kernel_;
};

// ---- kernels ----

/// A network whose kernels are measured. Between them they have the kinds of work, types and sizes that there are.
struct Trained {
  std::string model;
  std::string optimizer;
  Precision precision = {};
};

std::vector<Trained> trained_networks(bool is_quick) {
  const Precision f64(DType::f64), bf16(DType::bf16), f16(DType::f16);
  if (is_quick)
    return {{"ffn:batch=16", "momentum"},
            {"ffn:batch=8,widths=64-32-10", "momentum", f64},
            {"resnet18:batch=2,image=16,width=8", "momentum"}};
  return {{"ffn:batch=16", "momentum"},
          {"ffn:batch=256,widths=1024-1024-512-10", "adamw"},
          {"resnet18:batch=4,image=96", "momentum"},
          {"resnet50:batch=4,image=32", "momentum"},
          {"llama:layers=2,hidden=256,heads=4,ffn=688,vocab=2048,seq=128,batch=2", "adamw"},
          {"gpt:layers=1,hidden=384,heads=6,vocab=1024,seq=192,batch=4", "adamw"},
          {"ffn:batch=128", "momentum", f64},
          {"ffn:batch=128", "momentum", bf16},
          {"ffn:batch=128", "momentum", f16}};
}

/// A train step of one device.
Prepared prepared(const Model& model, const Cluster& cluster, const DeviceKind& device) {
  const PlanRequest request{.devices = 1,
                            .cluster = cluster.part(0, 1),
                            .parallel = Parallel::stand_alone,
                            .formats = device.formats};
  return prepare(model.graph, make_plan(model.graph, request), {.device = device});
}

/// Steps until `enough` seconds or steps have passed; all devices train one each, at the same time.
StepTrace recorded(const Prepared& program, const TrainingData& data, const HostMeasuring& how) {
  constexpr int warming = 3, most = 30;
  const double enough = how.is_quick ? 0.1 : 4;
  StepTrace out;
  std::atomic<bool> is_over{false};
  on_devices(how, how.devices, [&](Communicator& all) {
    Session session =
        start_rank(program, [](std::size_t) { return std::move(thread_communicators(1).front()); },
                   {.only_scalars = true, .clock = TraceClock::thread});
    const auto batch = data.batch(0);
    const double start = seconds_now();
    for (int step = 0; !is_over; ++step) {
      all.barrier();
      session.record(all.rank() == 0 && step >= warming);
      session.step(batch);
      if (all.rank() == 0) is_over = step >= most || (step >= warming + 2 && seconds_now() - start > enough);
      all.barrier();
    }
    if (all.rank() == 0) out = session.trace();
  });
  return out;
}

/// Of each kernel over the recorded steps.
void add_kernels(std::vector<KernelSample>& samples, const Pipeline& pipeline, const Cluster& cluster,
                 const StepTrace& trace) {
  StagePrices prices(pipeline.stage(0), 0, cluster);
  std::map<int, std::vector<double>> seconds;  // by first node
  double all = 0;
  for (const TraceEvent& e : trace.ranks.front())
    if (e.activity == Activity::instruction && e.instruction.act == Act::compute)
      seconds[e.instruction.what].push_back(e.seconds());
  const std::size_t begin = samples.size();
  for (const auto& [first, of_kernel] : seconds) {
    const Work work = prices.work_of(first);
    if (work.flops == 0 && work.bytes == 0) continue;
    samples.push_back({work, first_quartile(of_kernel)});
    all += samples.back().seconds;
  }
  for (std::size_t i = begin; i < samples.size(); ++i) samples[i].weight = 1 / all;  // networks count alike
}

// ---- collectives ----

/// From one layout to another over the middle axis of [outer, group, inner] by one collective.
struct Moved {
  StepKind kind;
  Layout from, to;
};

std::vector<Moved> moved_tensors() {
  Layout whole = replicated(2), rows = whole, columns = whole, partial = whole;
  rows.dims[0] = {1};
  columns.dims[1] = {1};
  partial.sum = {1};
  return {{StepKind::all_reduce, partial, whole},
          {StepKind::all_gather, rows, whole},
          {StepKind::reduce_scatter, partial, rows},
          {StepKind::all_to_all, rows, columns}};
}

CollectiveSample measured(const Moved& moved, Communicator& all, Backend& backend, const Mesh& mesh,
                          double bytes, bool is_quick) {
  const int ranks = mesh.size_of(1);
  const std::int64_t unit = ranks * ranks;
  const std::int64_t columns =
      unit * std::max<std::int64_t>(1, std::llround(bytes / 4 / static_cast<double>(unit * ranks)));
  const Shape shape{ranks, columns};
  const std::vector<Mesh> meshes{mesh};
  Redistributor redistributor(mesh);
  const Redistribution& way = redistributor.find(moved.from, moved.to, {DType::f32, shape});
  require(way.steps.size() == 1 && way.steps.front().kind == moved.kind, "{} is done otherwise: {}",
          name_of(moved.kind), to_text(way, meshes));
  const Transfer transfer = transfer_of(way.steps.front(), meshes, shape, all.rank());
  const Memory from = all.allocate(element_count(transfer.from_shape) * 4, backend);
  const Memory to = all.allocate(element_count(transfer.to_shape) * 4, backend);
  const BoundTransfer bound{transfer, DType::f32, from.data(), to.data()};
  const int prepared = all.prepare({&bound, 1});
  const double held =
      4.0 * static_cast<double>(
                element_count(moved.kind == StepKind::all_gather ? transfer.to_shape : transfer.from_shape));
  const int calls = is_quick ? 2 : std::clamp(static_cast<int>(1e-3 / (5e-6 + held / 5e9)), 1, 100);
  const double seconds = quiet_seconds(all, is_quick ? 2 : 31, calls, [&] { all.run(prepared); });
  all.barrier();  // nobody reads any more
  return {moved.kind, ranks, mesh.stride_of(1), held, seconds};
}

}  // namespace

void keep_on_core(int number) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cores()[cores().size() - 1 - at(number) % cores().size()], &set);
  sched_setaffinity(0, sizeof set, &set);
}

int usable_cores() { return static_cast<int>(cores().size()); }

std::vector<StreamSample> measured_streams(const HostMeasuring& how) {
  constexpr double kibi = 1024;
  std::vector<StreamSample> out;
  const Doing doing(how.progress, "measuring memory");
  on_devices(how, how.devices, [&](Communicator& all) {
    const auto backend = how.device.backend(all.rank());
    backend->enter_thread();
    const double largest = how.is_quick ? 512 * kibi : 256 * kibi * kibi;
    for (double bytes = 16 * kibi; bytes <= largest; bytes *= 2) {
      const Stream stream(*backend, bytes);
      const int calls = std::clamp(static_cast<int>(5e-4 / (bytes / 20e9)), 1, 100);
      const double seconds = quiet_seconds(all, how.is_quick ? 3 : 21, calls, [&] { stream.run(); });
      if (all.rank() == 0) out.push_back({stream.bytes(), seconds});
      all.barrier();
    }
  });
  return out;
}

std::vector<KernelSample> measured_kernels(const HostMeasuring& how, const Cluster& cluster) {
  std::vector<KernelSample> out;
  const std::vector<Trained> networks = trained_networks(how.is_quick);
  Doing doing(how.progress, "measuring kernels: network", static_cast<std::int64_t>(networks.size()));
  for (const Trained& network : networks) {
    doing.tell(&network - networks.data(), [&] { return network.model; });
    Model model = build_model(network.model, {.precision = network.precision});
    add_train_step(model.graph, model.loss, {network.optimizer, {{"rate", 1e-4}}});
    model.graph.outputs.resize(1);
    std::ostringstream notices;
    const TrainingData data = training_data(model, 1, "", "", 1, notices);
    const Prepared program = prepared(model, cluster, how.device);
    add_kernels(out, program.pipeline(), cluster, recorded(program, data, how));
  }
  return out;
}

std::vector<CollectiveSample> measured_collectives(const HostMeasuring& how, Communicator& all,
                                                   Backend& backend, int ranks, int stride) {
  const Mesh mesh{{{"outer", all.size() / (ranks * stride)}, {"group", ranks}, {"inner", stride}}};
  std::vector<CollectiveSample> out;
  for (const Moved& moved : moved_tensors())
    for (double bytes : {64.0, 16e3, 256e3, 2e6, 16e6, 64e6}) {
      if (how.is_quick && bytes > 256e3) continue;
      out.push_back(measured(moved, all, backend, mesh, bytes, how.is_quick));
    }
  return out;
}

std::vector<CollectiveSample> measured_collectives(const HostMeasuring& how) {
  std::vector<CollectiveSample> out;
  Doing doing(how.progress, "measuring collectives");
  // Parts of a cluster of so many devices are groups that divide them.
  for (int ranks = 2; ranks <= how.devices; ++ranks) {
    const bool is_asked = std::has_single_bit(static_cast<unsigned>(ranks)) || ranks == how.devices;
    if (!is_asked || how.devices % ranks != 0) continue;
    doing.tell(0, [&] { return fmt::format("of {} ranks", ranks); });
    on_devices(how, ranks, [&](Communicator& all) {
      const auto backend = how.device.backend(all.rank());
      backend->enter_thread();
      auto own = measured_collectives(how, all, *backend, ranks, 1);
      if (all.rank() == 0) out.insert(out.end(), own.begin(), own.end());
    });
  }
  return out;
}

}  // namespace shardwright

// What is read and written: tensors, checkpoints, event files; rates, which follow from the step.
#include <pybind11/stl.h>

#include "python/core/program.h"
#include "shardwright/frontend/generate.h"
#include "shardwright/runtime/checkpoint/load.h"
#include "shardwright/runtime/checkpoint/saver.h"
#include "shardwright/runtime/checkpoint/write.h"
#include "shardwright/runtime/data/digits.h"
#include "shardwright/runtime/event_file.h"
#include "shardwright/runtime/rate_schedule.h"
#include "shardwright/runtime/safetensors.h"
#include "shardwright/training/checkpoints.h"

namespace shardwright::python {
namespace {

py::dict saved_dict(const Saved& s) {
  py::dict out;
  out["folder"] = s.folder;
  out["step"] = s.step;
  out["seconds"] = s.seconds;
  out["pause_seconds"] = s.pause_seconds;
  out["bytes"] = s.bytes;
  out["failure"] = s.failure;
  return out;
}
std::vector<py::dict> saved_dicts(const std::vector<Saved>& all) {
  std::vector<py::dict> out;
  for (const Saved& s : all) out.push_back(saved_dict(s));
  return out;
}

/// Saves the checkpoints of one program.
class Saver {
 public:
  Saver(std::shared_ptr<Program> program, const std::string& folder, std::int64_t keep)
      : program_(announced(std::move(program))),
        saver_(program_->step().session(),
               {.folder = folder, .keep = keep, .plan = to_json(program_->step().plan())}) {}

  void save(const std::string& model, std::int64_t step, std::int64_t samples, bool is_best) {
    program_->running();
    program_->enter(fmt::format("saves step {} of", step));
    program_->refresh();
    if (!frozen_) frozen_ = sample_of_frozen(program_->step().session());
    saver_.save(
        {.model = model, .step = step, .seed = Program::seed(), .samples = samples, .frozen = *frozen_},
        is_best);
  }
  std::vector<py::dict> ended() {
    program_->enter("looks whether a checkpoint is whole of");
    return saved_dicts(saver_.ended());
  }
  std::vector<py::dict> wait() {
    program_->enter("waits for the checkpoint of");
    return saved_dicts(saver_.wait());
  }

 private:
  static std::shared_ptr<Program> announced(std::shared_ptr<Program> program) {
    program->enter("makes ready to save");
    return program;
  }

  std::shared_ptr<Program> program_;
  CheckpointSaver saver_;
  std::optional<std::string> frozen_ = {};  // what they are like: they stay so
};

std::map<std::string, ArrayPtr> load_safetensors(const std::string& path) {
  std::map<std::string, ArrayPtr> out;
  const SafetensorsFile file = SafetensorsFile::open(path);
  for (const std::string& name : file.names()) out[name] = std::make_shared<Array>(file.read(name));
  return out;
}

void save_safetensors(const std::string& path, const std::map<std::string, py::object>& tensors) {
  std::map<std::string, Tensor> all;
  for (const auto& [name, value] : tensors) all[name] = lent(array_of(value)->elements());
  write_safetensors(path, all);
}

Restored restored_called(const std::string& what) {
  if (what == "parameters") return Restored::parameters;
  if (what == "network") return Restored::network;
  if (what == "all") return Restored::all;
  throw error("'{}' of a checkpoint is unknown; there are parameters, network, all", what);
}

void bind_generator(py::module_& m) {
  py::class_<Generator>(m, "Generator", "A decoder that writes behind prompts, token by token.")
      .def(py::init([](const std::string& model, std::int64_t sequences, std::int64_t room, int devices,
                       int stages) {
             return Generator(model, sequences, room,
                              {.devices = devices,
                               .stages = stages,
                               .parallel = devices == 1 ? Parallel::stand_alone : Parallel::auto_parallel});
           }),
           py::arg("model"), py::arg("sequences"), py::arg("room"), py::arg("devices") = 1,
           py::arg("stages") = 1)
      .def("load", py::overload_cast<const std::string&>(&Generator::load))
      .def(
          "__call__",
          [](Generator& self, const std::vector<Generator::Tokens>& prompts, std::int64_t count,
             double temperature, std::int64_t top_k, double top_p, std::uint64_t seed,
             const Generator::Tokens& stop) {
            const py::gil_scoped_release others_run;
            return self(prompts, count, {temperature, top_k, top_p, seed}, stop).tokens;
          },
          py::arg("prompts"), py::arg("count"), py::arg("temperature") = 0.0, py::arg("top_k") = 0,
          py::arg("top_p") = 1.0, py::arg("seed") = 1, py::arg("stop") = Generator::Tokens{})
      .def_property_readonly("vocabulary", &Generator::vocabulary);
}

}  // namespace

void bind_files(py::module_& m) {
  py::class_<EventFile>(m, "EventFile", "TensorBoard's event file: numbers of a step, by tag.")
      .def(py::init<const std::string&>(), py::arg("folder"))
      .def_property_readonly("path", &EventFile::path)
      .def(
          "write",
          [](EventFile& self, std::int64_t step, const std::map<std::string, double>& scalars) {
            self.write(step, {scalars.begin(), scalars.end()});
          },
          py::arg("step"), py::arg("scalars"));
  py::class_<RateSchedule>(
      m, "RateSchedule",
      "The learning rate of each step: constant, step:every=K, exponential:factor=F, cosine, "
      "linear, polynomial; with :end=E and others.")
      .def(py::init([](const std::string& schedule, double rate, std::int64_t steps,
                       const std::string& warmup, std::int64_t steps_per_epoch) {
             return RateSchedule(schedule, warmup, rate, {steps, steps_per_epoch});
           }),
           py::arg("schedule"), py::arg("rate"), py::arg("steps"), py::arg("warmup") = "",
           py::arg("steps_per_epoch") = 0)
      .def(
          "__call__",
          [](const RateSchedule& self, std::int64_t step) {
            if (step < 0) throw error("step {}: steps count from 0", step);
            return self.at(step);
          },
          py::arg("step"));
  py::class_<Saver>(m, "Saver", "Saves checkpoints beside the training.")
      .def(py::init<std::shared_ptr<Program>, const std::string&, std::int64_t>(), py::arg("program"),
           py::arg("folder"), py::arg("keep") = 0)
      .def("save", &Saver::save, py::arg("model"), py::arg("step"), py::arg("samples"),
           py::arg("is_best") = false)
      .def("ended", &Saver::ended)
      .def("wait", &Saver::wait);
  m.def("load_checkpoint",
        [](const std::shared_ptr<Program>& program, const std::string& path, const std::string& what) {
          const TensorSource source = open_source(path);
          program->running();
          program->enter(fmt::format("loads step {} of", source.run.step));
          program->refresh();  // what no checkpoint has, parameters that are frozen, stays as it is here
          if (restored_called(what) == Restored::all)
            check_frozen(program->step().session(), source.run, path);
          for (const std::string& line : load(program->step().session(), source, restored_called(what)))
            py::print(line, py::arg("file") = py::module_::import("sys").attr("stderr"));
          program->has_loaded();
          return source.run.step;
        });
  m.def(
      "checkpoint_info",
      [](const std::string& path) {
        const RunState run = open_source(path).run;
        py::dict out;
        out["model"] = run.model;
        out["step"] = run.step;
        out["seed"] = run.seed;
        out["samples"] = run.samples;
        return out;
      },
      py::arg("path"), "What a checkpoint says of its run.");
  m.def("load_safetensors", &load_safetensors, py::arg("path"), "Tensors by name.");
  m.def("save_safetensors", &save_safetensors, py::arg("path"), py::arg("tensors"));
  m.def(
      "draw_digits",
      [](const std::string& folder, std::int64_t train, std::int64_t test, std::uint64_t seed) {
        write_digits(folder, {.train = train, .test = test, .seed = seed});
      },
      py::arg("folder"), py::arg("train") = 10000, py::arg("test") = 2000, py::arg("seed") = 1,
      "Draws a set of digits with MNIST's files.");
  bind_generator(m);
}

}  // namespace shardwright::python

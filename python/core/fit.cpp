// The loop of training for Python's steps: `fit`.
#include <pybind11/stl.h>

#include "python/core/program.h"
#include "shardwright/frontend/fit.h"

namespace shardwright::python {
namespace {

py::dict dict_of(const TrainingEvent& event) {
  using namespace py::literals;
  const auto with = [](py::dict out, const char* key, const auto& value) {
    if (value) out[key] = *value;
    return out;
  };
  return std::visit(
      Each{[](const TrainingBegan& e) {
             return py::dict("kind"_a = "began", "first"_a = e.first, "steps"_a = e.steps);
           },
           [](const StepBegins& e) { return py::dict("kind"_a = "step_begins", "step"_a = e.step); },
           [&](const StepDone& e) {
             py::dict out("kind"_a = "step", "step"_a = e.step, "loss"_a = e.told.loss,
                          "seconds"_a = e.seconds);
             for (const auto& [name, value] : e.told.others) out[py::str(name)] = value;
             if (e.scale) out["loss_scale"] = e.scale->scale;
             if (e.scale) out["skipped"] = e.scale->has_skipped;
             return with(std::move(out), "lr", e.rate);
           },
           [](const LossNotFinite& e) {
             return py::dict("kind"_a = "not_finite", "step"_a = e.step, "loss"_a = e.loss,
                             "infinity"_a = e.infinity, "made_by"_a = e.made ? e.made->text : "");
           },
           [](const LossSpiked& e) {
             return py::dict("kind"_a = "spiked", "step"_a = e.step, "loss"_a = e.loss, "median"_a = e.usual);
           },
           [](const StateChecked& e) { return py::dict("kind"_a = "checked", "step"_a = e.step); },
           [&](const Evaluated& e) {
             py::dict out("kind"_a = "evaluated", "step"_a = e.step, "loss"_a = e.loss);
             return with(std::move(out), "accuracy", e.accuracy);
           },
           [](const Saved& e) {
             return py::dict("kind"_a = "saved", "step"_a = e.step, "folder"_a = e.folder,
                             "failure"_a = e.failure, "bytes"_a = e.bytes, "seconds"_a = e.seconds,
                             "pause_seconds"_a = e.pause_seconds);
           },
           [](const NotWritten& e) {
             return py::dict("kind"_a = "not_written", "what"_a = e.what, "why"_a = e.why);
           },
           [](const CheckpointNotice& e) { return py::dict("kind"_a = "notice", "text"_a = e.text); },
           [](const TrainingEnded& e) {
             constexpr std::array names{"steps", "none_left", "time_limit", "interrupt", "request"};
             return py::dict("kind"_a = "ended", "by"_a = names[static_cast<std::size_t>(e.by)],
                             "first"_a = e.first, "steps"_a = e.steps);
           }},
      event);
}

Evaluated evaluated_of(const py::object& said) {
  Evaluated out;
  for (const auto& [key, value] : said.cast<std::map<std::string, double>>()) {
    if (key == "loss")
      out.loss = value;
    else if (key == "accuracy")
      out.accuracy = value;
    else
      throw error("evaluate returned '{}'; there are loss, accuracy", key);
  }
  return out;
}

void fit_program(const std::shared_ptr<Program>& program, const py::object& batch,
                 std::int64_t batches_per_epoch, std::int64_t samples, const std::string& lengths,
                 FitOptions options, const py::object& is_interrupted, const py::object& evaluate,
                 const py::object& on_event) {
  options.seed = Program::seed();
  options.step = [&](const StepBatch& b) { return program->step_of_loop(b); };
  options.is_interrupted = [&] {
    const py::gil_scoped_acquire gil;
    return is_interrupted().cast<bool>();
  };
  if (!evaluate.is_none())
    options.evaluate = [&](const Session&, std::int64_t steps) {
      const py::gil_scoped_acquire gil;
      return evaluated_of(evaluate(steps));
    };
  const TrainingData data{.batch =
                              [&](std::int64_t step) {
                                const py::gil_scoped_acquire gil;
                                return program->named(batch(step).cast<std::vector<ArrayPtr>>());
                              },
                          .batches_per_epoch = batches_per_epoch,
                          .samples = samples,
                          .lengths = lengths};
  const bool loads = options.init || options.resume;
  const OnEvent tell = [&](const TrainingEvent& event) {
    const py::gil_scoped_acquire gil;
    if (loads && std::holds_alternative<TrainingBegan>(event)) program->has_loaded();
    const bool ends = on_event(dict_of(event)).cast<bool>();
    program->hand_over();  // what it may have set, before that is saved
    return ends ? Then::ends : Then::goes_on;
  };
  program->running();
  program->enter("trains");
  program->refresh();
  {
    const py::gil_scoped_release others_run;
    fit(program->step().session(), program->step().plan(), data, options, tell);
  }
}

}  // namespace

void bind_fit(py::module_& m) {
  m.def(
      "fit",
      [](const std::shared_ptr<Program>& program, const py::object& batch, std::int64_t batches_per_epoch,
         std::int64_t samples, const std::string& lengths, const std::string& model, double lr,
         std::int64_t first, std::int64_t steps, const std::string& lr_schedule, const std::string& warmup,
         std::optional<std::string> save, std::int64_t save_every, std::int64_t keep,
         std::optional<std::string> resume, std::optional<std::string> init, std::int64_t eval_every,
         const std::string& keep_best, const std::string& tensorboard, double time_limit,
         const py::object& is_interrupted, const py::object& evaluate, const py::object& on_event) {
        fit_program(program, batch, batches_per_epoch, samples, lengths,
                    {.first = first,
                     .steps = steps,
                     .lr_schedule = lr_schedule,
                     .warmup = warmup,
                     .lr = lr,
                     .save = std::move(save),
                     .save_every = save_every,
                     .keep = keep,
                     .resume = std::move(resume),
                     .init = std::move(init),
                     .eval_every = eval_every,
                     .keep_best = keep_best,
                     .tensorboard = tensorboard,
                     .time_limit = time_limit,
                     .model = model},
                    is_interrupted, evaluate, on_event);
      },
      py::arg("program"), py::arg("batch"), py::arg("batches_per_epoch"), py::arg("samples"),
      py::arg("lengths"), py::arg("model"), py::arg("lr"), py::kw_only(), py::arg("first"), py::arg("steps"),
      py::arg("lr_schedule"), py::arg("warmup"), py::arg("save"), py::arg("save_every"), py::arg("keep"),
      py::arg("resume"), py::arg("init"), py::arg("eval_every"), py::arg("keep_best"), py::arg("tensorboard"),
      py::arg("time_limit"), py::arg("is_interrupted"), py::arg("evaluate"), py::arg("on_event"),
      "The loop of training; `on_event` gets each event as a dict, and returns whether the run shall end.");
}

}  // namespace shardwright::python

#include "shardwright/frontend/bucketed_steps.h"

#include <algorithm>
#include <memory>
#include <ostream>

#include "shardwright/base/quantity.h"
#include "shardwright/base/text.h"
#include "shardwright/frontend/data_columns.h"
#include "shardwright/frontend/model_keys.h"
#include "shardwright/frontend/planned_model.h"
#include "shardwright/frontend/samples.h"
#include "shardwright/graph/op.h"
#include "shardwright/runtime/data/length_buckets.h"
#include "shardwright/search/planning/plan_alike.h"

namespace shardwright {

std::vector<std::int64_t> bucket_lengths(std::string_view text) {
  std::vector<std::int64_t> out;
  for (std::string_view word : split(text, ',')) {
    const auto length = to_integer(word);
    if (!length || *length < 1 || (!out.empty() && *length <= out.back()))
      throw error("--buckets {}: should be lengths of sequences that ascend, as in 64,128,256", text);
    out.push_back(*length);
  }
  return out;
}

std::string spec_of_longest(const std::string& spec, const std::vector<std::int64_t>& lengths) {
  const Source& source = source_of_model(spec);
  if (!source.of_length) throw error("--buckets: {} has no sequences of several lengths", spec);
  const auto keys = keys_of(spec);
  const auto said = keys.find("seq");
  if (said != keys.end() && said->second != std::to_string(lengths.back()))
    throw error("--buckets: the longest is {}, but the model says seq={}", lengths.back(), said->second);
  try {
    const std::string asked = source.asked ? source.asked(spec) : spec;
    return source.of_length(asked, lengths.back(), lengths.back());
  } catch (const Error& e) {
    throw with_context(e, "--buckets");
  }
}

namespace {

std::string told_of(std::int64_t length, const Plan& longest, const PlannedAlike& made) {
  const std::string takes =
      fmt::format("{} a step, {}", seconds_text(made.evaluation.estimate.step_seconds()),
                  bytes_text(made.evaluation.estimate.arena_bytes));
  if (!made.is_own) return fmt::format("sequences of {}: the plan of the longest; {}\n", length, takes);
  const std::string why =
      made.carried ? fmt::format(" instead of {}", seconds_text(made.carried->estimate.step_seconds())) : "";
  return fmt::format("sequences of {}: {}; {}{}\n", length, difference_text(longest, made.plan), takes, why);
}

}  // namespace

std::vector<StepToPrepare> bucketed_steps(StepToPrepare longest, const std::vector<std::int64_t>& lengths,
                                          const PlanRequest& request, bool is_given, std::ostream& notices) {
  std::vector<StepToPrepare> out{std::move(longest)};
  if (lengths.size() < 2) return out;
  const PlanThere there = plan_there(out.front().graph, out.front().plan, request.formats, is_given);
  const Plan& plan = there.plan;
  const Source& source = source_of_model(plan.model);
  for (const std::int64_t length : lengths) {
    if (length == lengths.back()) continue;
    PlanRequest asked = request;
    asked.model = source.of_length(plan.model, length, lengths.back());
    const StepOf step = step_of(asked.model, plan.origin, true, "", plan.settings.pipelining.interleave);
    try {
      PlannedAlike made = plan_alike(there, step, asked);
      notices << told_of(length, plan, made);
      out.push_back({std::move(made.graph), std::move(made.plan)});
    } catch (const Error& e) {
      throw with_context(e, fmt::format("--buckets: sequences of {}", length));
    }
  }
  return out;
}

TrainingData bucketed_data(const Model& model, int micro_batches, const SampleSource& source,
                           const std::vector<std::int64_t>& lengths, std::uint64_t seed,
                           std::ostream& notices) {
  if (source.path.empty()) throw error("--buckets: give --data, texts or tokens");
  if (model.label_weights.empty() || takes_places(model))
    throw error("--buckets: {} {}", model.name,
                takes_places(model) ? "keeps documents apart that are packed, but in buckets each is a sample"
                                    : "has no labels that are left out, as those of what fills up are");
  const std::int64_t batch = *batch_of(model) * micro_batches;
  const auto buckets = std::make_shared<const LengthBuckets>(
      documents_for(model, source, SamplePart::train),
      LengthBucketOptions{.lengths = lengths, .batch = batch, .seed = seed});
  std::vector<std::string> told;
  for (std::size_t b = 0; b < lengths.size(); ++b)
    told.push_back(fmt::format("{} of up to {}", buckets->samples()[b], lengths[b]));
  notices << fmt::format("documents: {} tokens; {} batches of {} an epoch\n", join(told, ", "),
                         buckets->batches_per_epoch(), batch);
  if (buckets->cut() > 0)
    notices << fmt::format("{} documents have more than {} tokens, of which the rest is not seen\n",
                           buckets->cut(), lengths.back() + 1);
  return {.batch =
              [model, buckets](std::int64_t step) {
                StepBatch columns = buckets->at_step(step);
                add_label_weights(model, columns, 1);
                return columns;
              },
          .batches_per_epoch = buckets->batches_per_epoch(),
          .samples = batch,
          .lengths = lengths_text(buckets->options())};
}

}  // namespace shardwright

// Planned programs written down for engines that people train with.
//
//   torch             functions of a rank in PyTorch, with process groups     jax               one jax.shard_map over all devices
//   jax:constraints   whole tensors, whose layouts are asked of XLA          shardy            layouts and rules as sdy text
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/frontend/model.h"
#include "shardwright/lower/pipeline.h"
#include "shardwright/plan/plan.h"

namespace shardwright {

/// The names of those that are written for.
std::vector<std::string> emit_engines();

struct Emitted {
  std::map<std::string, std::string> files;  // by name; of one file alone its name is empty
  std::string command;  // what runs `train.py`: `torchrun --nproc_per_node 4`; empty: nothing runs it

  /// Writes files to a folder, or one file to `path`. Throws: Error if it cannot.
  void save(const std::string& path) const;
};

struct EmitOptions {
  std::string model;                    // as it is called in what is written
  std::string data = {};                // what data the network takes (data_json)
  std::optional<Cluster> cluster = {};  // of the plan: traces of the package tell the work of kernels by it
};

/// Throws: Error that names the engines there are, or what of the program `engine` cannot have.
Emitted emit(const Pipeline& pipeline, std::string_view engine, const EmitOptions& options);
/// The same of a plan, which is compiled in no device's memory formats and proven first.
Emitted emit(const Graph& graph, const Plan& plan, std::string_view engine, const EmitOptions& options);

/// What data a model takes, for packages: what `train` makes its synthetic data from, how its makers call inputs, which input is
/// made of the labels.
std::string data_json(const Model& model, int micro_batches);

/// Writes the weights that a model brings (Model::initial) under their names, one by one. Throws: Error of kind io.
void save_own_weights(const Model& model, const std::string& path);

}  // namespace shardwright

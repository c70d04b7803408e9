// A call as a line of Python with PyTorch or JAX, the same on all ranks of a stage: the places of an operator's facet of
// that name (graph/op.h) filled with what the call is about. What differs between ranks is told by their coordinates on the
// mesh, which the line's file has under the names of the axes: `(0, 16)[tp]`, `8 * dp`.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "shardwright/graph/op.h"
#include "shardwright/layout/mesh.h"

namespace shardwright {

/// In JAX lists are tuples, and coordinates are values that are known when it runs.
enum class Engine : std::uint8_t { torch, jax };

std::string python_literal(const Attribute& value);
/// `bfloat16`, as PyTorch, NumPy and config.json have it
std::string short_dtype(DType dtype);
/// `torch.bfloat16`
std::string torch_dtype(DType dtype);
/// `jnp.bfloat16`
std::string jax_dtype(DType dtype);

/// An expression whose value is `of_ranks[r]` on rank r of the mesh.
std::string by_rank(std::vector<std::string> of_ranks, const Mesh& mesh, Engine engine = Engine::torch);
std::string by_rank(const std::vector<std::vector<std::int64_t>>& of_ranks, const Mesh& mesh,
                    Engine engine = Engine::torch);

/// One call as ranks see it.
struct TorchCall {
  const OpDef& op;
  Call whole;                         // types are global
  std::vector<std::string> operands;  // as they are called in Python
  const Mesh& mesh;
  std::function<const KernelCall&(int rank)> on_rank;  // local types; attributes need no defaults
  bool is_in_place = false;                            // results are written over operands
};

/// Throws: Error that names the operator if it is not written in PyTorch.
std::string torch_line(const TorchCall& call);
/// Of two calls at once.
std::string joint_line(const JointForm& form, const TorchCall& call, const TorchCall& next);
/// The same in JAX.
std::string jax_line(const TorchCall& call);
/// The functions that an operator's lines in JAX call.
std::string_view jax_functions(const OpDef& op);

/// The functions in `source`, one string each, by their names: `def` at the begin of a line begins one.
std::vector<std::pair<std::string, std::string>> python_functions(std::string_view source);

}  // namespace shardwright

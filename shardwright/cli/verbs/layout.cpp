// Which rank holds which part of a tensor, and how it gets from one layout to another.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <nlohmann/json.hpp>
#include <ostream>

#include "shardwright/base/text.h"
#include "shardwright/cli/verb.h"
#include "shardwright/layout/redistribution.h"

namespace shardwright::verbs {
namespace {

Mesh mesh_of(const Arguments& arguments, const std::string& sizes_flag, const std::string& names_flag) {
  if (!arguments.has(sizes_flag) || !arguments.has(names_flag))
    throw error("layout needs {} and {}", sizes_flag, names_flag);
  Mesh mesh;
  const std::string sizes = arguments.text(sizes_flag), names = arguments.text(names_flag);
  const auto size_list = split(sizes, ','), name_list = split(names, ',');
  if (size_list.size() != name_list.size())
    throw error("{} {} has {} axes but {} {} has {}", sizes_flag, sizes, size_list.size(), names_flag, names,
                name_list.size());
  for (std::size_t i = 0; i < size_list.size(); ++i) {
    const auto n = to_integer(trim(size_list[i]));
    if (!n) throw error("{} {}: '{}' should be an integer from 1 on", sizes_flag, sizes, size_list[i]);
    mesh.axes.push_back({std::string(trim(name_list[i])), axis_size(trim(name_list[i]), *n)});
  }
  check(mesh);
  return mesh;
}

/// `mp,(sp,dp)`, `dp,None`
Layout layout_of(const std::string& text, const Mesh& mesh, int index) {
  Scanner in(text, "layout");
  Layout out;
  const auto axis = [&] {
    const std::string name = in.name("an axis name or None");
    return name == "None" ? -1 : mesh.axis(name);
  };
  while (!in.at_end()) {
    Axes axes;
    if (in.accept("(")) {
      do {
        if (const int a = axis(); a >= 0) axes.push_back(a);
      } while (in.accept(",") && !in.peek(")"));
      in.expect(")");
    } else if (const int a = axis(); a >= 0) {
      axes.push_back(a);
    }
    out.dims.push_back(axes);
    if (!in.accept(",") && !in.at_end()) in.fail("','");
  }
  out.mesh = out.used().empty() ? 0 : index;
  return out;
}

Shape shape_of(const Arguments& arguments) {
  Shape shape;
  if (!arguments.has("--shape")) throw error("layout needs --shape, such as 8,8");
  const std::string text = arguments.text("--shape");
  for (std::string_view part : split(text, ',')) {
    const auto n = to_integer(trim(part));
    if (!n || *n < 1) throw error("--shape {}: '{}' should be an integer from 1 on", text, part);
    shape.push_back(*n);
  }
  element_count(shape);
  return shape;
}

/// One line per part: where it lies in the tensor, and the ranks that hold it.
std::string picture(const Layout& layout, const Mesh& mesh, const Shape& shape) {
  std::map<Shape, std::vector<int>> ranks;
  std::map<Shape, Shape> extents;
  for (int r = 0; r < mesh.size(); ++r) {
    const Box b = box(layout, mesh, shape, r);
    ranks[b.offset].push_back(r);
    extents[b.offset] = b.extent;
  }
  std::string out = fmt::format("{} over {}\n", to_text(layout, mesh), to_text(mesh));
  for (const auto& [offset, holders] : ranks) {
    std::string where;
    for (std::size_t d = 0; d < offset.size(); ++d)
      where += fmt::format("{}{}:{}", d ? ", " : "", offset[d], offset[d] + extents[offset][d]);
    out += fmt::format("  [{}]  rank{} {}\n", where, holders.size() > 1 ? "s" : "", fmt::join(holders, ", "));
  }
  return out;
}

int show_parts(const Arguments& arguments, Terminal& terminal) {
  const Mesh mesh = mesh_of(arguments, "--device-matrix", "--names");
  const Layout layout = layout_of(arguments.text("--map"), mesh, 0);
  const Shape shape = shape_of(arguments);
  check(layout, mesh, shape);
  if (!arguments.is_on("--json")) {
    terminal.out << picture(layout, mesh, shape);
    return 0;
  }
  nlohmann::ordered_json ranks = nlohmann::ordered_json::array();
  for (int r = 0; r < mesh.size(); ++r) {
    const Box b = box(layout, mesh, shape, r);
    ranks.push_back({{"rank", r}, {"offset", b.offset}, {"extent", b.extent}});
  }
  terminal.out << nlohmann::ordered_json{{"ranks", ranks}}.dump() << "\n";
  return 0;
}

nlohmann::ordered_json step_json(const Step& step, const std::vector<Mesh>& meshes) {
  const Mesh& mesh = meshes[static_cast<std::size_t>(std::max(step.from.mesh, step.to.mesh))];
  std::vector<std::string> axes;
  for (int a : step.axes) axes.push_back(mesh.axes[static_cast<std::size_t>(a)].name);
  nlohmann::ordered_json out{{"kind", name_of(step.kind)}, {"axes", axes}};
  if (step.dim_from >= 0) out["dim_from"] = step.dim_from;
  if (step.dim_to >= 0) out["dim_to"] = step.dim_to;
  if (step.kind == StepKind::exchange) {
    out["from"] = to_text(step.from, meshes[static_cast<std::size_t>(step.from.mesh)]);
    out["to"] = to_text(step.to, meshes[static_cast<std::size_t>(step.to.mesh)]);
  }
  out["bytes_per_rank"] = step.bytes;
  return out;
}

/// The groups of ranks that communicate in a step: `0 1 | 2 3`.
std::string groups_text(const Step& step, const std::vector<Mesh>& meshes) {
  if (step.axes.empty()) return "all ranks";
  const Mesh& mesh = meshes[static_cast<std::size_t>(std::max(step.from.mesh, step.to.mesh))];
  std::string out;
  for (int r = 0; r < mesh.size(); ++r) {
    const std::vector<int> group = mesh.group_of(r, step.axes);
    if (group.front() == r) out += fmt::format("{}{}", out.empty() ? "" : " | ", fmt::join(group, " "));
  }
  return out;
}

int show_redistribution(const Arguments& arguments, Terminal& terminal) {
  std::vector<Mesh> meshes{mesh_of(arguments, "--device-matrix", "--names")};
  const bool has_second = arguments.has("--to-device-matrix") || arguments.has("--to-names");
  if (has_second) meshes.push_back(mesh_of(arguments, "--to-device-matrix", "--to-names"));
  if (meshes.back().size() != meshes.front().size())
    throw error("--device-matrix has {} devices but --to-device-matrix has {}", meshes.front().size(),
                meshes.back().size());
  const Shape shape = shape_of(arguments);
  Layout from = layout_of(arguments.text("--from"), meshes[0], 0);
  Layout to = layout_of(arguments.text("--to"), meshes.back(), static_cast<int>(meshes.size()) - 1);
  check(from, meshes[0], shape);
  check(to, meshes.back(), shape);
  if (const auto refined = refine(meshes)) {  // one mesh for both, without axes of size 1
    from = translate(from, refined->axes_of.front(), 0);
    to = translate(to, refined->axes_of.back(), 0);
    meshes = {refined->mesh};
  }
  std::vector<MeshCost> costs;
  for (const Mesh& mesh : meshes) costs.push_back(uniform_cost(mesh));
  Redistributor redistributor(meshes, costs);
  const Redistribution& r = redistributor.find(from, to, {DType::f32, shape});
  if (arguments.is_on("--json")) {
    nlohmann::ordered_json steps = nlohmann::ordered_json::array();
    for (const Step& step : r.steps) steps.push_back(step_json(step, meshes));
    terminal.out << nlohmann::ordered_json{{"steps", steps}, {"bytes_per_rank", r.bytes}}.dump() << "\n";
    return 0;
  }
  if (r.steps.empty()) terminal.out << "nothing to do\n";
  for (const Step& step : r.steps)
    terminal.out << fmt::format("{}  {} B received by a rank{}\n", to_text(step, meshes), step.bytes,
                                is_local(step.kind) ? "" : "  groups " + groups_text(step, meshes));
  terminal.out << fmt::format("in all {} B received by a rank\n", r.bytes);
  return 0;
}

int run(const Arguments& arguments, Terminal& terminal) {
  const bool is_move = arguments.has("--from") || arguments.has("--to");
  if (is_move == arguments.has("--map")) throw error("layout needs either --map, or --from and --to");
  for (const char* flag : {"--to-device-matrix", "--to-names"})
    if (!is_move && arguments.has(flag)) throw error("{} goes with --from and --to, not with --map", flag);
  if (!is_move) return show_parts(arguments, terminal);
  if (!arguments.has("--from") || !arguments.has("--to")) throw error("layout needs both --from and --to");
  return show_redistribution(arguments, terminal);
}

}  // namespace

std::vector<Verb> layout() {
  return {
      {.name = "layout",
       .doc = "which rank holds which part of a tensor; how it gets from one layout to another",
       .positionals = {},
       .flags = {{"--device-matrix", "N,N,...", "sizes of the axes, outermost first", ""},
                 {"--names", "A,A,...", "names of the axes", ""},
                 {"--map", "LAYOUT", "per dim an axis, several as (a,b), or None", ""},
                 {"--from", "LAYOUT", "the layout to start from", ""},
                 {"--to", "LAYOUT", "the layout to end in", ""},
                 {"--to-device-matrix", "N,N,...", "another arrangement of the same devices for --to", ""},
                 {"--to-names", "A,A,...", "its names", ""},
                 {"--shape", "N,N,...", "shape of the tensor", ""},
                 {"--json", "", "one JSON document", ""}},
       .example = "shardwright layout --device-matrix 2,2,2 --names dp,sp,mp --map 'mp,(sp,dp)' --shape 2,4",
       .run = run}};
}

}  // namespace shardwright::verbs

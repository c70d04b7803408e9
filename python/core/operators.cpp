// Calls of operators from Python: traced where a trace runs, else computed at once; and what Python's own operators mean.
#include <pybind11/stl.h>

#include <algorithm>
#include <cstring>

#include "python/core/array.h"
#include "python/core/splits.h"
#include "python/core/trace.h"
#include "shardwright/frontend/functions.h"
#include "shardwright/frontend/modules.h"
#include "shardwright/frontend/recompute.h"
#include "shardwright/frontend/shard.h"
#include "shardwright/ops/call_back.h"
#include "shardwright/ops/calls.h"
#include "shardwright/runtime/eager.h"

namespace shardwright::python {
namespace {

std::vector<ArrayPtr> arrays_of(const std::vector<Traced>& values) {
  std::vector<ArrayPtr> out;
  for (const Traced& t : values) out.push_back(std::make_shared<Array>(t));
  return out;
}

/// The type in which two meet: floating before whole numbers, then the one that has more bits.
DType common(DType a, DType b) {
  if (a == b) return a;
  if (is_floating(a) != is_floating(b)) return is_floating(a) ? a : b;
  if ((a == DType::f16 && b == DType::bf16) || (a == DType::bf16 && b == DType::f16)) return DType::f32;
  if (a == DType::boolean || b == DType::boolean) return a == DType::boolean ? b : a;
  return size_of(a) >= size_of(b) ? a : b;
}

/// As it stands in the trace that runs.
DType dtype_here(const Array& a) {
  const Tracing* const tracing = Tracing::current();
  const DType own = a.type().dtype;
  return tracing && !a.is_traced() && !dynamic_cast<const Leaf*>(&a) ? tracing->entering(own) : own;
}

ArrayPtr cast(const ArrayPtr& x, DType to) {
  if (dtype_here(*x) == to) return x;
  return call("cast", {x}, {{"to", std::string(shardwright::name_of(to))}}).front();
}

/// Of a Python number beside an array: what is whole stays so only beside whole numbers.
ArrayPtr beside(const py::handle& object, const ArrayPtr& other) {
  const DType own = dtype_here(*other);
  if (py::isinstance<py::float_>(object) && !is_floating(own)) return array_of(object, DType::f32);
  return array_of(object, own);
}

ArrayPtr binary(const std::string& op, ArrayPtr a, ArrayPtr b) {
  const DType dtype = common(dtype_here(*a), dtype_here(*b));
  return call(op, {cast(a, dtype), cast(b, dtype)}, {}).front();
}

bool is_operand(const py::handle& object) {
  return py::isinstance<Array>(object) || py::isinstance<py::float_>(object) ||
         py::isinstance<py::int_>(object) || py::hasattr(object, "__array__");
}

template <bool is_reflected = false>
auto python_operator(const char* op) {
  return [op](const ArrayPtr& self, const py::object& other) -> py::object {
    if (!is_operand(other)) return py::reinterpret_borrow<py::object>(Py_NotImplemented);
    const ArrayPtr b = beside(other, self);
    return py::cast(is_reflected ? binary(op, b, self) : binary(op, self, b));
  };
}

ArrayPtr matmul(const ArrayPtr& a, const ArrayPtr& b) {
  const DType dtype = common(dtype_here(*a), dtype_here(*b));
  return call("matmul", {cast(a, dtype), cast(b, dtype)}, {}).front();
}

py::ssize_t place_said(const py::handle& index) {
  if (!PyIndex_Check(index.ptr()) ||
      (py::isinstance<Array>(index) && index.cast<const Array&>().type().shape.size()))
    throw py::type_error(fmt::format(
        "a tensor is indexed by whole numbers, slices, None and ..., not by {}; ops.gather takes rows by "
        "their places",
        py::str(py::type::of(index)).cast<std::string>()));
  const py::ssize_t out = PyNumber_AsSsize_t(index.ptr(), PyExc_IndexError);
  if (out == -1 && PyErr_Occurred()) throw py::error_already_set();
  return out;
}

/// `x[2, 1:, None, ..., ::2]` as one strided slice, then dims that fall away or come in.
ArrayPtr item(const ArrayPtr& x, const py::object& index) {
  const Shape shape = x->type().shape;
  const py::tuple all = py::isinstance<py::tuple>(index) ? index.cast<py::tuple>() : py::make_tuple(index);
  std::size_t said = 0;
  for (const auto& i : all) said += !i.is_none() && !py::isinstance<py::ellipsis>(i);
  if (said > shape.size())
    throw py::index_error(fmt::format("{} indices for a tensor of {} dims", said, shape.size()));
  std::vector<std::int64_t> dims, starts, stops, steps, dropped, added;
  std::int64_t d = 0, out = 0;
  for (const auto& i : all) {
    if (i.is_none()) {
      added.push_back(out++);
      continue;
    }
    if (py::isinstance<py::ellipsis>(i)) {
      const auto rest = static_cast<std::int64_t>(shape.size() - said);
      d += rest;
      out += rest;
      continue;
    }
    const std::int64_t size = shape[static_cast<std::size_t>(d)];
    py::ssize_t start = 0, stop = 0, step = 1, length = 0;
    if (py::isinstance<py::slice>(i)) {
      if (!i.cast<py::slice>().compute(size, &start, &stop, &step, &length)) throw py::error_already_set();
      if (step < 1) throw py::index_error("a slice of a tensor has a step of 1 or more");
      if (length < 1) throw py::index_error(fmt::format("a slice of a dim of size {} would be empty", size));
      ++out;
    } else {
      start = place_said(i);
      if (start < -size || start >= size)
        throw py::index_error(fmt::format("index {} of a dim of size {}", start, size));
      if (start < 0) start += size;
      stop = start + 1;
      dropped.push_back(d);
    }
    if (start != 0 || stop != size || step != 1) {
      dims.push_back(d);
      starts.push_back(start);
      stops.push_back(stop);
      steps.push_back(step);
    }
    ++d;
  }
  ArrayPtr y = x;
  if (!dims.empty())
    y = call("strided_slice", {y}, {{"dims", dims}, {"starts", starts}, {"stops", stops}, {"steps", steps}})
            .front();
  if (!dropped.empty()) y = call("squeeze", {y}, {{"dims", dropped}}).front();
  if (!added.empty()) y = call("expand_dims", {y}, {{"dims", added}}).front();
  return y;
}

/// A Python function of arrays as one of traced values.
TracedFunction traced_function(const py::function& function) {
  return [function](const std::vector<Traced>& inputs) {
    const py::object result = function(*py::cast(arrays_of(inputs)));
    Tracing& tracing = *Tracing::current();
    std::vector<Traced> out;
    if (py::isinstance<Array>(result)) return std::vector{result.cast<ArrayPtr>()->in(tracing)};
    for (const auto& value : result) out.push_back(value.cast<ArrayPtr>()->in(tracing));
    return out;
  };
}

/// A Python function of an array, as the graph calls it; its exceptions become errors of the step.
std::int64_t called_back(const py::function& function) {
  const auto* const kept = new py::function(function);  // until the process ends, when Python is gone
  return add_call_back([kept](const TensorView& x, const TensorView& y) {
    const py::gil_scoped_acquire gil;
    try {
      Tensor operand({x.dtype, x.shape});
      std::memcpy(operand.bytes().data(), x.data, operand.bytes().size());
      const std::shared_ptr<Tensor> result =
          array_of((*kept)(std::make_shared<Array>(std::move(operand))))->elements();
      const Type type{y.dtype, y.shape};
      if (result->type() != type)
        throw error("a function that is called back returned {} and not {}", to_text(result->type()),
                    to_text(type));
      std::memcpy(y.data, std::as_const(*result).bytes().data(), static_cast<std::size_t>(type.bytes()));
    } catch (const py::error_already_set& e) {
      throw Error(e.what(), e.matches(PyExc_ConnectionError) ? ErrorKind::peer : ErrorKind::user);
    }
  });
}

/// What several operators do together, as C++ writes it: in the trace that runs, else one after the other at once.
template <class F>
std::vector<ArrayPtr> composed(const std::vector<ArrayPtr>& operands, F function) {
  if (Tracing* const tracing = Tracing::current()) {
    std::vector<Traced> in;
    for (const ArrayPtr& a : operands) in.push_back(a->in(*tracing));
    return arrays_of(function(in));
  }
  Trace trace;
  std::vector<Traced> in;
  std::map<ValueId, Tensor> values;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    in.push_back(trace.input(fmt::format("x{}", i), operands[i]->type()));
    values[in.back().id] = lent(operands[i]->elements());
  }
  const std::vector<Traced> results = function(in);
  for (const Node& node : trace.graph().nodes) {
    if (node.op->kind != OpKind::compute) continue;
    std::vector<Tensor> read;
    for (ValueId v : node.operands) read.push_back(values.at(v));
    std::vector<Tensor> made = run_operator(*node.op, read, node.attributes);
    for (std::size_t r = 0; r < made.size(); ++r) values[node.results[r]] = std::move(made[r]);
  }
  std::vector<ArrayPtr> out;
  for (const Traced& t : results) out.push_back(std::make_shared<Array>(values.at(t.id)));
  return out;
}

/// Of an operator that has no name: after the module whose parameter it reads, `dense1.matmul` beside `dense1.weight`.
std::string name_after_parameters(const std::string& op, const std::vector<ArrayPtr>& operands) {
  for (const ArrayPtr& a : operands)
    if (const auto* const leaf = dynamic_cast<const Leaf*>(a.get()))
      if (const std::size_t end = leaf->name().rfind('.'); end != std::string::npos)
        return fmt::format("{}.{}", leaf->name().substr(0, end), op);
  return op;
}

Traced cross_entropy_of_rows(Traced logits, Traced labels) {
  Trace& trace = *logits.trace;
  return {&trace, cross_entropy(trace.builder(), logits.id, labels.id, trace.is_mixed(), "cross_entropy")};
}

std::vector<Traced> in_current(const std::vector<ArrayPtr>& arrays) {
  std::vector<Traced> out;
  for (const ArrayPtr& a : arrays) out.push_back(a->in(*Tracing::current()));
  return out;
}

}  // namespace

std::vector<ArrayPtr> call(const std::string& op, const std::vector<ArrayPtr>& operands,
                           const Attributes& attributes, const std::string& name) {
  if (Tracing* const tracing = Tracing::current()) {
    std::vector<Traced> values;
    values.reserve(operands.size());
    for (const ArrayPtr& a : operands) values.push_back(a->in(*tracing));
    return arrays_of(
        tracing->call(op, values, attributes, name.empty() ? name_after_parameters(op, operands) : name));
  }
  std::vector<Tensor> values;
  values.reserve(operands.size());
  for (const ArrayPtr& a : operands) values.push_back(lent(a->elements()));
  std::vector<ArrayPtr> out;
  for (Tensor& t : run_operator(find_op(op), values, attributes))
    out.push_back(std::make_shared<Array>(std::move(t)));
  return out;
}

void bind_operators(py::module_& m) {
  m.def(
      "call",
      [](const std::string& op, const std::vector<ArrayPtr>& operands, const std::string& name,
         const py::object& in, const py::object& out, bool host, const py::kwargs& attributes) -> py::object {
        std::vector<ArrayPtr> results = call(op, operands, attributes_of(attributes), name);
        Tracing* const tracing = Tracing::current();
        if (tracing && (host || !(in.is_none() && out.is_none()))) {
          Trace& trace = tracing->trace;
          const std::string& node = trace.graph().value(results.front()->in(*tracing).id).name;
          if (host) trace.constraints().hosted.insert(node);
          if (!(in.is_none() && out.is_none()))
            trace.constraints().tensors[node] = annotation_of(node, splits_of(in), splits_of(out));
        }
        return results.size() == 1 ? py::cast(results.front()) : py::object(py::tuple(py::cast(results)));
      },
      py::arg("op"), py::arg("operands"), py::arg("name") = "", py::arg("in_") = py::none(),
      py::arg("out_") = py::none(), py::arg("host") = false);
  m.def("cast", [](const ArrayPtr& x, const std::string& dtype) { return cast(x, dtype_called(dtype)); });
  m.def("binary", [](const std::string& op, const py::object& a, const py::object& b) {
    const bool a_leads = py::isinstance<Array>(a);
    const ArrayPtr first = a_leads ? array_of(a) : beside(a, array_of(b));
    return binary(op, first, a_leads ? beside(b, first) : array_of(b));
  });
  m.def(
      "cross_entropy",
      [](const ArrayPtr& logits, const ArrayPtr& labels, bool is_mean) {
        return composed({logits, labels},
                        [is_mean](const std::vector<Traced>& in) {
                          return std::vector{is_mean ? CrossEntropyLoss{}(in[0], in[1])
                                                     : cross_entropy_of_rows(in[0], in[1])};
                        })
            .front();
      },
      py::arg("logits"), py::arg("labels"), py::arg("is_mean") = true);
  m.def(
      "type_here", [](const ArrayPtr& x) { return numpy_name(dtype_here(*x)); },
      "The type that it has, or enters the trace that runs with.");
  m.def(
      "dropout",
      [](const ArrayPtr& x, double rate, const std::string& name, std::int64_t seed,
         const std::optional<std::int64_t>& number) {
        Tracing* const tracing = Tracing::current();
        if (!tracing && number) {
          Tensor count({DType::f32, {}});
          count.as<float>()[0] = static_cast<float>(*number);
          return call("dropout", {x, std::make_shared<Array>(std::move(count))},
                      {{"rate", rate}, {"seed", seed}, {"name", name}})
              .front();
        }
        if (!tracing || !tracing->is_training) return x;
        return arrays_of({dropout(x->in(*tracing), name, rate, seed)}).front();
      },
      py::arg("x"), py::arg("rate"), py::arg("name"), py::arg("seed"), py::arg("number") = std::nullopt,
      "number: of a call outside of traces, which drops as the step of this number would; none: it keeps "
      "all.");
  m.def("batch_norm", [](const std::vector<ArrayPtr>& in, double epsilon, double momentum,
                         const std::string& name) {
    Tracing* const tracing = Tracing::current();
    if (!tracing || !tracing->is_training)
      return composed(in,
                      [&](const std::vector<Traced>& v) {
                        return std::vector{batch_norm_by(v[0], {v[1], v[2], v[3], v[4], epsilon}, name)};
                      })
          .front();
    std::vector<ValueId> v;
    for (const ArrayPtr& a : in) v.push_back(a->in(*tracing).id);
    const ValueId y =
        batch_norm(tracing->trace.builder(), v[0], {v[1], v[2], v[3], v[4], epsilon, momentum}, name);
    return arrays_of({{&tracing->trace, y}}).front();
  });
  m.def("array_of", [](const py::object& x) { return array_of(x); });
  m.def(
      "call_back",
      [](const py::function& function, const py::function& gradient, const ArrayPtr& x,
         const std::optional<Shape>& shape, const std::string& name) {
        Tracing* const tracing = Tracing::current();
        if (!tracing) return array_of(function(x));
        tracing->calls_back = true;
        Attributes attributes{{"function", called_back(function)}, {"gradient", called_back(gradient)}};
        if (shape) attributes.set("shape", *shape);
        return call("call_back", {x}, attributes, name).front();
      },
      py::arg("function"), py::arg("gradient"), py::arg("x"), py::arg("shape") = std::nullopt,
      py::arg("name") = "",
      "function(x), called at each run of the program, which has one device. gradient: of the result's "
      "gradient, x's; "
      "shape: of the result, if it is not x's.");
  m.def("sharded", [](const py::function& function, const std::vector<ArrayPtr>& inputs, const py::object& in,
                      const py::object& out, const py::dict& parameters, const std::string& name) {
    ShardOptions options{.in = splits_of(in), .out = splits_of(out), .parameters = {}, .name = name};
    for (const auto& [key, split] : parameters) options.parameters[key.cast<std::string>()] = split_of(split);
    return arrays_of(call_sharded(traced_function(function), in_current(inputs), options));
  });
  m.def("recomputed", [](const py::function& function, const std::vector<ArrayPtr>& inputs,
                         bool communication, bool shard_kept, const std::string& name) {
    return arrays_of(
        call_recomputed(traced_function(function), in_current(inputs),
                        {.communication = communication, .shard_kept = shard_kept, .name = name}));
  });
  m.def("reshard", [](const ArrayPtr& x, const py::object& layout, const std::string& name) {
    return std::make_shared<Array>(reshard(x->in(*Tracing::current()), split_of(layout), name));
  });
  m.def("short_name",
        [](const std::string& dtype) { return std::string(shardwright::name_of(dtype_called(dtype))); });
  m.def("operator_names", [] {
    std::vector<std::string> out;
    for (const OpDef& op : all_ops())
      if (op.kind == OpKind::compute && !op.optimizer) out.push_back(op.name);
    return out;
  });
  m.def("operator_doc", [](const std::string& op) { return find_op(op).doc; });

  auto tensor = py::type::of<Array>();
  const auto add = [&](const char* name, auto function) {
    tensor.attr(name) = py::cpp_function(function, py::is_method(tensor), py::is_operator());
  };
  add("__add__", python_operator("add"));
  add("__radd__", python_operator<true>("add"));
  add("__sub__", python_operator("sub"));
  add("__rsub__", python_operator<true>("sub"));
  add("__mul__", python_operator("mul"));
  add("__rmul__", python_operator<true>("mul"));
  add("__truediv__", python_operator("div"));
  add("__rtruediv__", python_operator<true>("div"));
  add("__pow__", python_operator("pow"));
  add("__rpow__", python_operator<true>("pow"));
  add("__eq__", python_operator("equal"));
  add("__ne__", python_operator("not_equal"));
  add("__lt__", python_operator("less"));
  add("__le__", python_operator("less_equal"));
  add("__gt__", python_operator("greater"));
  add("__ge__", python_operator("greater_equal"));
  tensor.attr("__hash__") = py::module_::import("builtins").attr("object").attr("__hash__");
  add("__matmul__", [](const ArrayPtr& a, const py::object& b) { return matmul(a, array_of(b)); });
  add("__rmatmul__", [](const ArrayPtr& b, const py::object& a) { return matmul(array_of(a), b); });
  add("__neg__", [](const ArrayPtr& a) { return call("neg", {a}, {}).front(); });
  add("__getitem__", [](const ArrayPtr& a, const py::object& index) { return item(a, index); });
}

}  // namespace shardwright::python

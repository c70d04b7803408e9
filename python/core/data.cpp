// Data sets and what is done with them. Functions of Python's are called with tensors and give sequences of arrays; data
// sets that have one in them are read by the thread that asks, all others on a thread of their own.
#include "python/core/data.h"

#include <pybind11/stl.h>

#include "python/core/array.h"
#include "shardwright/runtime/data/bucket_order.h"
#include "shardwright/runtime/data/cifar.h"
#include "shardwright/runtime/data/image_file.h"
#include "shardwright/runtime/data/image_folder.h"
#include "shardwright/runtime/data/row_reader.h"
#include "shardwright/runtime/data/token_file.h"

namespace shardwright::python {
namespace {

/// Kept by closures, which may be copied and end where the interpreter is not held.
using Object = std::shared_ptr<py::object>;
Object kept(py::object object) {
  return {new py::object(std::move(object)), [](py::object* o) {
            const py::gil_scoped_acquire gil;
            delete o;
          }};
}

py::tuple arrays_of(std::vector<Tensor> values) {
  py::tuple out(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    out[i] = py::cast(std::make_shared<Array>(std::move(values[i])));
  return out;
}

std::vector<Tensor> tensors_of(const py::handle& arrays) {
  std::vector<Tensor> out;
  for (const py::handle& a : arrays)
    out.push_back(py::isinstance<Array>(a) ? *a.cast<ArrayPtr>()->elements() : tensor_of_buffer(a));
  return out;
}

Transform python_transform(py::object function, std::string name) {
  return {.name = std::move(name),
          .types = [](const std::vector<SampleType>&) { return std::vector<SampleType>{}; },
          .apply = [f = kept(std::move(function))](
                       std::vector<Tensor> values,
                       Chance&) { return tensors_of((*f)(*arrays_of(std::move(values)))); },
          .is_threaded = false};
}

DataRows python_rows(const std::vector<std::string>& columns) {
  DataRows rows;
  for (const std::string& name : columns) rows.columns.push_back({name, std::nullopt});
  rows.is_threaded = false;
  return rows;
}

DataRow row_of(const py::handle& arrays, const std::vector<Column>& columns, std::int64_t epoch,
               std::int64_t index) {
  DataRow row{.values = tensors_of(arrays), .epoch = epoch, .sample = index};
  if (row.values.size() != columns.size())
    throw error("row {} has {} values for {} columns", index, row.values.size(), columns.size());
  return row;
}

/// Rows by number.
Dataset indexed(py::object row, std::int64_t count, const std::vector<std::string>& columns) {
  DataRows rows = python_rows(columns);
  rows.count = [count] { return count; };
  rows.row = [row = kept(std::move(row)), count, made = rows.columns](
                 std::int64_t epoch, std::int64_t index) -> std::optional<DataRow> {
    if (index >= count) return std::nullopt;
    return row_of((*row)(index), made, epoch, index);
  };
  return Dataset::reading(std::move(rows));
}

/// What the iterators give that `start` returns: one for an epoch, or one more where an earlier row is asked for.
class Stream {
 public:
  Stream(py::object start, std::vector<Column> columns)
      : start_(std::move(start)), columns_(std::move(columns)) {}

  std::optional<DataRow> at(std::int64_t epoch, std::int64_t index) {
    if (epoch != epoch_ || index < next_) {
      iterator_ = py::iter(start_());
      epoch_ = epoch;
      next_ = 0;
      has_ended_ = false;
    }
    std::optional<DataRow> row;
    for (; next_ <= index && !has_ended_; ++next_) {
      const py::object item = py::reinterpret_steal<py::object>(PyIter_Next(iterator_.ptr()));
      if (PyErr_Occurred() != nullptr) throw py::error_already_set();
      has_ended_ = !item;
      if (has_ended_) return std::nullopt;
      if (next_ == index) row = row_of(item, columns_, epoch, index);
    }
    return row;
  }
  std::int64_t count() {
    std::int64_t n = 0;
    for ([[maybe_unused]] const py::handle& row : py::iter(start_())) ++n;
    return n;
  }

 private:
  py::object start_;
  py::object iterator_;
  std::vector<Column> columns_;
  std::int64_t epoch_ = -1, next_ = 0;
  bool has_ended_ = false;
};

Dataset streamed(py::object start, const std::vector<std::string>& columns) {
  DataRows rows = python_rows(columns);
  rows.is_stream = true;
  const std::shared_ptr<Stream> stream(new Stream(std::move(start), rows.columns), [](Stream* s) {
    const py::gil_scoped_acquire gil;
    delete s;
  });
  rows.count = [stream, counted = std::make_shared<std::optional<std::int64_t>>()] {
    if (!*counted) *counted = stream->count();
    return **counted;
  };
  rows.row = [stream](std::int64_t epoch, std::int64_t index) { return stream->at(epoch, index); };
  return Dataset::reading(std::move(rows));
}

Dataset of_arrays(const std::vector<std::pair<std::string, py::object>>& columns) {
  std::vector<std::pair<std::string, Tensor>> all;
  for (const auto& [name, array] : columns) all.emplace_back(name, lent(array_of(array)->elements()));
  return Dataset::of(std::move(all));
}

/// The rows of an epoch.
class Rows {
 public:
  Rows(Dataset data, std::int64_t epoch, std::int64_t ahead)
      : is_threaded_(data.rows().is_threaded && ahead > 0),
        reader_(std::move(data), {.epoch = epoch, .ahead = ahead}) {}

  py::tuple next() {
    std::optional<DataRow> row = is_threaded_ ? waited() : reader_.next();
    if (!row) throw py::stop_iteration();
    return arrays_of(std::move(row->values));
  }

 private:
  /// Without the interpreter; signals are looked at meanwhile.
  std::optional<DataRow> waited() {
    constexpr std::chrono::milliseconds a_while(50);
    for (;;) {
      {
        const py::gil_scoped_release others_run;
        if (reader_.wait_for(a_while)) return reader_.next();
      }
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    }
  }

  bool is_threaded_;
  RowReader reader_;
};

MnistPart mnist_part(const std::string& name) {
  if (name == "train") return MnistPart::train;
  if (name == "test") return MnistPart::test;
  throw error("part '{}' of MNIST does not exist; there are train, test and all", name);
}

CifarPart cifar_part(const std::string& name) {
  if (name == "train") return CifarPart::train;
  if (name == "test") return CifarPart::test;
  if (name == "all") return CifarPart::all;
  throw error("part '{}' of CIFAR does not exist; there are train, test and all", name);
}

Dataset mnist(const std::string& folder, const std::string& part) {
  if (part != "all") return mnist_dataset(folder, mnist_part(part));
  return mnist_dataset(folder, MnistPart::train).concat(mnist_dataset(folder, MnistPart::test));
}

Pixels pixels_called(const std::string& name) {
  if (name == "nearest") return Pixels::nearest;
  if (name == "linear") return Pixels::linear;
  if (name == "area") return Pixels::area;
  throw error("interpolation '{}' does not exist; there are nearest, linear and area", name);
}

using Sides = std::pair<std::int64_t, std::int64_t>;
using Share = std::pair<double, double>;
Size size_of_pair(const Sides& s) { return {s.first, s.second}; }

/// What numpy calls it and the dims, of which None differ; None if nothing is known.
py::object type_of(const SampleType& type) {
  if (!type) return py::none();
  py::list dims;
  for (const std::int64_t d : type->shape) dims.append(d == any_size ? py::object(py::none()) : py::int_(d));
  return py::make_tuple(numpy_name(type->dtype), py::tuple(dims));
}

void bind_bucket_order(py::module_& m) {
  py::class_<BucketOrder>(m, "BucketOrder", "In which order samples of all lengths come.")
      .def(py::init([](const std::vector<std::int64_t>& samples, std::vector<std::int64_t> lengths,
                       std::int64_t batch, std::uint64_t seed) {
             return BucketOrder(samples, {.lengths = std::move(lengths), .batch = batch, .seed = seed});
           }),
           py::arg("samples"), py::arg("lengths"), py::arg("batch"), py::arg("seed"))
      .def(
          "at_step",
          [](const BucketOrder& self, std::int64_t step) {
            const BucketOrder::Planned batch = self.at_step(step);
            return py::make_tuple(self.options().lengths[batch.bucket], batch.samples);
          },
          "The length of a step's batch, and its samples.")
      .def_property_readonly("batches_per_epoch", &BucketOrder::batches_per_epoch)
      .def_property_readonly("samples", &BucketOrder::samples, "Of each length.");
}

void bind_transforms(py::module_& m) {
  bind_bucket_order(m);
  static std::int64_t calls = 0;  // of random transforms outside of a pipeline: each has another chance
  py::class_<Transform>(m, "Transform", "A function of columns of a row.")
      .def_readonly("name", &Transform::name)
      .def("__call__", [](const Transform& self, const py::args& values) {
        return arrays_of(transformed({self}, tensors_of(values), calls++));
      });
  m.def("rescale", &rescale, py::arg("factor"), py::arg("shift") = 0.0, "x * factor + shift, float32");
  m.def(
      "normalize",
      [](std::vector<double> mean, std::vector<double> std, bool channels_first) {
        return normalize(std::move(mean), std::move(std), channels_first ? Channels::first : Channels::last);
      },
      py::arg("mean"), py::arg("std"), py::arg("channels_first") = false, "(x - mean) / std of each channel");
  m.def("hwc_to_chw", &hwc_to_chw, "[height, width, channels] becomes [channels, height, width]");
  m.def(
      "cast", [](const std::string& dtype) { return type_cast(dtype_called(dtype)); }, py::arg("dtype"));
  m.def("reshape", &reshape, py::arg("shape"), "The same elements of each sample in another shape");
  m.def("one_hot", &one_hot, py::arg("classes"), "int32, 1 at the place of the class, else 0");
  m.def(
      "resize",
      [](const std::variant<std::int64_t, Sides>& size, const std::string& interpolation) {
        const Pixels pixels = pixels_called(interpolation);
        if (const auto* side = std::get_if<std::int64_t>(&size)) return resize(*side, pixels);
        return resize(size_of_pair(std::get<Sides>(size)), pixels);
      },
      py::arg("size"), py::arg("interpolation") = "linear",
      "To (height, width), or the shorter side to one number; interpolation: nearest, linear or area");
  m.def(
      "center_crop", [](const Sides& size) { return center_crop(size_of_pair(size)); }, py::arg("size"));
  m.def(
      "random_crop",
      [](const Sides& size, const std::array<std::int64_t, 4>& padding, std::uint64_t seed) {
        return random_crop(size_of_pair(size), {padding[0], padding[1], padding[2], padding[3]}, seed);
      },
      py::arg("size"), py::arg("padding") = std::array<std::int64_t, 4>{}, py::arg("seed") = 1,
      "A part of the image with zeros around it: left, top, right, bottom");
  m.def(
      "random_resized_crop",
      [](const Sides& size, const Share& area, const Share& ratio, const std::string& interpolation,
         std::uint64_t seed) {
        return random_resized_crop(size_of_pair(size),
                                   {.area = {area.first, area.second}, .ratio = {ratio.first, ratio.second}},
                                   seed, pixels_called(interpolation));
      },
      py::arg("size"), py::arg("area") = Share{0.08, 1.0}, py::arg("ratio") = Share{3.0 / 4, 4.0 / 3},
      py::arg("interpolation") = "linear", py::arg("seed") = 1,
      "A part of a random share of the image's area, brought to a size");
  m.def("random_horizontal_flip", &random_horizontal_flip, py::arg("probability") = 0.5, py::arg("seed") = 1);
  m.def("random_vertical_flip", &random_vertical_flip, py::arg("probability") = 0.5, py::arg("seed") = 1);
  m.def("slice_patches", &slice_patches, py::arg("rows"), py::arg("columns"),
        "rows x columns equal parts, as many columns of the data set");
  m.def("decode", &decode_image, "The bytes of an image file become uint8 [height, width, 3]");
  m.def("of_python", &python_transform, py::arg("function"), py::arg("name"),
        "A function of tensors that gives a sequence of arrays");
}

void bind_dataset(py::module_& m) {
  py::class_<Rows>(m, "Rows", "The rows of an epoch, tuples of tensors.")
      .def("__iter__", [](py::object self) { return self; })
      .def("__next__", &Rows::next);
  py::class_<Dataset>(m, "Dataset", "Rows of named columns.")
      .def("map",
           [](const Dataset& self, const std::vector<std::string>& inputs,
              const std::vector<Transform>& transforms,
              std::vector<std::string> outputs) { return self.map(inputs, transforms, std::move(outputs)); })
      .def(
          "shuffle",
          [](const Dataset& self, std::uint64_t seed, std::optional<std::int64_t> buffer) {
            return buffer ? self.shuffle(seed, *buffer) : self.shuffle(seed);
          },
          py::arg("seed"), py::arg("buffer") = std::nullopt)
      .def("batch",
           [](const Dataset& self, std::int64_t size, bool is_dropped) {
             return self.batch(size, is_dropped ? Remainder::dropped : Remainder::kept);
           })
      .def("shard", &Dataset::shard)
      .def("repeat", &Dataset::repeat)
      .def("take", &Dataset::take)
      .def("skip", &Dataset::skip)
      .def("project", &Dataset::project)
      .def("rename", &Dataset::rename)
      .def("zip", &Dataset::zip)
      .def("concat", &Dataset::concat)
      .def("count", &Dataset::samples)
      .def_property_readonly("columns", &Dataset::columns)
      .def_property_readonly("types",
                             [](const Dataset& self) {
                               py::list types;
                               for (const Column& c : self.rows().columns) types.append(type_of(c.type));
                               return types;
                             })
      .def_property_readonly("batch_size", [](const Dataset& self) { return self.rows().batch; })
      .def_property_readonly("repeats", [](const Dataset& self) { return self.rows().repeats; })
      .def_property_readonly("is_endless", [](const Dataset& self) { return self.rows().is_endless; })
      .def_property_readonly("is_stream", [](const Dataset& self) { return self.rows().is_stream; })
      .def_property_readonly("is_threaded", [](const Dataset& self) { return self.rows().is_threaded; })
      .def(
          "read",
          [](const Dataset& self, std::int64_t epoch, std::int64_t ahead) {
            if (ahead < 0) throw error("{} rows cannot be read ahead; 0 or more can", ahead);
            return std::make_unique<Rows>(self, epoch, ahead);
          },
          py::arg("epoch"), py::arg("ahead") = 4);
}

}  // namespace

void bind_data(py::module_& m) {
  py::module_ data = m.def_submodule("data", "Data sets.");
  bind_transforms(data);
  bind_dataset(data);
  data.def("arrays", &of_arrays, "Pairs of names and arrays, whose first dim is the sample");
  data.def("indexed", &indexed, py::arg("row"), py::arg("count"), py::arg("columns"));
  data.def("streamed", &streamed, py::arg("start"), py::arg("columns"));
  data.def("mnist", &mnist, py::arg("folder"), py::arg("part") = "train");
  data.def(
      "cifar",
      [](const std::string& folder, int classes, const std::string& part) {
        return cifar_dataset(folder, classes == 10 ? Cifar::ten : Cifar::hundred, cifar_part(part));
      },
      py::arg("folder"), py::arg("classes"), py::arg("part") = "train");
  data.def(
      "image_folder",
      [](const std::string& folder, bool is_decoded) {
        return image_folder_dataset(folder, is_decoded ? Decoding::now : Decoding::later);
      },
      py::arg("folder"), py::arg("decode") = true);
  data.def(
      "image_classes", [](const std::string& folder) { return list_images(folder).classes; },
      py::arg("folder"));
  data.def(
      "tokens",
      [](const std::string& path, std::int64_t length, std::int64_t bytes) {
        return token_dataset(path, {.length = length, .bytes = bytes});
      },
      py::arg("path"), py::arg("length"), py::arg("bytes") = 2);
  data.def(
      "read_image", [](const std::string& path) { return std::make_shared<Array>(read_image(path)); },
      py::arg("path"), "A PNG, JPEG or PNM file as uint8 [height, width, 3]");
}

}  // namespace shardwright::python

// A safetensors file of data as a model's inputs: under their own names, or under those that its makers use (`input_ids`, `labels`),
// brought into the form that the network takes.
#pragma once

#include <string>

#include "shardwright/frontend/model.h"
#include "shardwright/runtime/safetensors.h"

namespace shardwright {

class DataColumns {
 public:
  DataColumns(SafetensorsFile file, std::map<std::string, DataName> names)
      : file_(std::move(file)), names_(std::move(names)) {}

  const std::string& path() const { return file_.path(); }
  bool has(const std::string& input) const { return file_.has(called(input)); }
  /// What it is called in the file: as the model's makers call it where the file does so, too.
  const std::string& called(const std::string& input) const;
  const Type& type(const std::string& input) const { return file_.type(called(input)); }
  Tensor read(const std::string& input) const { return moved(input, file_.read(called(input))); }
  /// Step `index`.
  Tensor read_slice(const std::string& input, std::int64_t index) const {
    return moved(input, file_.read_slice(called(input), index));
  }

 private:
  /// Labels of an element to where it is predicted; nothing is asked of the last.
  Tensor moved(const std::string& input, Tensor t) const;

  SafetensorsFile file_;
  std::map<std::string, DataName> names_;
};

/// Of the file `path`. Throws: Error if it has what changes the numbers of a folder's network, but this one does not take it.
DataColumns data_columns(const Model& model, const std::string& path);

/// Where elements stand in their documents, as makers of models call it.
constexpr const char* places_name = "position_ids";
/// Whether the model's data say that.
bool takes_places(const Model& model);

/// The inputs of whole steps that data bring; what `label_weights` names is made of labels. The model is for one of a step's
/// micro-batches.
std::map<std::string, Type> brought_inputs(const Model& model, int micro_batches = 1);
/// Adds the weights of labels to the columns of a batch, or, if `of_all` samples come in batches of `batch`, to all columns.
void add_label_weights(const Model& model, std::map<std::string, Tensor>& columns, std::int64_t batch);

}  // namespace shardwright

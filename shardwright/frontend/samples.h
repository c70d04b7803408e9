// Samples of folders and files, as a model's inputs want them: MNIST, CIFAR, images in a folder for each class, tokens, texts,
// columns.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>
#include <memory>
#include <string>

#include "shardwright/frontend/model.h"
#include "shardwright/frontend/sample_source.h"
#include "shardwright/runtime/data/dataset.h"
#include "shardwright/runtime/data/marked_tokens.h"
#include "shardwright/runtime/data/row_reader.h"

namespace shardwright {

enum class SamplePart { train, test };

/// Columns `input` and `label`, or as the model's inputs. What the path holds, it and the model's inputs tell.
/// Throws: Error if samples do not fit the model's inputs, naming both types, or there are none.
Dataset samples_for(const Model& model, const std::map<std::string, Type>& inputs, const SampleSource& source,
                    SamplePart part);
/// The documents of a part, in memory, for a model of tokens whose labels may be left out.
/// Throws: Error if what lies there is no text and no tokens, or nothing says where documents end.
MarkedTokens documents_for(const Model& model, const SampleSource& source, SamplePart part);
/// A line that names what a file has and no input takes, if there is something.
void tell_unread_columns(const Model& model, const SampleSource& source, SamplePart part,
                         std::ostream& notices);
/// What they are called in messages: `MNIST for model 'ffn'`.
std::string samples_called(const Model& model, const std::map<std::string, Type>& inputs,
                           const SampleSource& source);

/// Batches by step, made ahead on another thread while steps are asked for in their order.
class StepReader {
 public:
  explicit StepReader(Dataset data) : data_(std::move(data)) {}
  Batch at(std::int64_t step);

 private:
  Dataset data_;
  std::int64_t next_ = -1;
  std::unique_ptr<RowReader> reader_;
};

}  // namespace shardwright

#include "shardwright/frontend/samples.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <ostream>

#include "shardwright/base/error.h"
#include "shardwright/base/text.h"
#include "shardwright/frontend/data_columns.h"
#include "shardwright/frontend/written_inputs.h"
#include "shardwright/runtime/data/cifar.h"
#include "shardwright/runtime/data/documents.h"
#include "shardwright/runtime/data/image_folder.h"
#include "shardwright/runtime/data/token_file.h"
#include "shardwright/runtime/data/tokenized.h"

namespace shardwright {
namespace {

namespace fs = std::filesystem;
using Inputs = std::map<std::string, Type>;

enum class Kind { mnist, cifar10, cifar100, images, tokens, columns };

bool are_tokens(const Inputs& inputs) {
  const auto input = inputs.find("input");
  return input != inputs.end() && !is_floating(input->second.dtype);
}

/// The folder of a part, if the images lie in folders for both; else the one that holds the classes.
std::string image_folder_of(const std::string& directory, SamplePart part) {
  if (part == SamplePart::train)
    return has_image_folders(directory + "/train") ? directory + "/train" : directory;
  for (const char* name : {"/test", "/val"})
    if (has_image_folders(directory + name)) return directory + name;
  return directory;
}

/// The folder or file of a part; the path itself, where parts do not lie apart.
std::string columns_path_of(const std::string& path, SamplePart part) {
  std::error_code none;
  if (!fs::is_directory(path, none)) return path;
  const bool is_train = part == SamplePart::train;
  for (const char* name : {is_train ? "train" : "test", is_train ? "train" : "val"})
    for (const char* end : {".csv", ".tsv", ""})
      if (const std::string own = fmt::format("{}/{}{}", path, name, end); fs::exists(own, none)) return own;
  return path;
}

/// Texts for a tokenizer may lie in such a file, too; a table may lie beside images.
bool are_columns(const Inputs& inputs, const SampleSource& source) {
  if (!source.tokenizer.empty() || has_image_folders(image_folder_of(source.path, SamplePart::train)))
    return false;
  return std::ranges::any_of(std::array{SamplePart::train, SamplePart::test}, [&](SamplePart part) {
    return has_columns(columns_path_of(source.path, part), inputs);
  });
}

Kind kind_of(const Inputs& inputs, const SampleSource& source) {
  const std::string& path = source.path;
  if (are_columns(inputs, source)) return Kind::columns;
  if (are_tokens(inputs)) return Kind::tokens;
  if (has_cifar(path, Cifar::ten, CifarPart::all)) return Kind::cifar10;
  if (has_cifar(path, Cifar::hundred, CifarPart::all)) return Kind::cifar100;
  if (has_image_folders(image_folder_of(path, SamplePart::train))) return Kind::images;
  return Kind::mnist;  // which says what is missing
}

/// Of a sample of the model's input.
Shape sample_of(const Type& input) {
  if (input.shape.empty()) throw error("the model's input is a scalar; there is room for no sample");
  return {input.shape.begin() + 1, input.shape.end()};
}

/// Images [height, width, channels] and labels, as a network takes them.
Dataset as_inputs(const Dataset& data, const Inputs& inputs, std::vector<Transform> image) {
  const Type &input = inputs.at("input"), &label = inputs.at("label");
  for (const Transform& t : {hwc_to_chw(), reshape(sample_of(input)), type_cast(input.dtype)})
    image.push_back(t);
  return data.map("image", image)
      .map("label", {type_cast(label.dtype), reshape(sample_of(label))})
      .rename({"image"}, {"input"});
}

Dataset of_mnist(const Inputs& inputs, const std::string& directory, SamplePart part) {
  return as_inputs(mnist_dataset(directory, part == SamplePart::train ? MnistPart::train : MnistPart::test),
                   inputs, {rescale(1 / 255.0, 0), normalize({0.1307}, {0.3081})});
}

Dataset of_cifar(const Inputs& inputs, const std::string& directory, Cifar kind, SamplePart part) {
  Dataset data =
      cifar_dataset(directory, kind, part == SamplePart::train ? CifarPart::train : CifarPart::test);
  if (kind == Cifar::hundred) data = data.project({"image", "fine_label"}).rename({"fine_label"}, {"label"});
  return as_inputs(data, inputs,
                   {rescale(1 / 255.0, 0), normalize({0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616})});
}

/// Of any size: the shorter side is brought to the model's, the middle is taken.
Dataset of_images(const Inputs& inputs, const std::string& directory, SamplePart part) {
  const Shape sample = sample_of(inputs.at("input"));
  if (sample.size() != 3 || sample[0] != 3)
    throw error(
        "images have 3 colours and any size, but the model takes {} of each; it should be [3, height, width]",
        to_text(sample));
  return as_inputs(image_folder_dataset(image_folder_of(directory, part)), inputs,
                   {resize(std::max(sample[1], sample[2])), center_crop({sample[1], sample[2]}),
                    rescale(1 / 255.0, 0), normalize({0.485, 0.456, 0.406}, {0.229, 0.224, 0.225})});
}

constexpr const char* ends_of_tokens[] = {".bin", ".npy"};
constexpr const char* ends_of_texts[] = {".txt", ".jsonl"};

/// The file itself, or that of the part in a folder: of tokens, else of texts.
std::string sequence_file_of(const std::string& path, SamplePart part) {
  std::error_code why;
  if (!fs::is_directory(path, why)) return path;
  const bool is_train = part == SamplePart::train;
  for (const auto& ends : {ends_of_tokens, ends_of_texts})
    for (const char* name : {is_train ? "train" : "val", is_train ? "train" : "test"})
      for (const char* end : {ends[0], ends[1]})
        if (const std::string file = fmt::format("{}/{}{}", path, name, end); fs::exists(file, why))
          return file;
  throw io_error("{}: has no tokens and no texts: no {}.bin, .npy, .txt or .jsonl", path,
                 is_train ? "train" : "val");
}

/// What stands behind a document, by what is said, else by the tokenizer.
std::optional<std::int32_t> end_of_documents(const SampleSource& source,
                                             const std::optional<Tokenizer>& tokenizer) {
  if (source.end.empty()) return tokenizer ? tokenizer->end_of_document() : std::nullopt;
  if (source.end == "none") return std::nullopt;
  if (tokenizer)
    if (const auto id = tokenizer->id_of(source.end)) return id;
  if (const auto id = to_integer(source.end);
      id && *id >= 0 && *id <= std::numeric_limits<std::int32_t>::max())
    return static_cast<std::int32_t>(*id);
  throw error(
      "--end {}: is no number of a token{}", source.end,
      tokenizer ? " and none of the texts of " + source.tokenizer : "; --tokenizer knows them by text");
}

/// All in memory. Throws: Error that names the first token that the model does not know.
MarkedTokens tokens_of_text(const SampleSource& source, const std::string& path,
                            const std::optional<Tokenizer>& tokenizer, std::int64_t known) {
  if (!tokenizer)
    throw error("{} is text; --tokenizer FOLDER|tokenizer.json says how it becomes tokens", path);
  MarkedTokens out = source.are_talks ? talks_of(*tokenizer, path, read_chat_template(source.tokenizer))
                                      : tokens_of(*tokenizer, path, end_of_documents(source, tokenizer));
  const auto odd =
      std::ranges::find_if(out.ids, [&](std::int32_t token) { return known > 0 && token >= known; });
  if (odd != out.ids.end())
    throw error("{}: token {} is {} ('{}') by {}, but the model knows {}; it takes vocab={} or more", path,
                odd - out.ids.begin(), *odd, tokenizer->token(*odd), source.tokenizer, known,
                tokenizer->vocabulary());
  return out;
}

/// A file of tokens or texts, as it is asked for.
struct AskedTokens {
  std::string path;
  bool is_text = false;
  std::optional<Tokenizer> tokenizer;
  std::optional<std::int32_t> end;  // of documents, in a file of tokens whose documents are told apart
};

/// Throws: Error if talks are asked for that are none, or nothing says where documents end, if they are `are_apart`.
AskedTokens asked_tokens(const Model& model, const SampleSource& source, SamplePart part, bool are_apart) {
  AskedTokens out{.path = sequence_file_of(source.path, part)};
  out.is_text = source.is_text(out.path);
  if (!source.tokenizer.empty()) out.tokenizer = Tokenizer::read(source.tokenizer);
  if (source.are_talks && model.label_weights.empty())
    throw error("{} holds talks, of which only answers are learnt; the model has no labels that are left out",
                out.path);
  if (source.are_talks && !out.is_text)
    throw error("{} holds no talks; they are JSON lines (*.jsonl)", out.path);
  if (out.is_text || !are_apart) return out;
  out.end = end_of_documents(source, out.tokenizer);
  if (!out.end)
    throw error("{}: nothing says where documents end, which are to be kept apart; --end TOKEN does",
                out.path);
  return out;
}

Dataset of_tokens(const Model& model, const Inputs& inputs, const SampleSource& source, SamplePart part) {
  const Shape sample = sample_of(inputs.at("input"));
  if (sample.size() != 1 || inputs.at("label").shape != inputs.at("input").shape)
    throw error("tokens have an input and a label of one length, but the model takes {} and {}",
                to_text(inputs.at("input")), to_text(inputs.at("label")));
  TokenOptions options{
      .length = sample[0], .vocabulary = model.labels.classes, .are_apart = inputs.contains(places_name)};
  const AskedTokens asked = asked_tokens(model, source, part, options.are_apart);
  options.end = asked.end;
  Dataset data = asked.is_text
                     ? token_dataset(tokens_of_text(source, asked.path, asked.tokenizer, options.vocabulary),
                                     asked.path, options)
                     : token_dataset(asked.path, options);
  for (const auto& [name, type] : inputs) data = data.map(name, {type_cast(type.dtype)});
  return data;
}

Dataset of_columns(const Model& model, const Inputs& inputs, const std::string& path, SamplePart part) {
  return written_columns(columns_path_of(path, part), written_inputs(model, inputs, part));
}

Dataset made(Kind kind, const Model& model, const Inputs& inputs, const SampleSource& source,
             SamplePart part) {
  const std::string& path = source.path;
  switch (kind) {
    case Kind::mnist: return of_mnist(inputs, path, part);
    case Kind::cifar10: return of_cifar(inputs, path, Cifar::ten, part);
    case Kind::cifar100: return of_cifar(inputs, path, Cifar::hundred, part);
    case Kind::images: return of_images(inputs, path, part);
    case Kind::columns: return of_columns(model, inputs, path, part);
    case Kind::tokens: break;
  }
  return of_tokens(model, inputs, source, part);
}

}  // namespace

bool SampleSource::is_text(std::string_view file) const {
  if (is_text_file(file)) return true;
  const auto ends_so = [&](const char* end) { return file.ends_with(end); };
  return !tokenizer.empty() && !file.ends_with(".safetensors") &&
         std::ranges::none_of(ends_of_tokens, ends_so);
}

bool SampleSource::is_text() const {
  std::error_code none;
  if (path.empty()) return false;
  if (!fs::is_directory(path, none)) return is_text(path);
  return std::ranges::any_of(ends_of_texts,
                             [&](const char* end) { return fs::exists(path + "/train" + end, none); }) &&
         std::ranges::none_of(ends_of_tokens,
                              [&](const char* end) { return fs::exists(path + "/train" + end, none); });
}

std::string samples_called(const Model& model, const Inputs& inputs, const SampleSource& source) {
  constexpr const char* names[] = {"MNIST", "CIFAR-10", "CIFAR-100", "images", "tokens", "columns"};
  return fmt::format("{} for model '{}'", names[static_cast<std::size_t>(kind_of(inputs, source))],
                     model.name);
}

void tell_unread_columns(const Model& model, const SampleSource& source, SamplePart part,
                         std::ostream& notices) {
  const Inputs inputs = brought_inputs(model);
  if (source.path.empty() || source.path.ends_with(".safetensors") ||
      kind_of(inputs, source) != Kind::columns)
    return;
  const std::string path = columns_path_of(source.path, part);
  const std::vector<std::string> unread = unread_columns(path, written_inputs(model, inputs, part));
  if (unread.empty()) return;
  notices << fmt::format("{}: {} not read, as no input is called so: {}\n", path,
                         unread.size() == 1 ? "a column is" : "columns are", join(unread, ", "));
}

MarkedTokens documents_for(const Model& model, const SampleSource& source, SamplePart part) {
  if (source.path.ends_with(".safetensors"))
    throw error("{}: of documents there are texts and tokens, no tensors", source.path);
  const AskedTokens asked = asked_tokens(model, source, part, true);
  if (asked.is_text) return tokens_of_text(source, asked.path, asked.tokenizer, model.labels.classes);
  return read_marked(asked.path, {.vocabulary = model.labels.classes, .end = asked.end});
}

Dataset samples_for(const Model& model, const Inputs& inputs, const SampleSource& source, SamplePart part) {
  const Kind kind = kind_of(inputs, source);
  if (kind == Kind::columns) return made(kind, model, inputs, source, part);
  std::vector<std::string> names;
  for (const auto& [name, type] : inputs) names.push_back(name);
  const bool has_places = kind == Kind::tokens && inputs.contains(places_name);
  std::error_code none;
  if (!fs::exists(source.path, none)) throw io_error("{}: no such file or folder", source.path);
  if (kind == Kind::mnist && !inputs.contains("input") && !has_mnist(source.path, MnistPart::train))
    throw io_error(
        "{}: is nothing that inputs {} are read from; they are columns of a .csv or .tsv, a .npy each in a "
        "folder, or tensors of a .safetensors",
        source.path, join(names, ", "));
  if (!inputs.contains("input") || !inputs.contains("label") || inputs.size() != (has_places ? 3 : 2))
    throw error("it has {} and labels, but the model takes other inputs",
                kind == Kind::tokens ? "tokens" : "images");
  return made(kind, model, inputs, source, part);
}

Batch StepReader::at(std::int64_t step) {
  const std::int64_t batches = data_.batches_per_epoch(), epoch = step / batches, index = step % batches;
  constexpr std::int64_t ahead = 2;
  if (step != next_ || index == 0 || !reader_)
    reader_ = std::make_unique<RowReader>(data_, ReadAhead{.epoch = epoch, .first = index, .ahead = ahead});
  next_ = step + 1;
  std::optional<DataRow> row = reader_->next();
  require(row.has_value(), "step {} has no batch", step);
  Batch out;
  const std::vector<std::string> columns = data_.columns();
  for (std::size_t c = 0; c < columns.size(); ++c) out.columns.emplace(columns[c], std::move(row->values[c]));
  return out;
}

}  // namespace shardwright

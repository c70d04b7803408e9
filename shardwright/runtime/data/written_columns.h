// Samples as columns, which people write by hand or take from a table: a file of comma separated values, or a folder with a numpy file
// for each input. What there is is read through once, so that what is wrong is told before anything has been trained; then samples
// are read where they lie.
//
//   label,dense.1,dense.2,ids.1,ids.2        an input takes the column of its name, or those called so with a number behind: `dense1`,
//   1,0.5,2,17|3,5                           `dense.1`, `dense_1`, in the order of their numbers
//
// A cell holds as many elements as there are for each column, between `|`. Of a bag of ids, it holds up to as many; what is missing, and
// an empty cell, is none: -1.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "shardwright/runtime/data/dataset.h"

namespace shardwright {

struct WrittenInput {
  Type type;  // of a batch of samples
  // Integers are from `lowest` up to, and without, `below`.
  std::int64_t lowest = std::numeric_limits<std::int64_t>::lowest();
  std::int64_t below = std::numeric_limits<std::int64_t>::max();
  bool are_shares = false;  // numbers are from 0 to 1
  bool are_bags = false;    // of ids, along the last dim
  bool are_words = false;   // ids may be words; the id is that of id_of_word
  bool may_lack = false;    // then there is no column of it
};
using WrittenInputs = std::map<std::string, WrittenInput>;

/// FNV-1a of 64 bits, without its lowest bit: the same on every machine and in every version.
std::int64_t id_of_word(std::string_view word);

/// Whether columns lie there: by the file's name, or because a folder has a numpy file of one of the inputs.
bool has_columns(const std::string& path, const std::map<std::string, Type>& inputs);
/// Columns of a file that no input takes.
std::vector<std::string> unread_columns(const std::string& path, const WrittenInputs& inputs);

/// Columns as the inputs, in their types. Throws: Error of kind io that names the file, and line and column, of what is missing or wrong.
Dataset written_columns(const std::string& path, const WrittenInputs& inputs);

// ---- of one kind of file ----

DataRows csv_rows(const std::string& path, const WrittenInputs& inputs);
DataRows numpy_rows(const std::string& folder, const WrittenInputs& inputs);
/// `FOLDER/INPUT.npy`
std::string numpy_path(const std::string& folder, const std::string& input);
/// Of one sample. Throws: Error if the input is a scalar.
Type sample_type(const std::string& input, const WrittenInput& how);
/// Element `at` of a sample. Throws: Error that says what is held and what should be.
void put_number(Tensor& sample, std::size_t at, double value, const WrittenInput& how);
void put_integer(Tensor& sample, std::size_t at, std::int64_t value, const WrittenInput& how);

}  // namespace shardwright

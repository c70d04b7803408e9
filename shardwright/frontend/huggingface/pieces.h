// Which elements of a folder's tensor are which of a parameter.
#pragma once

#include "shardwright/frontend/model_folder.h"
#include "shardwright/layout/transfer.h"

namespace shardwright::huggingface {

/// What `part` of the parameter, inside `piece.ours`, is of their tensor.
Box theirs_of(const TensorPiece& piece, const Box& part);

/// Brings it from a tensor that holds the part `theirs` of theirs into one that holds `ours` of the parameter.
Piece copy_of(const TensorPiece& piece, const Box& part, const Box& theirs, const Box& ours);
/// The other way.
Piece turned_round(Piece piece);

}  // namespace shardwright::huggingface

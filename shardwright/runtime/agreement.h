// What ranks that are processes of their own have to agree on before they start: each is told everything by itself, and
// ranks that were told different things would train on what is no training, or wait for each other for ever.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardwright {

struct Agreement {
  std::string name;  // `--lr`, `plan`
  std::string
      text;  // the same on all ranks: a value, of a program all of its lines, or the checksum of what is too long
  std::string told;  // what it was made of, as the user wrote it: `--lr 0.1`, `--plan p.json`
};

/// In one line the first difference between what `rank` was told and what rank 0 was; nothing if there is none. What only one
/// of them has comes first: it explains the others.
std::optional<std::string> difference(std::span<const Agreement> rank_0, int rank,
                                      std::span<const Agreement> own);

/// All of them as one text, and back.
std::string packed(std::span<const Agreement> agreements);
std::vector<Agreement> unpacked(std::string_view text);

}  // namespace shardwright

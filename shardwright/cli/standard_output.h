// Standard output whose failures are errors: what cannot be written (the disk is full, the stream is closed) throws where
// it is written, so that no verb ends as if all were said.
#pragma once

#include <array>
#include <iosfwd>
#include <streambuf>

namespace shardwright {

class ProgressLine;

/// Of the terminal that `out` is; 0: it is none, as in a pipe.
std::size_t columns_of(const std::ostream& out);

/// Makes sure that descriptors 0 to 2 are taken: a file that gets the number of a closed stream would get its text.
void take_standard_descriptors();

/// Throws: Error of kind io. A stream passes that on if it has exceptions(std::ios::badbit).
/// A reader that has gone ends the process by SIGPIPE, as is usual.
class StandardOutput : public std::streambuf {
 public:
  /// `line` is on the same terminal, if that is what standard output is; null: there is none.
  explicit StandardOutput(ProgressLine* line = nullptr);

 protected:
  int_type overflow(int_type c) override;
  int sync() override;

 private:
  void drain();

  ProgressLine* line_;
  std::array<char, 1 << 16> buffer_;
};

}  // namespace shardwright

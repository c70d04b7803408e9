#include "shardwright/runtime/checkpoint/reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>

#include "shardwright/base/checksum.h"
#include "shardwright/base/file.h"
#include "shardwright/base/index.h"
#include "shardwright/base/progress.h"
#include "shardwright/runtime/checkpoint/folder.h"
#include "shardwright/runtime/checkpoint/shard.h"
#include "shardwright/runtime/safetensors.h"

namespace shardwright {
namespace {

/// The last block that a thread has read a part of: the next piece often begins where this one ended.
struct LastBlock {
  std::int64_t file = -1, number = -1;
  std::vector<std::byte> bytes;
};

std::int64_t next_file_id() {
  static std::atomic<std::int64_t> id = 0;
  return id++;
}

/// Calls `use(cell)` for the numbers of the cells of the grid that `where` meets.
template <class F>
void for_each_cell(const SavedTensor& tensor, const Box& where, F use) {
  struct Range {
    std::size_t first, end, now;
  };
  std::vector<Range> dims;
  for (std::size_t d = 0; d < tensor.cuts.size(); ++d) {
    const auto& cuts = tensor.cuts[d];
    if (where.extent[d] == 0) return;
    const auto first = at(std::ranges::upper_bound(cuts, where.offset[d]) - cuts.begin() - 1);
    const auto end = at(std::ranges::lower_bound(cuts, where.offset[d] + where.extent[d]) - cuts.begin());
    dims.push_back({first, end, first});
  }
  for (;;) {
    std::size_t cell = 0;
    for (std::size_t d = 0; d < dims.size(); ++d) cell = cell * tensor.cuts[d].size() + dims[d].now;
    use(cell);
    std::size_t d = dims.size();
    while (d > 0 && ++dims[d - 1].now == dims[d - 1].end) --d, dims[d].now = dims[d].first;
    if (d == 0) return;
  }
}

}  // namespace

/// A shard. Not mapped: a file that shrinks meanwhile would end the process, and pages of it would count as its memory.
class CheckpointReader::File {
 public:
  File(std::string path, const Shard& shard, std::int64_t block_bytes)
      : path_(std::move(path)), shard_(shard), block_bytes_(block_bytes) {
    descriptor_ = ::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (descriptor_ < 0)
      throw errno == ELOOP ? io_error("{}: is a link, not a file", path_) : unreadable(path_, errno);
    struct stat status {};
    const bool is_known = ::fstat(descriptor_, &status) == 0;
    const bool is_right = is_known && S_ISREG(status.st_mode) && status.st_size == shard.bytes;
    if (is_right) return;
    ::close(descriptor_);
    if (!is_known || !S_ISREG(status.st_mode)) throw io_error("{}: is no regular file", path_);
    throw io_error("{}: has {} bytes but was written with {}; damaged", path_, status.st_size, shard.bytes);
  }
  ~File() { ::close(descriptor_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  /// Its header, proven. Throws: Error if it does not have part `i` of `tensor`.
  const SafetensorsFile& header_with(const SavedTensor& tensor, std::size_t i) const {
    const std::lock_guard lock(mutex_);
    if (!header_) {
      const auto prove = [this](std::int64_t bytes) {
        std::vector<std::byte> text(at(bytes));
        read(0, text);
      };
      prove(std::min(block_bytes_, shard_.bytes));  // so that damage is told as such
      // Not by its name: the run that has written it may have removed it since.
      SafetensorsFile opened = SafetensorsFile::open(fmt::format("/proc/self/fd/{}", descriptor_));
      prove(opened.head_bytes());
      header_ = std::move(opened);
    }
    const Type expected{tensor.type.dtype, tensor.part(i).extent};
    if (!header_->has(tensor.name) || header_->type(tensor.name) != expected)
      throw io_error("{}: should hold '{}' as {}; it does not belong to this manifest", path_, tensor.name,
                     to_text(expected));
    return *header_;
  }

  /// Bytes from `begin` on. Whole blocks go straight to where they should be.
  void read(std::int64_t begin, std::span<std::byte> to) const {
    while (!to.empty()) {
      const std::int64_t block = begin / block_bytes_, first = block * block_bytes_;
      const std::int64_t size = std::min(block_bytes_, shard_.bytes - first);
      const std::int64_t skipped = begin - first;
      const auto taken = std::min<std::int64_t>(size - skipped, static_cast<std::int64_t>(to.size()));
      require(taken > 0, "byte {} of {} asked for", begin, path_);
      if (taken == size)
        read_block(block, to.first(at(size)));
      else
        std::memcpy(to.data(), kept(block, size).data() + skipped, at(taken));
      begin += taken;
      to = to.subspan(at(taken));
    }
  }

  void verify() const {
    std::vector<std::byte> block(at(std::min(block_bytes_, shard_.bytes)));
    for (std::size_t i = 0; i < shard_.blocks.size(); ++i) {
      const std::int64_t first = static_cast<std::int64_t>(i) * block_bytes_;
      read_block(static_cast<std::int64_t>(i),
                 std::span(block).first(at(std::min(block_bytes_, shard_.bytes - first))));
    }
  }

 private:
  const std::vector<std::byte>& kept(std::int64_t block, std::int64_t size) const {
    thread_local LastBlock last;
    if (last.file == id_ && last.number == block && last.bytes.size() == at(size)) return last.bytes;
    last.file = -1;
    last.bytes.resize(at(size));
    read_block(block, last.bytes);
    last.file = id_, last.number = block;
    return last.bytes;
  }

  void read_block(std::int64_t block, std::span<std::byte> to) const {
    const std::int64_t begin = block * block_bytes_;
    for (std::size_t done = 0; done < to.size();) {
      const ssize_t n = ::pread(descriptor_, to.data() + done, to.size() - done,
                                static_cast<off_t>(begin) + static_cast<off_t>(done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) throw unreadable(path_, errno);
      if (n == 0)
        throw io_error("{}: ends at byte {} of {}; damaged", path_, begin + static_cast<std::int64_t>(done),
                       shard_.bytes);
      done += static_cast<std::size_t>(n);
    }
    if (checksum(to) != shard_.blocks[at(block)])
      throw io_error("{}: is damaged: bytes {} to {} are not what was written", path_, begin,
                     begin + static_cast<std::int64_t>(to.size()));
  }

  std::string path_;
  const Shard& shard_;
  std::int64_t block_bytes_;
  std::int64_t id_ = next_file_id();
  int descriptor_ = -1;
  mutable std::mutex mutex_;
  mutable std::optional<SafetensorsFile> header_;
};

bool is_here(const Shard& shard) {
  return shard.blocks.empty() ||
         std::ranges::any_of(shard.blocks, [](std::uint64_t sum) { return sum != 0; });
}

CheckpointReader::CheckpointReader(std::string folder) : folder_(std::move(folder)) {
  const std::string path = fmt::format("{}/{}", folder_, manifest_file);
  manifest_ = std::make_shared<const Manifest>(parse_manifest(read_text(path), path));
  for (const Shard& shard : manifest_->shards) {
    const std::string file = fmt::format("{}/{}", folder_, shard.file);
    if (!is_here(shard))
      files_.push_back(nullptr);
    else
      files_.push_back(std::make_shared<const File>(file, shard, manifest_->block_bytes));
  }
}

void CheckpointReader::read(const SavedTensor& tensor, const Box& where, std::span<std::byte> to) const {
  const std::int64_t element = static_cast<std::int64_t>(size_of(tensor.type.dtype));
  for_each_cell(tensor, where, [&](std::size_t i) {
    const Box part = tensor.part(i);
    const Box region = intersect(part, where);
    const auto& opened = files_[at(tensor.shards[i])];
    if (!opened)
      throw io_error("{}: has no {}, which holds some of '{}'", folder_, shard_file(tensor.shards[i]),
                     tensor.name);
    const File& file = *opened;
    const std::int64_t begin = file.header_with(tensor, i).offset(tensor.name);
    for_each_run(piece_of(region, part, where), [&](std::int64_t f, std::int64_t t, std::int64_t n) {
      file.read(begin + f * element, to.subspan(at(t * element), at(n * element)));
    });
  });
}

Tensor CheckpointReader::read(std::string_view name) const {
  const SavedTensor& t = manifest_->tensor(name);
  Tensor out(t.type);
  read(t, whole_box(t.type.shape), out.bytes());
  return out;
}

void CheckpointReader::verify(Progress* progress) const {
  Doing doing(progress, "shard", static_cast<std::int64_t>(files_.size()));
  for (std::size_t i = 0; i < files_.size(); ++i) {
    doing.tell(static_cast<std::int64_t>(i));
    if (files_[i]) files_[i]->verify();
  }
  for (const SavedTensor& t : manifest_->tensors)
    for (std::size_t i = 0; i < t.shards.size(); ++i)
      if (files_[at(t.shards[i])]) files_[at(t.shards[i])]->header_with(t, i);
}

namespace {

/// What `path` names now: itself, where it is no link, or the last one in it.
std::string checkpoint_at(const std::string& path) {
  std::error_code failure;
  if (is_checkpoint(path)) {
    if (!std::filesystem::is_symlink(path, failure)) return path;
    const auto target = std::filesystem::canonical(path, failure);
    return failure ? path : target.string();
  }
  if (!std::filesystem::is_directory(path, failure))
    throw io_error("{}: is no checkpoint; that is a folder that `train --save` has written", path);
  const std::vector<Checkpoint> all = checkpoints_in(path);
  if (all.empty()) throw io_error("{}: has no checkpoint", path);
  return all.front().folder;
}

}  // namespace

CheckpointReader open_checkpoint(const std::string& path) {
  for (;;) {
    const std::string folder = checkpoint_at(path);
    try {
      return CheckpointReader(folder);
    } catch (const Error&) {
      // A run that saves there may have removed it since it was found; by then there is a later one.
      if (checkpoint_at(path) == folder) throw;
    }
  }
}

}  // namespace shardwright

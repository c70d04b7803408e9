#include "shardwright/runtime/data/open_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "shardwright/base/file.h"

namespace shardwright {

OpenFile::OpenFile(std::string path)
    : path_(std::move(path)),
      bytes_(readable_bytes(path_)),
      descriptor_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (descriptor_ < 0) throw unreadable(path_, errno);
}

OpenFile::~OpenFile() { ::close(descriptor_); }

void OpenFile::read(std::int64_t from, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t got = ::pread(descriptor_, to.data(), to.size(), from);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw unreadable(path_, errno);
    if (got == 0) throw io_error("{}: ends at byte {}, where {} more are expected", path_, from, to.size());
    from += got;
    to = to.subspan(static_cast<std::size_t>(got));
  }
}

}  // namespace shardwright

#include "shardwright/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>
#include <utility>

#include "shardwright/base/text.h"

namespace shardwright {
namespace {

namespace fs = std::filesystem;

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator int() const { return number_; }

 private:
  int number_;
};

/// Where a path leads: to a file, or to a stream that this process has open, such as /dev/stdout.
struct Place {
  fs::path path;
  std::optional<int> stream = {};
};

Place place_of(const std::string& path) {
  constexpr int most_links = 40;  // as the kernel's
  Place out{path};
  const fs::path streams = fs::path("/proc") / std::to_string(::getpid()) / "fd";
  for (int i = 0; i < most_links; ++i) {
    std::error_code none;
    if (fs::canonical(out.path.parent_path(), none) == streams && !none)
      if (const auto number = to_integer(out.path.filename().string()); number && *number <= INT_MAX) {
        out.stream = static_cast<int>(*number);
        return out;
      }
    const fs::path target = fs::read_symlink(out.path, none);
    if (none) return out;  // it is no link
    out.path = target.is_absolute() ? target : out.path.parent_path() / target;
  }
  return out;
}

/// Why a file of this mode is not read.
std::string reason(mode_t mode) {
  if (S_ISDIR(mode)) return std::strerror(EISDIR);
  if (S_ISFIFO(mode)) return "it is a pipe, not a file";
  return "it is a device, not a file";
}

/// Opens a regular file, waiting for nobody.
int open_regular(const std::string& path, struct stat& status) {
  const int file = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (file < 0) throw unreadable(path, errno);
  if (::fstat(file, &status) == 0 && S_ISREG(status.st_mode)) return file;
  ::close(file);
  throw io_error("{}: cannot be read: {}", path, reason(status.st_mode));
}

/// A regular file from its beginning, a stream from where it stands.
ssize_t read_some(int file, bool is_regular, char* to, std::size_t bytes, std::size_t done) {
  for (;;) {
    const ssize_t n =
        is_regular ? ::pread(file, to, bytes, static_cast<off_t>(done)) : ::read(file, to, bytes);
    if (n >= 0 || errno != EINTR) return n;
  }
}

/// Names of files that a signal would leave behind. Not a vector, because handlers of signals read it.
struct Unfinished {
  std::atomic<bool> is_taken = false;
  std::atomic<bool> is_there = false;
  std::array<char, PATH_MAX> name{};
};
std::array<Unfinished, 8> unfinished_files;
std::mutex unfinished_mutex;  // of those who change them

void remember(const std::string& name) {
  const std::lock_guard lock(unfinished_mutex);
  for (Unfinished& file : unfinished_files) {
    if (name.size() >= file.name.size() || file.is_taken.exchange(true)) continue;
    std::memcpy(file.name.data(), name.c_str(), name.size() + 1);
    file.is_there = true;
    return;
  }
}

void forget(const std::string& name) {
  const std::lock_guard lock(unfinished_mutex);
  for (Unfinished& file : unfinished_files) {
    if (!file.is_there || name != file.name.data()) continue;
    file.is_there = false;
    file.is_taken = false;
    return;
  }
}

/// The names of the last two in turn, so that a handler of a signal finds one whole.
std::array<std::array<char, PATH_MAX>, 2> kept_names{};
std::atomic<int> kept_count{0};
std::mutex kept_mutex;  // of those who change them

void note_kept(const std::string& path) {
  const std::lock_guard lock(kept_mutex);
  std::array<char, PATH_MAX>& name = kept_names[static_cast<std::size_t>((kept_count + 1) % 2)];
  const std::size_t size = std::min(path.size(), name.size() - 1);
  std::memcpy(name.data(), path.data(), size);
  name[size] = 0;
  ++kept_count;
}

/// On the disk, where there is one.
int sync(int file) { return ::fsync(file) == 0 || errno == EINVAL || errno == ENOTSUP ? 0 : errno; }

void sync_folder_of(const fs::path& path) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened >= 0) sync(opened);  // the file is whole already, whether its name lasts or not
}

}  // namespace

Error unreadable(const std::string& path, int code) {
  return io_error("{}: cannot be read: {}", path, std::strerror(code));
}

Error unwritable(const std::string& path, int code) {
  return io_error("{}: cannot be written: {}", path, std::strerror(code));
}

std::int64_t readable_bytes(const std::string& path) {
  struct stat status {};
  const Descriptor file(open_regular(path, status));
  return status.st_size;
}

std::string read_text(const std::string& path, std::int64_t most) {
  struct stat status {};
  const Place place = place_of(path);
  const Descriptor file(place.stream ? ::dup(*place.stream) : open_regular(path, status));
  if (file < 0 || ::fstat(file, &status) != 0) throw unreadable(path, errno);
  const bool is_regular = S_ISREG(status.st_mode);
  const auto too_large = [&] { return io_error("{}: cannot be read: more than {} bytes", path, most); };
  if (is_regular && status.st_size > most) throw too_large();
  std::string out;
  std::size_t done = 0;
  for (;;) {
    constexpr std::size_t chunk = 1 << 16;
    // A file under /proc says that it has no bytes, and has some.
    out.resize(std::max(done + chunk, static_cast<std::size_t>(is_regular ? status.st_size + 1 : 0)));
    const ssize_t n = read_some(file, is_regular, out.data() + done, out.size() - done, done);
    if (n < 0) throw unreadable(path, errno);
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
    if (static_cast<std::int64_t>(done) > most) throw too_large();
  }
  // An empty text is of no use to anybody, so it is rather one that has been asked for twice.
  if (done == 0 && !is_regular)
    throw io_error("{}: cannot be read: the stream has ended; give a file, which can be read again", path);
  out.resize(done);
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";  // some editors begin UTF-8 with it
  if (out.starts_with(byte_order_mark)) out.erase(0, byte_order_mark.size());
  if (const auto end = end_of_utf8(out))
    throw io_error("{}: cannot be read: line {} is not UTF-8", path,
                   1 + std::count(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(*end), '\n'));
  return out;
}

NewFile::NewFile(std::string path) : path_(std::move(path)) {
  const Place place = place_of(path_);
  target_ = place.path.string();
  struct stat status {};
  if (place.stream) {
    descriptor_ = ::fcntl(*place.stream, F_DUPFD_CLOEXEC, 0);
  } else if (::stat(target_.c_str(), &status) != 0 || S_ISREG(status.st_mode)) {
    open_beside();
  } else {
    descriptor_ = ::open(target_.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC);
  }
  if (descriptor_ < 0) throw unwritable(path_, errno);
}

void NewFile::open_beside() {
  struct stat earlier {};
  const bool is_there = ::stat(target_.c_str(), &earlier) == 0;
  if (!is_there && errno != ENOENT) throw unwritable(path_, errno);
  // A file that is read-only is not to be replaced, though its folder would let us.
  if (is_there && ::faccessat(AT_FDCWD, target_.c_str(), W_OK, AT_EACCESS) != 0)
    throw unwritable(path_, errno);
  constexpr std::size_t longest = 200;  // of 255 bytes that a name may have
  const fs::path place(target_);
  if (!place.has_filename()) throw unwritable(path_, EISDIR);
  unfinished_ = (place.parent_path() /
                 fmt::format("{}.{}.unfinished", place.filename().string().substr(0, longest), ::getpid()))
                    .string();
  ::unlink(unfinished_.c_str());  // of a process that was killed and had this number
  remember(unfinished_);
  descriptor_ = ::open(unfinished_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                       is_there ? S_IRUSR | S_IWUSR : 0666);
  if (descriptor_ < 0) {
    const int code = errno;
    forget(unfinished_);
    if (!is_there) throw unwritable(path_, code);
    throw io_error("{}: cannot be written: no file can be made beside it: {}", path_, std::strerror(code));
  }
  if (!is_there) return;
  // The owner is root's to give; without that, who replaces the file owns it.
  [[maybe_unused]] const int may_fail = ::fchown(descriptor_, earlier.st_uid, earlier.st_gid);
  ::fchmod(descriptor_, earlier.st_mode & 07777);
}

NewFile::NewFile(NewFile&& other) noexcept
    : path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      unfinished_(std::exchange(other.unfinished_, {})),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

NewFile::~NewFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (unfinished_.empty()) return;
  ::unlink(unfinished_.c_str());
  forget(unfinished_);
}

void NewFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(descriptor_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw unwritable(path_, n < 0 ? errno : ENOSPC);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

void NewFile::keep() {
  if (const int code = unfinished_.empty() ? 0 : sync(descriptor_)) throw unwritable(path_, code);
  // A network's file system may say only now that there is no room.
  if (::close(std::exchange(descriptor_, -1)) != 0) throw unwritable(path_, errno);
  if (unfinished_.empty()) return;
  if (::rename(unfinished_.c_str(), target_.c_str()) != 0) throw unwritable(path_, errno);
  forget(std::exchange(unfinished_, {}));
  note_kept(path_);
  sync_folder_of(target_);
}

void write_file(const std::string& path, std::string_view text) {
  NewFile file(path);
  file.write(text);
  file.keep();
}

void require_writable(const std::string& path) {
  const Place place = place_of(path);
  struct stat status {};
  const bool is_special = place.stream || (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) &&
                                           !S_ISDIR(status.st_mode));
  // Opening a pipe and closing it again would tell its reader that this is all.
  if (is_special) {
    if (!place.stream && ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) != 0)
      throw unwritable(path, errno);
    return;
  }
  const NewFile unkept(path);
}

KeptFiles kept_files() {
  const int count = kept_count;
  return {count, kept_names[static_cast<std::size_t>(count % 2)].data()};
}

void remove_unfinished_files() {
  for (const Unfinished& file : unfinished_files)
    if (file.is_there) ::unlink(file.name.data());
}

}  // namespace shardwright

#include "shardwright/cli/standard_output.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <ostream>

#include "shardwright/base/file.h"
#include "shardwright/cli/progress_line.h"

namespace shardwright {

void take_standard_descriptors() {
  for (int number = 0; number <= 2; ++number)
    if (::fcntl(number, F_GETFD) < 0)
      // In the direction that is of no use, so that using it fails; what goes to a closed stderr is lost anyway.
      ::open("/dev/null", number == 1 ? O_RDONLY : O_WRONLY);
}

StandardOutput::StandardOutput(ProgressLine* line) : line_(::isatty(STDOUT_FILENO) == 1 ? line : nullptr) {
  setp(buffer_.data(), buffer_.data() + buffer_.size());
}

StandardOutput::int_type StandardOutput::overflow(int_type c) {
  drain();
  if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
  return sputc(traits_type::to_char_type(c));
}

int StandardOutput::sync() {
  drain();
  return 0;
}

void StandardOutput::drain() {
  const char* from = pbase();
  const char* end = pptr();
  const auto lock = line_ ? line_->make_way({from, end}) : std::unique_lock<std::mutex>();
  setp(buffer_.data(), buffer_.data() + buffer_.size());  // what cannot be written is not tried again
  while (from != end) {
    const ssize_t n = ::write(STDOUT_FILENO, from, static_cast<std::size_t>(end - from));
    if (n >= 0) {
      from += n;
    } else if (errno == EAGAIN) {
      pollfd writable{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
      ::poll(&writable, 1, -1);
    } else if (errno != EINTR) {
      throw unwritable("standard output", errno);
    }
  }
}

std::size_t columns_of(const std::ostream& out) {
  winsize size{};
  const bool is_terminal = dynamic_cast<const StandardOutput*>(out.rdbuf()) && ::isatty(STDOUT_FILENO) == 1;
  return is_terminal && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace shardwright

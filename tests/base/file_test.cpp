#include "shardwright/base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>

#include "tests/support/scratch.h"

namespace shardwright {
namespace {

namespace fs = std::filesystem;

class Files : public testing::Test {
 protected:
  std::string at(const std::string& name) const { return folder_ + "/" + name; }
  std::size_t count() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  std::string read_error(const std::string& path, std::int64_t most = most_text_bytes) const {
    return error_of([&] { read_text(path, most); });
  }
  std::string write_error(const std::string& path) const {
    return error_of([&] { write_file(path, "new"); });
  }

 private:
  std::string folder_ = scratch_folder();
};

/// As on a full disk: files of this process grow up to `bytes`.
class SmallFiles {
 public:
  explicit SmallFiles(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &now);
  }
  ~SmallFiles() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST_F(Files, what_is_written_is_read) {
  write_file(at("a"), "one\n");
  write_file(at("a"), std::string("two\0", 4));
  EXPECT_EQ(read_text(at("a")), std::string("two\0", 4));
  EXPECT_EQ(readable_bytes(at("a")), 4);
  EXPECT_EQ(count(), 1U);
  write_file(at("empty"), "");
  EXPECT_EQ(read_text(at("empty")), "");
}

TEST_F(Files, a_failed_write_leaves_the_earlier_file) {
  write_file(at("a"), "earlier");
  {
    const SmallFiles full(1000);
    EXPECT_EQ(error_of([&] { write_file(at("a"), std::string(5000, 'x')); }),
              at("a") + ": cannot be written: File too large");
    EXPECT_EQ(error_of([&] { write_file(at("b"), std::string(5000, 'x')); }),
              at("b") + ": cannot be written: File too large");
  }
  EXPECT_EQ(read_text(at("a")), "earlier");
  EXPECT_EQ(count(), 1U);
}

TEST_F(Files, an_unkept_file_leaves_nothing) {
  write_file(at("a"), "earlier");
  {
    NewFile file(at("a"));
    file.write("half");
    EXPECT_EQ(count(), 2U);
    EXPECT_EQ(read_text(at("a")), "earlier");
  }
  EXPECT_EQ(count(), 1U);
  require_writable(at("a"));
  require_writable(at("b"));
  EXPECT_EQ(count(), 1U);
}

TEST_F(Files, a_process_that_ends_at_once_leaves_nothing) {
  const pid_t child = ::fork();
  if (child == 0) {
    NewFile file(at("a"));
    file.write("half");
    remove_unfinished_files();
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(count(), 0U);
}

TEST_F(Files, those_that_are_kept_are_known) {
  const int before = kept_files().count;
  { NewFile unkept(at("a")); }
  EXPECT_EQ(kept_files().count, before);
  write_file(at("b"), "b");
  write_file(at("c"), "c");
  EXPECT_EQ(kept_files().count, before + 2);
  EXPECT_EQ(kept_files().last, at("c"));
}

TEST_F(Files, permissions_stay) {
  write_file(at("a"), "earlier");
  fs::permissions(at("a"), fs::perms{0640});
  write_file(at("a"), "new");
  EXPECT_EQ(fs::status(at("a")).permissions(), fs::perms{0640});
  const mode_t mask = ::umask(0027);
  write_file(at("b"), "new");
  ::umask(mask);
  EXPECT_EQ(fs::status(at("b")).permissions(), fs::perms{0640});
}

TEST_F(Files, links_stay_and_lead_to_the_new_file) {
  fs::create_directory(at("far"));
  write_file(at("far/a"), "earlier");
  fs::create_symlink("far/a", at("link"));
  fs::create_symlink("link", at("second"));
  write_file(at("second"), "new");
  EXPECT_TRUE(fs::is_symlink(at("second")) && fs::is_symlink(at("link")));
  EXPECT_EQ(read_text(at("far/a")), "new");
  fs::create_symlink("far/b", at("dangling"));
  write_file(at("dangling"), "new");
  EXPECT_EQ(read_text(at("far/b")), "new");
}

TEST_F(Files, devices_and_open_streams_are_written_in_place) {
  EXPECT_EQ(write_error("/dev/full"), "/dev/full: cannot be written: No space left on device");
  EXPECT_EQ(write_error("/dev/null"), "no error");
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const std::string stream = fmt::format("/dev/fd/{}", ends[1]);
  require_writable(stream);
  write_file(stream, "through a pipe");
  ::close(ends[1]);
  const std::string received = fmt::format("/proc/self/fd/{}", ends[0]);
  EXPECT_EQ(read_text(received), "through a pipe");
  EXPECT_EQ(read_error(received),
            received + ": cannot be read: the stream has ended; give a file, which can be read again");
  ::close(ends[0]);
}

/// Replacing the file would hide what others write to the stream, and beginning anew overwrite it.
TEST_F(Files, an_open_stream_that_is_a_file_goes_on) {
  const int stream = ::open(at("a").c_str(), O_WRONLY | O_CREAT, 0666);
  ASSERT_EQ(::write(stream, "one ", 4), 4);
  write_file(fmt::format("/dev/fd/{}", stream), "two ");
  ASSERT_EQ(::write(stream, "three", 5), 5);
  ::close(stream);
  EXPECT_EQ(read_text(at("a")), "one two three");
}

TEST_F(Files, says_why_nothing_can_be_written) {
  EXPECT_EQ(write_error(at("no/a")), at("no/a") + ": cannot be written: No such file or directory");
  EXPECT_EQ(write_error(at("")), at("") + ": cannot be written: Is a directory");
  write_file(at("file"), "");
  EXPECT_EQ(write_error(at("file/a")), at("file/a") + ": cannot be written: Not a directory");
  EXPECT_EQ(error_of([&] { require_writable(at("no/a")); }),
            at("no/a") + ": cannot be written: No such file or directory");
  if (::geteuid() == 0) return;  // whom permissions do not stop
  fs::permissions(at("file"), fs::perms{0444});
  EXPECT_EQ(write_error(at("file")), at("file") + ": cannot be written: Permission denied");
  fs::permissions(at("file"), fs::perms{0644});
  fs::permissions(at(""), fs::perms{0555});
  EXPECT_EQ(write_error(at("file")),
            at("file") + ": cannot be written: no file can be made beside it: Permission denied");
  fs::permissions(at(""), fs::perms{0755});
}

TEST_F(Files, says_why_nothing_can_be_read) {
  EXPECT_EQ(read_error(at("no")), at("no") + ": cannot be read: No such file or directory");
  EXPECT_EQ(read_error(at("")), at("") + ": cannot be read: Is a directory");
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0666), 0);
  EXPECT_EQ(read_error(at("pipe")), at("pipe") + ": cannot be read: it is a pipe, not a file");
  EXPECT_EQ(read_error("/dev/zero"), "/dev/zero: cannot be read: it is a device, not a file");
  EXPECT_EQ(read_error(std::string(300, 'x')),
            std::string(300, 'x') + ": cannot be read: File name too long");
  fs::create_symlink("loop", at("loop"));
  EXPECT_EQ(read_error(at("loop")), at("loop") + ": cannot be read: Too many levels of symbolic links");
  if (::geteuid() == 0) return;
  write_file(at("secret"), "");
  fs::permissions(at("secret"), fs::perms{0});
  EXPECT_EQ(read_error(at("secret")), at("secret") + ": cannot be read: Permission denied");
}

TEST_F(Files, more_bytes_than_allowed_are_refused) {
  write_file(at("a"), "12345");
  EXPECT_EQ(read_text(at("a"), 5), "12345");
  EXPECT_EQ(read_error(at("a"), 4), at("a") + ": cannot be read: more than 4 bytes");
  const int zeros = ::open("/dev/zero", O_RDONLY);
  const std::string endless = fmt::format("/dev/fd/{}", zeros);
  EXPECT_EQ(read_error(endless, 100000), endless + ": cannot be read: more than 100000 bytes");
  ::close(zeros);
}

/// Whatever reads a text sees what stands behind it.
TEST_F(Files, a_byte_order_mark_is_no_part_of_the_text) {
  write_file(at("marked"), "\xef\xbb\xbfname: a\xef\xbb\xbf");
  EXPECT_EQ(read_text(at("marked")), "name: a\xef\xbb\xbf");
  write_file(at("mark"), "\xef\xbb\xbf");
  EXPECT_EQ(read_text(at("mark")), "");
}

TEST_F(Files, what_is_not_utf8_is_refused_with_its_line) {
  write_file(at("a"), "name: \xc3\xa4\nnodes: 1\n\xff: 2\n");
  EXPECT_EQ(read_error(at("a")), at("a") + ": cannot be read: line 3 is not UTF-8");
}

TEST_F(Files, a_file_that_says_it_is_empty_is_read) {
  EXPECT_NE(read_text("/proc/self/status").find("Pid:"), std::string::npos);
}

}  // namespace
}  // namespace shardwright

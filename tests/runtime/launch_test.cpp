// What starts jobs on many hosts reads and tells: host files, rank tables, what mpirun passes on, messages of nodes.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <filesystem>
#include <map>

#include "shardwright/base/error.h"
#include "shardwright/base/host_name.h"
#include "shardwright/runtime/launch/assembly.h"
#include "shardwright/runtime/launch/build.h"
#include "shardwright/runtime/launch/hosts.h"
#include "shardwright/runtime/launch/job_folder.h"
#include "shardwright/runtime/launch/rank_output.h"
#include "shardwright/runtime/launch/wire.h"
#include "tests/support/changed_text.h"

namespace shardwright {
namespace {

template <class F>
std::string error_of(F work) {
  try {
    work();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

const std::string table = R"({"version": "1.0", "server_count": "2", "server_list": [
  {"server_id": "10.0.0.1", "device": [{"device_id": "0", "device_ip": "192.1.27.6", "rank_id": "0"},
                                       {"device_id": "1", "device_ip": "192.2.27.6", "rank_id": "3"}],
   "host_nic_ip": "reserve"},
  {"server_id": "10.0.0.2", "device": [{"device_id": "0", "rank_id": 2}, {"device_id": "1", "rank_id": "1"}]}],
  "status": "completed"})";

/// `text` with the first `from` in it replaced.
std::string with(std::string text, std::string_view from, std::string_view to) {
  return text.replace(text.find(from), from.size(), to);
}

TEST(Hosts, are_read_as_open_mpi_reads_them) {
  const std::vector<Host> hosts =
      parse_hosts("# two\nh0 slots=2 max_slots=4\n\n  10.0.0.2\t# one\nh0 slots=1\r\n", "f");
  ASSERT_EQ(hosts.size(), 2U);
  EXPECT_EQ(hosts[0].name, "h0");
  EXPECT_EQ(hosts[0].slots, 3);
  EXPECT_EQ(hosts[1].name, "10.0.0.2");
  EXPECT_EQ(slots_of(hosts), 4);
  EXPECT_EQ(hosts_of_ranks(hosts, 4, "", ""), (std::vector<std::string>{"h0", "h0", "h0", "10.0.0.2"}));
  EXPECT_EQ(hosts_of_ranks(hosts, 2, "", ""), (std::vector<std::string>{"h0", "h0"}));
}

TEST(Hosts, mistakes_are_named_by_line) {
  const auto said = [](const std::string& text) { return error_of([&] { parse_hosts(text, "f"); }); };
  EXPECT_EQ(said("# none\n"), "f: names no host; a line is NAME slots=N");
  EXPECT_EQ(said("h0\nh1 slots=0\n"), "f:2: 'slots=0' should be a number from 1 to 65536");
  EXPECT_EQ(said("h0 slots 2\n"), "f:1: 'slots' is unknown behind a host; a line is NAME slots=N");
  EXPECT_EQ(said("h0 slots=2 gpus=1\n"), "f:1: 'gpus=1' is unknown behind a host; a line is NAME slots=N");
  EXPECT_EQ(said("-x\n"), "f:1: '-x' is no host's name");
  EXPECT_EQ(said("$(reboot)\n"), "f:1: '$(reboot)' is no host's name");
  EXPECT_EQ(said("h0 slots=65536\nh1\n"), "f:2: more than 65536 slots");
  EXPECT_EQ(error_of([] {
              hosts_of_ranks({{"h0", 2}, {"h1", 1}}, 4, "--devices 4", "f");
            }),
            "--devices 4 but f has 3 slots on 2 hosts");
}

TEST(Hosts, this_one_is_known_by_its_names) {
  EXPECT_TRUE(is_here("localhost") && is_here("127.0.0.1") && is_here(host_name()));
  EXPECT_FALSE(is_here("198.51.100.1"));
  EXPECT_NO_THROW(check_net("lo"));
  EXPECT_NO_THROW(check_net("127.0.0.0/8"));
  EXPECT_NE(
      error_of([] { check_net("eth99"); }).find("--net eth99: is no network of this host; there are lo"),
      std::string::npos);
}

TEST(RankTable, says_each_ranks_host) {
  EXPECT_EQ(parse_rank_table(table, "t"),
            (std::vector<std::string>{"10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.1"}));
}

TEST(RankTable, mistakes_are_named) {
  const auto said = [](const std::string& text) { return error_of([&] { parse_rank_table(text, "t"); }); };
  EXPECT_EQ(said("{"), "t: is no JSON, at byte 2");
  EXPECT_EQ(said("{}"), "t: has no server_list");
  EXPECT_EQ(said(R"({"group_list": []})"),
            "t: is a rank table of version 0.1 (group_list); version 1.0 (server_list) is read");
  EXPECT_EQ(said(with(table, R"("server_count": "2")", R"("server_count": "3")")),
            "t: server_count 3 but server_list has 2");
  EXPECT_EQ(said(with(table, R"("rank_id": "3")", R"("rank_id": "4")")),
            "t: rank 3 is missing; the largest is 4");
  EXPECT_EQ(said(with(table, R"("rank_id": "3")", R"("rank_id": "1")")),
            "t: rank 1 is on 10.0.0.1 and on 10.0.0.2");
  EXPECT_EQ(said(with(table, R"("rank_id": "3")", R"("rank_id": "x")")),
            "t: server_list[0]: device: rank_id \"x\" should be a number from 0 on");
  EXPECT_EQ(said(with(table, R"("server_id": "10.0.0.2", )", "")), "t: server_list[1]: has no server_id");
  EXPECT_EQ(said(with(table, "10.0.0.2", "a b")),
            "t: server_list[1]: server_id 'a b' should be a host's name or address");
}

/// Changed files are read, or refused with a line, and nothing else.
TEST(LaunchFiles, changed_ones_are_read_or_refused) {
  testing::Random random = testing::random_of(1);
  for (int i = 0; i < 2000; ++i) {
    const std::string rows = testing::changed_text(random, "h0 slots=2\n10.0.0.2 max_slots=3 # x\nh1\n");
    const std::string changed = testing::changed_json(random, table);
    for (const std::string& why :
         {error_of([&] { parse_hosts(rows, "f"); }), error_of([&] { parse_rank_table(changed, "f"); })})
      EXPECT_EQ(why.find('\n'), why.npos) << why;
  }
}

/// By rank what it has printed; of mpirun itself under -1.
std::map<int, std::string> told_apart(const std::string& text, std::size_t piece) {
  std::map<int, std::string> out;
  RankOutput output([&](std::optional<int> rank, std::string_view line) { out[rank.value_or(-1)] += line; });
  for (std::size_t at = 0; at < text.size(); at += piece)
    output.add(std::string_view(text).substr(at, piece));
  output.finish();
  return out;
}

// As mpirun has written it: a mark stands in front of each piece that comes, in the middle of lines, too.
TEST(RankOutput, is_told_apart_wherever_it_is_cut) {
  const std::string text =
      "[1,2]<stdout>:rank[1,3]<stdout>:rank 3\n[1,3]<stdout>:[1, 2] and [1,2\n[1,2]<stdout>: 2\nmpirun says\n"
      "[1,10]<stderr>:no end";
  const std::map<int, std::string> wanted{
      {2, "rank 2\n"}, {3, "rank 3\n[1, 2] and [1,2\n"}, {-1, "mpirun says\n"}, {10, "no end\n"}};
  for (std::size_t piece = 1; piece <= text.size(); ++piece)
    EXPECT_EQ(told_apart(text, piece), wanted) << piece;
}

std::pair<Wire, Wire> connected() {
  std::array<int, 2> ends{};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  return {Wire(ends[0]), Wire(ends[1])};
}

TEST(Wire, messages_arrive_whole_and_in_order) {
  auto [a, b] = connected();
  const std::string large(100000, 'x');
  ASSERT_TRUE(a.send({JobMessage::Kind::start, packed_fields({"host", "", "command"})}));
  ASSERT_TRUE(a.send({JobMessage::Kind::output, large}));
  ASSERT_TRUE(a.send({}));
  std::vector<JobMessage> all;
  while (all.size() < 3)
    for (JobMessage& m : b.take()) all.push_back(std::move(m));
  EXPECT_EQ(fields_of(all[0].text), (std::vector<std::string>{"host", "", "command"}));
  EXPECT_TRUE(all[1].kind == JobMessage::Kind::output && all[1].text == large);
  EXPECT_TRUE(all[2].kind == JobMessage::Kind::sign && all[2].text.empty());
  EXPECT_FALSE(b.has_ended());
  a = Wire(-1);
  EXPECT_TRUE(b.take().empty() && b.has_ended());
}

TEST(Wire, what_is_no_message_ends_it) {
  for (const std::string bytes : {"GET / HTTP/1.0\r\n\r\n", "o\xff\xff\xff\xff"}) {
    auto [a, b] = connected();
    ASSERT_EQ(::send(a.descriptor(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    EXPECT_TRUE(b.take().empty());
    EXPECT_TRUE(b.has_ended());
  }
}

TEST(Build, is_told) {
  EXPECT_GE(build_id().size(), 16U);
  EXPECT_EQ(build_id(), build_id());
}

TEST(JobFolder, is_gone_with_the_job) {
  std::string path, memory;
  {
    const JobFolder folder;
    path = folder.path();
    memory = folder.shared_memory();
    EXPECT_TRUE(std::filesystem::is_directory(path) && std::filesystem::is_directory(memory));
    const JobFolder other;  // of another job at the same time
    EXPECT_NE(other.path(), path);
    EXPECT_TRUE(std::filesystem::is_directory(path));
  }
  EXPECT_FALSE(std::filesystem::exists(path) || std::filesystem::exists(memory));
}

}  // namespace
}  // namespace shardwright

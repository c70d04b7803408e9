#include "shardwright/cli/asked.h"

#include <gtest/gtest.h>

#include "tests/support/scratch.h"

namespace shardwright {
namespace {

Arguments given(std::map<std::string, std::string> flags) {
  Arguments out;
  out.flags = std::move(flags);
  return out;
}

SearchOptions options(std::map<std::string, std::string> flags) {
  flags["--devices"] = "2";
  return asked_of(given(std::move(flags))).options;
}

TEST(SearchSettings, are_read_into_options) {
  const SearchOptions none = options({});
  EXPECT_EQ(none.costs, Costs::seconds);
  EXPECT_EQ(none.order, SearchOrder::automatic);
  EXPECT_EQ(none.mem_coeff, 0.1);
  EXPECT_TRUE(none.fold_layers);
  EXPECT_FALSE(none.is_described || none.fully_use_devices || none.elementwise_follow || none.writes_log);
  EXPECT_EQ(none.memory_cap, std::nullopt);

  const SearchOptions all = options({{"--costs", "symbolic"},
                                     {"--search-order", "weight"},
                                     {"--mem-coeff", "0.013"},
                                     {"--fold-layers", "0"},
                                     {"--described", "true"},
                                     {"--fully-use-devices", "1"},
                                     {"--elementwise-follow", "1"},
                                     {"--approximate", "1"},
                                     {"--approximation", "0.25"},
                                     {"--align-slices", "1"},
                                     {"--slice-size", "32"},
                                     {"--log-search", "true"},
                                     {"--memory-cap", "60GB"},
                                     {"--device-memory", "1GiB"}});
  EXPECT_EQ(all.costs, Costs::symbolic);
  EXPECT_EQ(all.order, SearchOrder::weight);
  EXPECT_EQ(all.mem_coeff, 0.013);
  EXPECT_FALSE(all.fold_layers);
  EXPECT_TRUE(all.is_described && all.fully_use_devices && all.elementwise_follow && all.writes_log);
  EXPECT_TRUE(all.approximates && all.aligns_slices);
  EXPECT_EQ(all.approximation, 0.25);
  EXPECT_EQ(all.slice_size, 32);
  EXPECT_EQ(all.memory_cap, 1 << 30);
}

TEST(SearchSettings, that_are_none_are_errors_that_say_what_there_is) {
  const auto error = [](std::map<std::string, std::string> flags) {
    return error_of([&] { options(std::move(flags)); });
  };
  EXPECT_EQ(error({{"--mem-coeff", "0"}}), "--mem-coeff 0: should be a number above 0");
  EXPECT_EQ(error({{"--mem-coeff", "high"}}), "--mem-coeff high: should be a number");
  EXPECT_EQ(error({{"--costs", "bytes"}}), "--costs bytes: there are seconds, symbolic");
  EXPECT_EQ(error({{"--search-order", "first"}}), "--search-order first: there are topology, weight");
  EXPECT_EQ(error({{"--approximation", "0"}}),
            "--approximation 0: should be a number above 0, and 1 at most");
  EXPECT_EQ(error({{"--approximation", "1.5"}}),
            "--approximation 1.5: should be a number above 0, and 1 at most");
  EXPECT_EQ(error({{"--slice-size", "0"}}), "--slice-size 0: should be an integer from 1 on");
  EXPECT_EQ(error({{"--fold-layers", "2"}}), "--fold-layers 2: there are 0, 1");
}

TEST(SearchSettings, that_a_search_ignores_are_errors) {
  std::map<std::string, std::string> flags{{"--costs", "symbolic"}, {"--search", "propagation"}};
  const auto tell = [&](const char* devices, const char* mode) {
    flags["--devices"] = devices;
    flags["--parallel"] = mode;
    const Arguments arguments = given(flags);
    tell_idle(arguments, asked_of(arguments));
    return arguments.notices;
  };
  EXPECT_EQ(error_of([&] { tell("2", "auto_parallel"); }),
            "--costs has an effect only in search dynamic, recursive, not in propagation; leave it out");
  EXPECT_EQ(error_of([&] { tell("2", "data_parallel"); }),
            "--costs is a setting of searches, but data_parallel does not search");
  flags = {{"--approximation", "0.5"}, {"--search", "dynamic"}};
  EXPECT_EQ(tell("2", "auto_parallel"),
            std::vector<std::string>{"--approximation has no effect: --approximate is not 1"});
  flags = {{"--costs", "symbolic"}, {"--search", "propagation"}};
  // Nothing is searched on one device, so that the same flags may stand in a run on one.
  EXPECT_EQ(tell("1", "stand_alone"), (std::vector<std::string>{"--search has no effect: there is 1 device",
                                                                "--costs has no effect: there is 1 device"}));
}

}  // namespace
}  // namespace shardwright

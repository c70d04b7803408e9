#include "shardwright/cli/search_settings.h"

#include <gtest/gtest.h>

#include "tests/support/scratch.h"

namespace shardwright {
namespace {

Arguments given(std::map<std::string, std::string> flags) {
  Arguments out;
  out.flags = std::move(flags);
  return out;
}

TEST(SearchSettings, are_read_into_options) {
  const Searcher heeds_all{.name = "all"};
  const SearchOptions none = search_options_of({}, heeds_all, Parallel::auto_parallel);
  EXPECT_EQ(none.costs, Costs::seconds);
  EXPECT_EQ(none.order, SearchOrder::automatic);
  EXPECT_EQ(none.mem_coeff, 0.1);
  EXPECT_TRUE(none.fold_layers);
  EXPECT_FALSE(none.is_described || none.fully_use_devices || none.elementwise_follow || none.writes_log);
  EXPECT_EQ(none.memory_cap, std::nullopt);

  const SearchOptions all = search_options_of(given({{"--costs", "symbolic"},
                                                     {"--search-order", "weight"},
                                                     {"--mem-coeff", "0.013"},
                                                     {"--fold-layers", "0"},
                                                     {"--described", "true"},
                                                     {"--fully-use-devices", "1"},
                                                     {"--elementwise-follow", "1"},
                                                     {"--log-search", "true"},
                                                     {"--memory-cap", "60GB"},
                                                     {"--device-memory", "1GiB"}}),
                                              heeds_all, Parallel::auto_parallel);
  EXPECT_EQ(all.costs, Costs::symbolic);
  EXPECT_EQ(all.order, SearchOrder::weight);
  EXPECT_EQ(all.mem_coeff, 0.013);
  EXPECT_FALSE(all.fold_layers);
  EXPECT_TRUE(all.is_described && all.fully_use_devices && all.elementwise_follow && all.writes_log);
  EXPECT_EQ(all.memory_cap, 1 << 30);
}

TEST(SearchSettings, that_are_none_are_errors_that_say_what_there_is) {
  const auto error = [](std::map<std::string, std::string> flags) {
    return error_of(
        [&] { search_options_of(given(std::move(flags)), {.name = "all"}, Parallel::auto_parallel); });
  };
  EXPECT_EQ(error({{"--mem-coeff", "0"}}), "--mem-coeff 0: should be a number above 0");
  EXPECT_EQ(error({{"--mem-coeff", "high"}}), "--mem-coeff high: should be a number");
  EXPECT_EQ(error({{"--costs", "bytes"}}), "--costs bytes: there are seconds, symbolic");
  EXPECT_EQ(error({{"--search-order", "first"}}), "--search-order first: there are topology, weight");
  EXPECT_EQ(error({{"--fold-layers", "2"}}), "--fold-layers 2: there are 1, 0");
}

TEST(SearchSettings, that_a_search_ignores_are_errors) {
  const Searcher deaf{.name = "deaf", .ignores = {Setting::fully_use_devices}};
  const Arguments asked = given({{"--fully-use-devices", "1"}});
  const std::string why = error_of([&] { search_options_of(asked, deaf, Parallel::auto_parallel); });
  EXPECT_TRUE(why.starts_with("--fully-use-devices is of search ")) << why;
  EXPECT_TRUE(why.ends_with(", not deaf")) << why;
  // Nothing is searched on one device, so that the same flags may stand in a run on one.
  EXPECT_NO_THROW(search_options_of(asked, deaf, Parallel::stand_alone));
}

}  // namespace
}  // namespace shardwright

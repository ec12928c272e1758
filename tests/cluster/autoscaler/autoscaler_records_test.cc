#include "cluster/autoscaler/autoscaler_records.h"

#include <gtest/gtest.h>

#include "support/status_matchers.h"

namespace ffdl::cluster {
namespace {

TEST(JobRecords, AreReadAsTheyWereWritten) {
  const RequestRecord request{{.name = "",
                               .sizes = {{1, 1, 8}, {4, 3.25, 64}, {4, 3.5, 64, 0, 2, 3}},
                               .only_nodes = {"node-7"}},
                              uint64_t{1} << 60};
  ASSERT_OK_AND_ASSIGN(const RequestRecord read, parse_request(encode(request)));
  EXPECT_EQ(read.request.sizes, request.request.sizes);
  EXPECT_EQ(read.request.only_nodes, std::vector<std::string>{"node-7"});
  EXPECT_EQ(read.place, request.place);
  const std::vector<Answer> answers = {{7, {"a", 3, 64, false, "so it is", {{"x", 1}, {"y", 2}}}},
                                       {8, {"b", 0, 0, true, "full"}}};
  ASSERT_OK_AND_ASSIGN(const auto both, parse_answers(encode(answers)));
  EXPECT_EQ(both, answers);
  EXPECT_EQ(parse_answers(encode(std::vector<Answer>()))->size(), 0U);
}

TEST(JobRecords, SpeedsAreReadAsTheyWereWritten) {
  const std::vector<StepMeasurement> speeds = {{1, 1, 64, 10, 0.125}, {4, 1, 256, 7, 0.5}};
  ASSERT_OK_AND_ASSIGN(const auto read, parse_speeds(encode(speeds)));
  EXPECT_EQ(read, speeds);
  for (const char* text : {"", "{}", "[7]", R"([{"workers":0,"batch":1,"steps":1,"step_s":1}])",
                           R"([{"workers":1,"batch":0,"steps":1,"step_s":1}])",
                           R"([{"workers":1,"batch":1,"steps":-1,"step_s":1}])",
                           R"([{"workers":1,"batch":1,"steps":1,"step_s":0}])",
                           R"([{"workers":1,"batch":1,"steps":1,"step_s":"1"}])",
                           R"([{"workers":1,"batch":1,"steps":1}])"}) {
    EXPECT_FAILS(parse_speeds(text), StatusCode::kCorrupt, "the speed of a job");
  }
}

TEST(JobRecords, WhatIsNoneIsCorrupt) {
  for (const char* text :
       {"", "{", "[]", "{}", R"({"place":-1,"sizes":[{"workers":1,"value":1,"batch":0}]})",
        R"({"place":0,"sizes":[]})", R"({"place":0,"sizes":{"workers":1}})",
        R"({"place":0,"sizes":[{"workers":0,"value":1,"batch":0}]})",
        R"({"place":0,"sizes":[{"workers":1,"value":"1","batch":0}]})",
        R"({"place":0,"sizes":[{"workers":5000000000,"value":1,"batch":0}]})",
        R"({"place":0,"sizes":[{"workers":1,"value":1,"batch":0,"nodes_max":40000}]})",
        R"({"place":0,"sizes":[{"workers":1,"value":1,"batch":0,"per_node_max":-1}]})",
        R"({"place":0,"sizes":[{"workers":1,"value":1,"batch":0}],"node":7})",
        R"({"place":0,"sizes":[7]})"}) {
    EXPECT_FAILS(parse_request(text), StatusCode::kCorrupt, "request");
  }
  const std::string good =
      R"([{"job":"a","place":1,"workers":3,"batch":0,"dropped":false,"reason":"",)"
      R"("nodes":[{"node":"x","workers":2}]}])";
  EXPECT_OK(parse_answers(good));
  EXPECT_OK(parse_answers(  // as written before records had nodes
      R"([{"job":"a","place":1,"workers":1,"batch":0,"dropped":false,"reason":""}])"));
  for (const auto& [part, other] : std::initializer_list<std::pair<std::string, std::string>>{
           {"\"a\"", "1"},
           {"\"place\"", "\"p\""},
           {"false", "0"},
           {"\"\"", "null"},
           {"\"workers\":3", "\"workers\":-1"},
           {"\"workers\":3", "\"workers\":1"},  // of which two are on a node
           {"\"workers\":2", "\"workers\":0"},
           {"\"x\"", "7"},
           {"[{\"node\"", "[7,{\"node\""},
           {R"([{"node":"x","workers":2}])", "7"},
           {"[{", "[7,{"},
           {"[", "7["}}) {
    std::string bad = good;
    bad.replace(bad.find(part), part.size(), other);
    EXPECT_FAILS(parse_answers(bad), StatusCode::kCorrupt, "the decision");
  }
}

}  // namespace
}  // namespace ffdl::cluster

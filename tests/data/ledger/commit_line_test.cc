#include "data/ledger/commit_line.h"

#include <gtest/gtest.h>

namespace ffdl::data {
namespace {

TEST(CommitLine, ComesBackAsItWas) {
  const CommittedStep step = {7, {{{"w\"0\"", 2}, {15, 128, 136}}, {{"w1", 1}, {0, 3, 4}}}, 3};
  EXPECT_EQ(step_line(step),
            R"({"step":7,"lineage":3,"parts":[["w\"0\"",2,15,128,136],["w1",1,0,3,4]]})");
  const auto line = parse_commit_line(step_line(step));
  ASSERT_TRUE(line);
  EXPECT_FALSE(line->is_header);
  EXPECT_EQ(line->step, step);
  EXPECT_EQ(line->step.lineage, 3U);

  const auto header =
      parse_commit_line(header_line({.samples = 10, .partition_samples = 4, .epochs = 2}));
  ASSERT_TRUE(header);
  EXPECT_TRUE(header->is_header);
  EXPECT_EQ(header->samples, 10U);
  EXPECT_EQ(header->partition_samples, 4U);
  EXPECT_EQ(header->epochs, 2U);
}

TEST(CommitLine, NothingElseIsOne) {
  for (const char* text :
       {"", "{", "[]", "7", "{}", R"({"samples":1,"partition_samples":1})",
        R"({"samples":-1,"partition_samples":1,"epochs":1})", R"({"step":1,"lineage":1})",
        R"({"step":1,"lineage":1,"parts":{}})", R"({"step":1.5,"lineage":1,"parts":[]})",
        R"({"step":1,"lineage":1,"parts":[["a",1,2,3]]})",
        R"({"step":1,"lineage":1,"parts":[[1,1,2,3,4]]})",
        R"({"step":1,"lineage":1,"parts":[["a",1,4294967296,3,4]]})",
        R"({"step":1,"lineage":1,"parts":[["a",1,2,3,-4]]})",
        R"({"step":1,"lineage":1,"parts":[]} x)"}) {
    EXPECT_FALSE(parse_commit_line(text)) << text;
  }
}

}  // namespace
}  // namespace ffdl::data

#include "data/formats/sample_check.h"

#include <gtest/gtest.h>

#include "support/status_matchers.h"

namespace ffdl::data {
namespace {

TEST(SampleCheck, AWrongSampleIsAnErrorThatNamesFileAndByte) {
  const SampleCheck check("some.file", false, {});
  SampleBatch batch;
  EXPECT_FAILS(check.refuse(7, 4096, "it is wrong", batch), StatusCode::kCorrupt,
               "read sample 7 of 'some.file': it is wrong at byte 4096");
  EXPECT_EQ(batch.size(), 0U);
  EXPECT_EQ(check.skipped().samples, 0U);
}

TEST(SampleCheck, OrIsLeftOutAndCounted) {
  const SampleCheck check("some.file", true, {.bytes = 5});
  SampleBatch batch;
  EXPECT_OK(check.refuse(7, 4096, "it is wrong", batch));
  check.skip(2, Status(StatusCode::kCorrupt, "another reason"), batch);
  EXPECT_EQ(batch.skipped(), 3U);
  EXPECT_EQ(check.skipped().samples, 3U);
  EXPECT_EQ(check.skipped().bytes, 5U);
  EXPECT_NE(check.skipped().first.find("sample 7"), std::string::npos);
}

}  // namespace
}  // namespace ffdl::data

#include <gtest/gtest.h>

#include "base/device.h"
#include "ffdl/ps/learner.h"
#include "support/learners.h"
#include "support/segment_name.h"
#include "support/status_matchers.h"
#include "support/times.h"

// Tests the public interface on this machine; device_transfer_test.cc has the rest.
namespace ffdl {
namespace {

TEST(LearnerOfADevice, SaysWhatTheMachineLacksAndTakesNoSlot) {
  if (base::find_device().ok()) GTEST_SKIP() << "this machine has a GPU";
  const testing::SegmentName name;
  ParameterServerOptions options;
  options.name = name;
  options.parameters = 1'000;
  options.learners_max = 1;
  const auto server = testing::create_server(options);
  EXPECT_FAILS(Learner::attach(name.text(), testing::soon(), {.device = -1}),
               StatusCode::kUnimplemented, "; ");
  EXPECT_FAILS(Learner::attach(*server, testing::soon(), {.device = -1}),
               StatusCode::kUnimplemented, "; ");
  EXPECT_FAILS(Learner::attach(*server, testing::soon(), {.device = 0}), StatusCode::kUnimplemented,
               "; ");
  EXPECT_OK(Learner::attach(*server, testing::soon()));
}

}  // namespace
}  // namespace ffdl

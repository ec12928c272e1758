#include "net/unproved_limit.h"

#include <gtest/gtest.h>

#include "base/limits.h"
#include "support/low_limit.h"

namespace ffdl::net {
namespace {

TEST(Unproved, AQuarterOfTheDescriptorsAtMost) {
  for (const auto& [limit, most] : {std::pair<rlim_t, size_t>{8, base::kUnprovedMin},
                                    {256, 64},
                                    {1023, 255},
                                    {1024, base::kUnprovedMax},
                                    {4096, base::kUnprovedMax}}) {
    rlimit now{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &now), 0);
    if (now.rlim_max < limit) continue;
    const testing::LowLimit low(RLIMIT_NOFILE, limit);
    EXPECT_EQ(unproved_max(), most) << limit;
  }
}

}  // namespace
}  // namespace ffdl::net

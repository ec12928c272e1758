#include "membership/options.h"

#include <gtest/gtest.h>

#include "support/status_matchers.h"

namespace ffdl::membership {
namespace {

using namespace std::chrono_literals;

MembershipOptions with(void (*change)(MembershipOptions&)) {
  MembershipOptions options;
  change(options);
  return options;
}

TEST(MembershipOptions, TheDefaultsWork) { EXPECT_OK(check_options({})); }

TEST(MembershipOptions, TimesThatCannotWorkTogetherAreNamed) {
  const struct {
    void (*change)(MembershipOptions&);
    const char* names;
  } cases[] = {
      {[](auto& o) { o.heartbeat = 0ns; }, "0 < heartbeat"},
      {[](auto& o) { o.gather = -1ns; }, "0 <= gather"},
      {[](auto& o) { o.heartbeat = 101ms; }, "3 * heartbeat <= lease"},
      {[](auto& o) { o.step_timeout = 300ms; }, "lease < step_timeout"},
      {[](auto& o) { o.fence_after = 599ms; }, "2 * lease <= fence_after"},
      {[](auto& o) { o.fence_margin = 599ms; }, "fence_after <= 50 * fence_margin"},
      {[](auto& o) {
         o.lease = 25h;
         o.step_timeout = o.fence_after = 100h;
         o.fence_margin = 3h;
       },
       "lease <= 24 h"},
  };
  for (const auto& test : cases) {
    EXPECT_FAILS(check_options(with(test.change)), StatusCode::kInvalidArgument, test.names);
  }
}

TEST(MembershipOptions, NumbersAndNames) {
  EXPECT_FAILS(check_options(with([](auto& o) { o.min_workers = 0; })),
               StatusCode::kInvalidArgument, "min_workers is 0");
  EXPECT_FAILS(check_options(with([](auto& o) { o.max_workers = 257; })),
               StatusCode::kInvalidArgument, "max_workers 257");
  EXPECT_FAILS(check_options(with([](auto& o) { o.min_workers = 9, o.max_workers = 8; })),
               StatusCode::kInvalidArgument, "min_workers is 9");
  EXPECT_FAILS(check_options(with([](auto& o) { o.job = "a/b"; })), StatusCode::kInvalidArgument,
               "'a/b'");
}

}  // namespace
}  // namespace ffdl::membership

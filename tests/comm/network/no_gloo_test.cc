#include <gtest/gtest.h>

#include "comm/network/links.h"
#include "support/ranks.h"
#include "support/status_matchers.h"

// A separate program, which links the stub in place of the adapter.
namespace ffdl {
namespace {

using namespace std::chrono_literals;

TEST(NoGloo, IsNamedWithItsOptionAndOtherBackEndsWork) {
  const auto members = testing::members_named(1);
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  EXPECT_FAILS(
      connect_communicator({1, 0, members}, *store, deadline_in(60s), {.backend = Backend::kGloo}),
      StatusCode::kUnimplemented, "-DFFDL_WITH_GLOO=ON");
  for (const Backend backend : {Backend::kAuto, Backend::kTcp, Backend::kHierarchical}) {
    ASSERT_OK_AND_ASSIGN(const auto empty, open_store("mem://", system_runtime()));
    EXPECT_OK(
        connect_communicator({1, 0, members}, *empty, deadline_in(60s), {.backend = backend}));
  }
  EXPECT_FAILS(comm::connect_gloo_links({1, 0, members}, *store, deadline_in(60s), "127.0.0.1"),
               StatusCode::kUnimplemented, "this build has no gloo");
}

}  // namespace
}  // namespace ffdl

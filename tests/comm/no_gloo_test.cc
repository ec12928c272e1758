#include <gtest/gtest.h>

#include "comm/links.h"
#include "support/ranks.h"
#include "support/status_matchers.h"

// A program of its own, into which the stub is linked in place of the adapter.
namespace ffdl {
namespace {

using namespace std::chrono_literals;

TEST(NoGloo, IsNamedWithItsOptionAndSharedMemoryWorks) {
  const auto members = testing::members_named(1);
  for (const Backend backend : {Backend::kGloo, Backend::kHierarchical}) {
    ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
    EXPECT_FAILS(
        connect_communicator({1, 0, members}, *store, deadline_in(20s), {.backend = backend}),
        StatusCode::kUnimplemented, "-DFFDL_WITH_GLOO=ON");
  }
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  EXPECT_OK(connect_communicator({1, 0, members}, *store, deadline_in(20s)));
  EXPECT_FAILS(comm::connect_links({1, 0, members}, *store, deadline_in(20s), "127.0.0.1"),
               StatusCode::kUnimplemented, "this build has no gloo");
}

}  // namespace
}  // namespace ffdl

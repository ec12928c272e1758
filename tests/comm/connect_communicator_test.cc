#include <gtest/gtest.h>

#include "ffdl/communicator.h"
#include "support/ranks.h"
#include "support/status_matchers.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;

TEST(ConnectCommunicator, AWorldOfOneNeedsNobody) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  ASSERT_OK_AND_ASSIGN(const auto communicator,
                       connect_communicator({1, 0, {{"only", 1}}}, *store, deadline_in(5s)));
  int64_t value = 42;
  ASSERT_OK(communicator->all_reduce({&value, 1, DType::kInt64}, ReduceOp::kSum, deadline_in(5s)));
  EXPECT_EQ(value, 42);
}

TEST(ConnectCommunicator, NoMemberAndNoSuchSlotIsRefused) {
  ASSERT_OK_AND_ASSIGN(const auto store, open_store("mem://", system_runtime()));
  const auto members = testing::members_named(2);
  EXPECT_FAILS(connect_communicator({1, 2, members}, *store, deadline_in(5s)),
               StatusCode::kInvalidArgument, "only members can connect");
  for (const uint64_t slot_bytes : {uint64_t{0}, uint64_t{16385}, uint64_t{1} << 31}) {
    EXPECT_FAILS(
        connect_communicator({1, 0, members}, *store, deadline_in(5s), {.slot_bytes = slot_bytes}),
        StatusCode::kInvalidArgument, "slot_bytes");
  }
}

}  // namespace
}  // namespace ffdl

#include "ffdl/comm/operation_queue.h"

#include <gtest/gtest.h>

#include <atomic>

#include "support/ranks.h"
#include "support/status_matchers.h"
#include "support/times.h"

namespace ffdl {
namespace {

using namespace std::chrono_literals;
using testing::soon;

testing::Ranks two_ranks() {
  return make_local_communicators(1, testing::members_named(2)).value();
}

Operation sum_of(const Buffer& buffer) {
  return {.kind = Collective::kAllReduce, .in = {}, .out = {&buffer, 1}};
}

TEST(OperationQueue, SeveralInFlightEndInTheirOrderAndAreWaitedForInAny) {
  const testing::Ranks ranks = two_ranks();
  testing::on_each(ranks, [](Communicator& communicator, int rank) {
    OperationQueue queue(communicator);
    std::vector<int32_t> values(50);
    std::vector<OperationQueue::Ticket> tickets;
    for (int32_t i = 0; i < 50; ++i) {
      int32_t& value = values[static_cast<size_t>(i)];
      value = i * (rank + 1);
      // The list of buffers goes out of scope at once.
      ASSERT_OK_AND_ASSIGN(const auto ticket,
                           queue.start(sum_of({&value, 1, DType::kInt32}), soon()));
      tickets.push_back(ticket);
    }
    for (size_t i = 50; i-- > 0;) {
      ASSERT_OK(queue.wait(tickets[i]));
      EXPECT_EQ(values[i], static_cast<int32_t>(3 * i));
      EXPECT_FAILS(queue.wait(tickets[i]), StatusCode::kNotFound, "has been waited for");
    }
  });
}

TEST(OperationQueue, AFailureComesFromWait) {
  const testing::Ranks ranks = two_ranks();
  OperationQueue queue(*ranks[0]);
  int32_t value = 1;
  ASSERT_OK_AND_ASSIGN(const auto first,
                       queue.start(sum_of({&value, 1, DType::kInt32}), deadline_in(10ms)));
  ASSERT_OK_AND_ASSIGN(const auto second, queue.start({}, soon()));
  EXPECT_FAILS(queue.wait(first), StatusCode::kTimeout, "rank 1");
  EXPECT_FAILS(queue.wait(second), StatusCode::kTimeout, "rank 1");
}

TEST(OperationQueue, SaysWhetherOneHasEnded) {
  const testing::Ranks ranks = two_ranks();
  OperationQueue queue(*ranks[0]);
  ASSERT_OK_AND_ASSIGN(const auto first, queue.start({}, soon()));
  ASSERT_OK_AND_ASSIGN(const auto second, queue.start({}, soon()));
  EXPECT_FALSE(queue.done(first));
  EXPECT_FALSE(queue.done(first, deadline_in(10ms)));
  ASSERT_OK(ranks[1]->barrier(soon()));
  EXPECT_TRUE(queue.done(first, kNoDeadline));
  EXPECT_FALSE(queue.done(second));
  ASSERT_OK(queue.wait(first));
  EXPECT_TRUE(queue.done(first));  // also after it has been waited for
}

TEST(OperationQueue, IsBounded) {
  const testing::Ranks ranks = two_ranks();
  OperationQueue queue(*ranks[0], 2);
  ASSERT_OK(queue.start({}, soon()));
  ASSERT_OK(queue.start({}, soon()));
  EXPECT_FAILS(queue.start({}, soon()), StatusCode::kExhausted, "2 operations were started");
}

TEST(OperationQueue, OneForNoOperationSaysSo) {
  const testing::Ranks ranks = two_ranks();
  OperationQueue queue(*ranks[0], 0);
  EXPECT_FAILS(queue.start({}, soon()), StatusCode::kInvalidArgument, "operations_max 0");
}

// The other rank never starts an operation, so only the abort ends this one.
TEST(OperationQueue, ClosingEndsWhatIsUnderWay) {
  const testing::Ranks ranks = two_ranks();
  {
    OperationQueue queue(*ranks[0]);
    ASSERT_OK(queue.start({}, kNoDeadline));
  }
  EXPECT_FAILS(ranks[0]->barrier(soon()), StatusCode::kCancelled, "was closed");
}

}  // namespace
}  // namespace ffdl

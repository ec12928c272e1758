#include "comm/api/failure_notice.h"

#include <gtest/gtest.h>

#include <string>

#include "comm/operation/world_key.h"
#include "ffdl/runtime.h"
#include "support/ranks.h"
#include "support/started_program.h"
#include "support/status_matchers.h"

namespace ffdl::comm {
namespace {

using namespace std::chrono_literals;

class FailureNoticeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(store_, open_store("mem://", system_runtime()));
  }

  FailureNotice at(int rank) { return {world(rank), *store_, deadline_in(60s)}; }
  World world(int rank) const { return {1, rank, testing::members_named(3)}; }
  std::string key() const { return meeting_key(world(0)) + "/failed"; }
  // Returns the first error of the notice at `rank`.
  Status read(int rank) {
    FailureNotice notice = at(rank);
    Status read;
    EXPECT_TRUE(comes_true([&] {
      read = notice.check();
      return !read.ok();
    }));
    return read;
  }
  // Returns whether a member that ended so has written the notice.
  bool writes(StatusCode code) {
    at(0).close(code == StatusCode::kOk ? Status() : Status(code, "why"));
    const bool wrote = store_->get(key()).ok();
    EXPECT_OK(store_->remove(key()));
    return wrote;
  }

  std::unique_ptr<Store> store_;
};

TEST_F(FailureNoticeTest, TheFirstFailureIsReadByTheOthers) {
  at(1).close(Status(StatusCode::kExhausted, "no descriptors"));
  at(2).close(Status(StatusCode::kExhausted, "later"));
  const Status lost = read(0);
  EXPECT_FAILS(lost, StatusCode::kPeerLost, "rank 1 'm1' failed: no descriptors; form a new world");
}

TEST_F(FailureNoticeTest, OnlyACauseOfItsOwnIsWritten) {
  for (const StatusCode code : {StatusCode::kExhausted, StatusCode::kUnavailable,
                                StatusCode::kInvalidArgument, StatusCode::kUnimplemented}) {
    EXPECT_TRUE(writes(code));
  }
  for (const StatusCode code : {StatusCode::kOk, StatusCode::kTimeout, StatusCode::kPeerLost,
                                StatusCode::kWorldChanged, StatusCode::kCancelled}) {
    EXPECT_FALSE(writes(code));
  }
}

TEST_F(FailureNoticeTest, ANoticeThatNoMemberWroteIsCorrupt) {
  for (const std::string text : {"", "3 why", "-1 why", "why"}) {
    ASSERT_OK(store_->put(key(), text));
    EXPECT_FAILS(read(0), StatusCode::kCorrupt, "has something written to the store");
  }
}

TEST_F(FailureNoticeTest, AClosedOneReadsNothing) {
  FailureNotice notice = at(0);
  notice.close({});
  store_.reset();
  EXPECT_OK(notice.check());
}

}  // namespace
}  // namespace ffdl::comm

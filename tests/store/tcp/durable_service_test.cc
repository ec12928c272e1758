#include "store/tcp/durable_service.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/limits.h"
#include "store/tcp/folder_secret.h"
#include "store/tcp/server_folder.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"

namespace ffdl::store {
namespace {

using namespace std::chrono_literals;

wire::Record called_put(uint64_t sequence, std::string_view key, std::string value) {
  wire::Record record;
  record.mutable_called()->set_client(1);
  wire::Request& request = *record.mutable_called()->mutable_request();
  request.set_sequence(sequence);
  request.set_answered_below(sequence);
  request.mutable_put()->set_key(std::string(key));
  request.mutable_put()->set_value(std::move(value));
  return record;
}

wire::Record called_grant(uint64_t client, Duration ttl) {
  wire::Record record;
  record.mutable_called()->set_client(client);
  record.mutable_called()->mutable_request()->mutable_grant_lease()->set_ttl_ns(ttl.count());
  return record;
}

class DurableServiceTest : public ::testing::Test {
 protected:
  Result<std::unique_ptr<DurableService>> open(uint64_t host = 0, std::string secret = "s") {
    return DurableService::open({folder_.path(), std::move(secret), host}, system_runtime());
  }
  size_t log_bytes() const { return std::filesystem::file_size(log_in(folder_.path())); }

  const TempFolder folder_;
};

TEST_F(DurableServiceTest, IsTheSameStoreAfterwards) {
  uint64_t store = 0;
  Revision revision = 0;
  {
    ASSERT_OK_AND_ASSIGN(auto durable, open());
    store = durable->service().store();
    ASSERT_OK_AND_ASSIGN(const wire::Reply reply, durable->commit(called_put(1, "k", "v")));
    revision = reply.number();
    EXPECT_FAILS(open(), StatusCode::kConflict,
                 "process " + std::to_string(::getpid()) + " serves it");
  }
  ASSERT_OK_AND_ASSIGN(auto durable, open());
  EXPECT_NE(store, 0U);
  EXPECT_EQ(durable->service().store(), store);
  EXPECT_EQ(durable->service().revision(), revision);
  EXPECT_TRUE(durable->service().answered(1, called_put(1, "", "").called().request()).has_value());
}

TEST_F(DurableServiceTest, AnotherSecretIsRefused) {
  ASSERT_OK(open());
  EXPECT_FAILS(open(0, "t"), StatusCode::kInvalidArgument, "another secret");
  EXPECT_FAILS(open(0, ""), StatusCode::kInvalidArgument, "another secret");
  EXPECT_OK(open());
}

// A server that died between the two writes leaves a secret that is not in the log.
TEST_F(DurableServiceTest, AnOpenStoreTakesTheSecretOfItsFolder) {
  const auto open_as = [&](bool makes_secret) {
    return DurableService::open(
        {.folder = folder_.path(), .secret = {}, .makes_secret = makes_secret}, system_runtime());
  };
  uint64_t store = 0;
  {
    ASSERT_OK_AND_ASSIGN(auto durable, open_as(false));
    EXPECT_EQ(durable->secret(), "");
    store = durable->service().store();
  }
  ASSERT_OK_AND_ASSIGN(const std::string secret, make_folder_secret(folder_.path()));
  for (const bool makes_secret : {false, true}) {
    ASSERT_OK_AND_ASSIGN(auto durable, open_as(makes_secret));
    EXPECT_EQ(durable->secret(), secret);
    EXPECT_EQ(durable->service().store(), store);
  }
  EXPECT_OK(open(0, secret));
  // A store that had a secret gets no other.
  ASSERT_EQ(::unlink((folder_.path() + "/secret").c_str()), 0);
  EXPECT_FAILS(open_as(true), StatusCode::kInvalidArgument, "another secret");
}

TEST_F(DurableServiceTest, LeasesOfTheClientThatServedEndWithIt) {
  LeaseId lives = 0;
  {
    ASSERT_OK_AND_ASSIGN(auto durable, open(1));
    ASSERT_OK(durable->commit(called_grant(1, 1h)));
    ASSERT_OK_AND_ASSIGN(const wire::Reply reply, durable->commit(called_grant(2, 1h)));
    lives = reply.number();
  }
  ASSERT_OK_AND_ASSIGN(auto durable, open(2));
  EXPECT_TRUE(durable->service().leases_of(1).empty());
  EXPECT_EQ(durable->service().leases_of(2), std::vector<LeaseId>{lives});
}

TEST_F(DurableServiceTest, ALargeLogIsWrittenAnew) {
  const std::string value(base::kStoreValueMax, 'x');
  Revision last = 0;
  {
    ASSERT_OK_AND_ASSIGN(auto durable, open());
    for (uint64_t i = 1; i <= 20; ++i) {
      ASSERT_OK_AND_ASSIGN(const wire::Reply reply, durable->commit(called_put(i, "k", value)));
      last = reply.number();
      EXPECT_LT(log_bytes(), base::kStoreLogGrowth + 8 * value.size());
    }
  }
  ASSERT_OK_AND_ASSIGN(auto durable, open());
  EXPECT_EQ(durable->service().revision(), last);
  EXPECT_TRUE(
      durable->service().answered(1, called_put(20, "", "").called().request()).has_value());
}

TEST_F(DurableServiceTest, ALogOfOtherRecordsIsCorrupt) {
  {
    ASSERT_OK_AND_ASSIGN(LogFile log, LogFile::open(log_in(folder_.path()), {}));
    ASSERT_OK(log.append("\xff\xff\xff"));
  }
  EXPECT_FAILS(open(), StatusCode::kCorrupt, "newer version");
}

}  // namespace
}  // namespace ffdl::store

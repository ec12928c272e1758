#include "store/tcp/service.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <ctime>

#include "base/limits.h"
#include "support/status_matchers.h"
#include "support/times.h"

namespace ffdl::store {
namespace {

using namespace std::chrono_literals;
using testing::at;

constexpr uint64_t kAnna = 11;
constexpr uint64_t kBert = 12;

wire::Request put(uint64_t sequence, std::string_view key, std::string_view value,
                  std::optional<Revision> expected = {}, LeaseId lease = kNoLease) {
  wire::Request request;
  request.set_sequence(sequence);
  request.mutable_put()->set_key(std::string(key));
  request.mutable_put()->set_value(std::string(value));
  request.mutable_put()->set_lease(lease);
  if (expected.has_value()) request.mutable_put()->set_expected(*expected);
  return request;
}

wire::Request grant(uint64_t sequence, Duration ttl, bool outlives = false) {
  wire::Request request;
  request.set_sequence(sequence);
  request.mutable_grant_lease()->set_ttl_ns(ttl.count());
  request.mutable_grant_lease()->set_outlives_connection(outlives);
  return request;
}

wire::Request keep_alive(LeaseId lease) {
  wire::Request request;
  request.mutable_keep_alive()->set_lease(lease);
  return request;
}

wire::Request get(std::string_view key) {
  wire::Request request;
  request.mutable_get()->set_key(std::string(key));
  return request;
}

wire::Record called(uint64_t client, const wire::Request& request) {
  wire::Record record;
  record.mutable_called()->set_client(client);
  *record.mutable_called()->mutable_request() = request;
  return record;
}

wire::Record serving(std::string_view boot, uint64_t host = 0) {
  wire::Record record;
  record.mutable_serving()->set_boot(std::string(boot));
  record.mutable_serving()->set_host(host);
  return record;
}

// A service, with the log that a server would write.
class ServiceTest : public ::testing::Test {
 protected:
  wire::Reply apply(const wire::Record& record, Time now = at(0s)) {
    log_.push_back(record);
    auto reply = service_.apply(record, now);
    EXPECT_OK(reply);
    return std::move(reply).value();
  }
  wire::Reply call(uint64_t client, const wire::Request& request, Time now = at(0s)) {
    return apply(called(client, request), now);
  }
  // Returns the service that another server builds from the log, at another time.
  Service replayed() const {
    Service again;
    for (const wire::Record& record : log_) EXPECT_OK(again.apply(record, at(77s)));
    return again;
  }
  static Service restored(const Service& service) {
    Service again;
    EXPECT_OK(again.apply(service.snapshot(), at(77s)));
    return again;
  }

  Service service_;
  std::vector<wire::Record> log_;
};

TEST_F(ServiceTest, ItsLogAndItsSnapshotMakeItAgain) {
  wire::Record created;
  created.mutable_created()->set_store(5);
  created.mutable_created()->set_verifier("v");
  apply(created);
  apply(serving("boot", kAnna));
  const LeaseId lease = call(kAnna, grant(1, 10s)).number();
  call(kAnna, put(2, "a", "1", {}, lease));
  call(kBert, grant(1, 20s, true));
  call(kBert, put(2, "b", "2"));
  call(kBert, put(3, "b", "3", 1));  // a conflict
  wire::Record over;
  over.set_lease_over(lease);
  apply(over);
  for (Service again : {replayed(), restored(service_), restored(restored(replayed()))}) {
    EXPECT_EQ(again.snapshot().SerializeAsString(), service_.snapshot().SerializeAsString());
    EXPECT_EQ(again.revision(), service_.revision());
    EXPECT_EQ(again.store(), 5U);
    EXPECT_EQ(again.verifier(), "v");
    EXPECT_EQ(again.last_host(), kAnna);
    EXPECT_EQ(again.look(get("b"), at(0s)).entries(0).value(), "2");
    EXPECT_EQ(again.look(get("a"), at(0s)).code(), static_cast<uint32_t>(StatusCode::kNotFound));
  }
}

TEST_F(ServiceTest, WhatWasAnsweredIsRememberedUntilTheClientHasTheAnswer) {
  const wire::Request first = put(1, "a", "1", 0);
  const uint64_t revision = call(kAnna, first).number();
  for (const Service& again : {replayed(), restored(service_)}) {
    ASSERT_TRUE(again.answered(kAnna, first).has_value());
    EXPECT_EQ(again.answered(kAnna, first)->number(), revision);
    EXPECT_EQ(again.answered(kAnna, first)->sequence(), 1U);
    EXPECT_FALSE(again.answered(kBert, first).has_value());
  }
  wire::Request second = put(2, "b", "1");
  second.set_answered_below(2);
  call(kAnna, second);
  EXPECT_FALSE(service_.answered(kAnna, first).has_value());
  EXPECT_TRUE(service_.answered(kAnna, second).has_value());
}

TEST_F(ServiceTest, WhatFailedIsNotRemembered) {
  call(kAnna, put(1, "a", "1"));
  EXPECT_NE(call(kAnna, put(2, "a", "2", 0)).code(), 0U);
  EXPECT_FALSE(service_.answered(kAnna, put(2, "a", "2", 0)).has_value());
}

TEST_F(ServiceTest, APutThatWouldFailIsKnownBefore) {
  const uint64_t revision = call(kAnna, put(1, "a", "1")).number();
  EXPECT_TRUE(service_.failure_of(put(2, "a", "2", revision + 1)).has_value());
  EXPECT_TRUE(service_.failure_of(put(2, "", "2")).has_value());
  EXPECT_TRUE(service_.failure_of(put(2, "a", "2", {}, 99)).has_value());
  EXPECT_FALSE(service_.failure_of(put(2, "a", "2", revision)).has_value());
  EXPECT_FALSE(service_.failure_of(get("absent")).has_value());
  EXPECT_EQ(service_.revision(), revision);
}

TEST_F(ServiceTest, ALeaseHasItsTermFromItsGrantAndFromEachKeepAlive) {
  const LeaseId lease = call(kAnna, grant(1, 10s), at(5s)).number();
  EXPECT_EQ(service_.next_end(), at(15s));
  EXPECT_TRUE(service_.leases_over(at(15s - 1ns)).empty());
  EXPECT_EQ(service_.leases_over(at(15s)), std::vector<LeaseId>{lease});
  EXPECT_EQ(service_.look(keep_alive(lease), at(14s)).code(), 0U);
  EXPECT_EQ(service_.next_end(), at(24s));
  // A lease ends only when the server records its end.
  EXPECT_EQ(service_.look(keep_alive(lease), at(100s)).code(), 0U);
  wire::Record over;
  over.set_lease_over(lease);
  apply(over);
  EXPECT_EQ(service_.next_end(), kNoDeadline);
  EXPECT_NE(service_.look(keep_alive(lease), at(14s)).code(), 0U);
}

TEST_F(ServiceTest, ANextServerGivesEachLeaseAFullTerm) {
  call(kAnna, grant(1, 10s), at(5s));
  for (Service again : {replayed(), restored(service_)}) {
    again.extend_leases(at(90s));
    EXPECT_EQ(again.next_end(), at(100s));
  }
}

TEST_F(ServiceTest, LeasesCanBeProlonged) {
  const LeaseId lease = call(kAnna, grant(1, 10s), at(5s)).number();
  service_.prolong_leases(3s);
  EXPECT_EQ(service_.next_end(), at(18s));
  service_.look(keep_alive(lease), at(6s));  // as usual: a whole term from now on
  EXPECT_EQ(service_.next_end(), at(16s));
}

TEST_F(ServiceTest, LeasesBelongToClients) {
  const LeaseId one = call(kAnna, grant(1, 1h)).number();
  call(kAnna, grant(2, 1h, true));
  call(kBert, grant(1, 1h));
  for (const Service& again : {replayed(), restored(service_)}) {
    EXPECT_EQ(again.leases_of(kAnna), std::vector<LeaseId>{one});
  }
}

TEST_F(ServiceTest, AMachineThatDiedMayHaveForgottenRevisions) {
  apply(serving("boot 1"));
  const Revision before = call(kAnna, put(1, "a", "1")).number();
  apply(serving("boot 1"));
  EXPECT_EQ(service_.revision(), before);
  apply(serving("boot 2"));
  EXPECT_GT(service_.revision(), before + (1U << 30));
  EXPECT_TRUE(service_.has_changed("other", before));
}

TEST_F(ServiceTest, WhoWasHeardOfLongestAgoIsForgottenFirst) {
  const auto join = [&](uint64_t client) {
    wire::Record record;
    record.set_joined(client);
    apply(record);
  };
  join(kAnna);
  join(kBert);
  call(kAnna, put(1, "a", "1"));
  for (uint64_t other = 0; other < base::kStoreClientsMax - 1; ++other) join(100 + other);
  EXPECT_TRUE(service_.knows(kAnna));
  EXPECT_FALSE(service_.knows(kBert));
  EXPECT_TRUE(restored(service_).knows(kAnna));
  join(99);
  EXPECT_FALSE(service_.knows(kAnna));
}

TEST_F(ServiceTest, AnswersThatAClientNeverAcknowledgesAreBounded) {
  for (uint64_t i = 1; i <= base::kStoreCallsMax + 5; ++i) call(kAnna, put(i, "a", "1"));
  EXPECT_FALSE(service_.answered(kAnna, put(5, "a", "1")).has_value());
  EXPECT_TRUE(service_.answered(kAnna, put(6, "a", "1")).has_value());
  EXPECT_TRUE(service_.answered(kAnna, put(base::kStoreCallsMax + 5, "a", "1")).has_value());
}

TEST_F(ServiceTest, AnswersOfAllClientsTogetherAreBounded) {
  call(kAnna, put(1, "a", "1"));
  const uint64_t each = base::kStoreCallsMax;
  for (uint64_t client = 100; client < 100 + base::kStoreAnswersMax / each; ++client) {
    for (uint64_t i = 1; i <= each; ++i) call(client, put(i, "b", "1"));
  }
  EXPECT_FALSE(service_.knows(kAnna));
  EXPECT_TRUE(service_.knows(101));
}

// A search for the client to forget in each record would take seconds.
TEST_F(ServiceTest, ManyClientsAreReplayedInTimeThatGrowsWithTheirNumber) {
  // Counts only this thread, so that a busy machine does not matter.
  const auto cpu_time = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  };
  const auto replay = [&](uint64_t clients) {
    Service service;
    const auto begin = cpu_time();
    for (uint64_t client = 1; client <= clients; ++client) {
      wire::Record record;
      record.set_joined(client);
      EXPECT_OK(service.apply(record, at(0s)));
    }
    return cpu_time() - begin;
  };
  const auto few = replay(base::kStoreClientsMax);  // no client is forgotten
  constexpr uint64_t kMany = 8 * base::kStoreClientsMax;
  const auto many = std::min(replay(kMany), replay(kMany));
  EXPECT_LT(many, 100 * few);
}

TEST_F(ServiceTest, ARecordOfAnotherKindIsCorrupt) {
  EXPECT_FAILS(service_.apply(wire::Record(), at(0s)), StatusCode::kCorrupt, "newer version");
  wire::Record snapshot;
  snapshot.mutable_snapshot()->set_state("no state");
  EXPECT_FAILS(service_.apply(snapshot, at(0s)), StatusCode::kCorrupt, "its first bytes are wrong");
}

}  // namespace
}  // namespace ffdl::store

#include "store/etcd/messages.h"

#include <gtest/gtest.h>

#include "support/status_matchers.h"

namespace ffdl::store::etcd {
namespace {

// "a" is YQ==, "b" Yg==, "1" MQ==.
TEST(EtcdMessages, RequestsAreWhatTheGatewayReads) {
  EXPECT_EQ(get_request("a"), R"({"key":"YQ=="})");
  EXPECT_EQ(list_request("a"), R"({"key":"YQ==","range_end":"Yg=="})");
  EXPECT_EQ(old_keys_request("a", 7),
            R"({"key":"YQ==","keys_only":true,"range_end":"Yg==","revision":"7"})");
  EXPECT_EQ(put_request("a", "1", 5), R"({"key":"YQ==","lease":"5","value":"MQ=="})");
  EXPECT_EQ(compare_and_put_request("a", 0, "1", 0),
            R"({"compare":[{"key":"YQ==","mod_revision":"0","result":"EQUAL","target":"MOD"}],)"
            R"("failure":[{"request_range":{"key":"YQ==","keys_only":true}}],)"
            R"("success":[{"request_put":{"key":"YQ==","lease":"0","value":"MQ=="}}]})");
  EXPECT_EQ(grant_request(3), R"({"TTL":"3"})");
  EXPECT_EQ(lease_request(~LeaseId{0}), R"({"ID":"9223372036854775807"})");
  EXPECT_EQ(watch_request("a", 9),
            R"({"create_request":{"fragment":true,"key":"YQ==","range_end":"Yg==",)"
            R"("start_revision":"9"}})");
}

TEST(EtcdMessages, APrefixEndsBeforeTheNextOne) {
  EXPECT_EQ(list_request("a\xff\xff"), R"({"key":"Yf//","range_end":"Yg=="})");
  EXPECT_EQ(list_request("\xff"), R"({"key":"/w==","range_end":"AA=="})");
  EXPECT_EQ(list_request(""), R"({"key":"AA==","range_end":"AA=="})");
}

TEST(EtcdMessages, AListIsRead) {
  ASSERT_OK_AND_ASSIGN(
      const Range range,
      read_range(
          R"({"header":{"revision":"12"},"count":"2","kvs":[)"
          R"({"key":"YQ==","mod_revision":"3","value":"MQ==","lease":"18446744073709551615"},)"
          R"({"key":"Yg==","mod_revision":"12","create_revision":"1"}]})"));
  EXPECT_EQ(range.newest, 12U);
  EXPECT_EQ(range.entries,
            (std::vector<Entry>{{"a", "1", 3, ~LeaseId{0}}, {"b", "", 12, kNoLease}}));
  EXPECT_TRUE(read_range(R"({"header":{"revision":"1"}})")->entries.empty());
}

TEST(EtcdMessages, AComparisonSaysWhatIsThere) {
  const auto done = read_compared(
      R"({"header":{"revision":"4"},"succeeded":true,"responses":[{"response_put":{}}]})");
  ASSERT_OK(done);
  EXPECT_TRUE(done->is_done);
  EXPECT_EQ(done->newest, 4U);
  const auto other =
      read_compared(R"({"header":{"revision":"4"},"responses":[{"response_range":{"kvs":[)"
                    R"({"key":"YQ==","mod_revision":"3"}]}}]})");
  ASSERT_OK(other);
  EXPECT_FALSE(other->is_done);
  EXPECT_EQ(other->present, 3U);
  const auto absent =
      read_compared(R"({"header":{"revision":"4"},"responses":[{"response_range":{}}]})");
  EXPECT_EQ(absent->present, 0U);
}

TEST(EtcdMessages, LeasesAreThereOrNot) {
  EXPECT_EQ(*read_granted(R"({"header":{},"ID":"77","TTL":"2"})"), 77U);
  EXPECT_TRUE(*read_kept(R"({"result":{"ID":"77","TTL":"2"}})"));
  EXPECT_FALSE(*read_kept(R"({"result":{"ID":"77"}})"));
}

TEST(EtcdMessages, AWatchTellsChangesAndItsEnd) {
  EXPECT_EQ(read_watched(R"({"result":{"header":{"revision":"9"},"created":true}})")->newest, 0U);
  const auto changes =
      read_watched(R"({"result":{"events":[{"kv":{"key":"YQ==","mod_revision":"7"}},)"
                   R"({"type":"DELETE","kv":{"key":"YQ==","mod_revision":"8"}}]}})");
  ASSERT_OK(changes);
  EXPECT_EQ(changes->newest, 8U);
  EXPECT_FALSE(changes->is_over);
  const auto compacted = read_watched(R"({"result":{"canceled":true,"compact_revision":"30"}})");
  EXPECT_TRUE(compacted->is_over);
  EXPECT_EQ(compacted->compacted, 30U);
  const auto ended = read_watched(R"({"error":{"grpc_code":14,"message":"no leader"}})");
  EXPECT_TRUE(ended->is_over);
  EXPECT_EQ(ended->why, "no leader");
}

TEST(EtcdMessages, VersionsAreNumbers) {
  EXPECT_EQ(read_version(R"({"etcdserver":"3.4.23","etcdcluster":"3.4.0"})")->minor, 4U);
  EXPECT_EQ(read_version(R"({"etcdserver":"3.6.0-rc.1"})")->minor, 6U);
  for (const char* text : {R"({"etcdserver":"3"})", R"({"etcdserver":"x.4"})", R"({})"}) {
    EXPECT_FAILS(read_version(text), StatusCode::kCorrupt, "etcdserver");
  }
}

TEST(EtcdMessages, WhatEtcdDoesNotSayIsRefused) {
  for (const char* text :
       {"", "null", "[]", "7", "{", "<html>", R"({"header":{}})", R"({"header":{"revision":"0"}})",
        R"({"header":{"revision":"-1"}})", R"({"header":{"revision":"1x"}})",
        R"({"header":{"revision":{}}})", R"({"header":[]})",
        R"({"header":{"revision":"99999999999999999999"}})"}) {
    EXPECT_FAILS(read_range(text), StatusCode::kCorrupt, "is missing or wrong");
    EXPECT_FAILS(read_change(text), StatusCode::kCorrupt, "is missing or wrong");
    EXPECT_FAILS(read_compared(text), StatusCode::kCorrupt, "is missing or wrong");
    EXPECT_FAILS(read_granted(text), StatusCode::kCorrupt, "is missing or wrong");
    EXPECT_FAILS(read_kept(text), StatusCode::kCorrupt, "is missing or wrong");
    EXPECT_FAILS(read_watched(text), StatusCode::kCorrupt, "is missing or wrong");
  }
  for (const char* kvs : {"{}", "[7]", R"([{"key":"YQ=="}])", R"([{"mod_revision":"1"}])",
                          R"([{"key":"Y","mod_revision":"1"}])",
                          R"([{"key":"YQ==","mod_revision":"1","value":"?"}])"}) {
    const std::string text = std::string(R"({"header":{"revision":"1"},"kvs":)") + kvs + "}";
    EXPECT_FAILS(read_range(text), StatusCode::kCorrupt, "is missing or wrong");
  }
  EXPECT_FAILS(read_compared(R"({"header":{"revision":"4"},"succeeded":true})"),
               StatusCode::kCorrupt, "'responses'");
  EXPECT_FAILS(read_compared(R"({"header":{"revision":"4"},"succeeded":"yes"})"),
               StatusCode::kCorrupt, "'succeeded'");
}

TEST(EtcdMessages, FailuresSayWhatTheCallerCanDo) {
  const auto failure = [](int code) {
    return read_failure(R"({"message":"because","code":)" + std::to_string(code) + "}", "put 'k'");
  };
  EXPECT_FAILS(failure(3), StatusCode::kInvalidArgument, "put 'k': etcd reports 'because'");
  EXPECT_FAILS(failure(5), StatusCode::kNotFound, "because");
  EXPECT_FAILS(failure(7), StatusCode::kInvalidArgument, "give that user a role");
  EXPECT_FAILS(failure(8), StatusCode::kExhausted, "quota");
  EXPECT_FAILS(failure(11), StatusCode::kNotFound, "because");
  EXPECT_FAILS(failure(12), StatusCode::kInvalidArgument, "3.4 or newer");
  EXPECT_FAILS(failure(14), StatusCode::kUnavailable, "because");
  EXPECT_FAILS(failure(15), StatusCode::kCorrupt, "because");
  EXPECT_FAILS(failure(99), StatusCode::kUnavailable, "because");
  EXPECT_FAILS(read_failure("Not Found\n", "put 'k'"), StatusCode::kUnavailable, "not etcd's");
  EXPECT_FAILS(failure(0), StatusCode::kUnavailable, "not etcd's");
}

}  // namespace
}  // namespace ffdl::store::etcd

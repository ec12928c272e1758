#include "store/etcd_store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "store/etcd_http.h"
#include "support/etcd_server.h"
#include "support/scripted_server.h"
#include "support/status_matchers.h"

namespace ffdl::store {
namespace {

using namespace std::chrono_literals;
using ::ffdl::testing::EtcdServer;
using ::ffdl::testing::ScriptedServer;

std::unique_ptr<Store> open(const std::string& url, Duration operation_timeout = 20s) {
  auto store = open_store(url, system_runtime(), {.operation_timeout = operation_timeout});
  EXPECT_OK(store);
  return store.ok() ? std::move(store).value() : nullptr;
}

// Beside the store, as another user of etcd would.
void post(const EtcdServer& server, const std::string& path, const std::string& body) {
  const size_t colon = server.address().find(':');
  const auto port = static_cast<uint16_t>(std::stoi(server.address().substr(colon + 1)));
  EtcdHttp http({"127.0.0.1", port}, system_runtime());
  ASSERT_OK_AND_ASSIGN(const auto answer, http.ask(path, body, deadline_in(10s)));
  EXPECT_EQ(answer.status, 200) << answer.body;
}

class EtcdStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = ffdl::testing::why_no_etcd(); !why.empty()) GTEST_SKIP() << why;
  }
};

TEST_F(EtcdStoreTest, GoesOnWithTheSameEtcdAfterItsDeath) {
  EtcdServer server;
  const auto store = open(server.url());
  ASSERT_NE(store, nullptr);
  ASSERT_OK_AND_ASSIGN(const LeaseId lease, store->grant_lease(1h));
  ASSERT_OK_AND_ASSIGN(const Revision put, store->put("k", "v", lease));
  EXPECT_FAILS(store->wait_change("k", put, Time::min()), StatusCode::kTimeout, "'k'");
  server.kill();
  Result<Revision> changed = Revision{0};
  std::thread waiter([&] { changed = store->wait_change("k", put, deadline_in(30s)); });
  server.start();
  EXPECT_EQ(store->get("k")->revision, put);
  EXPECT_OK(store->keep_alive(lease));
  EXPECT_OK(store->put("k", "w", lease));
  waiter.join();
  ASSERT_OK(changed);
  EXPECT_GT(*changed, put);
}

TEST_F(EtcdStoreTest, OneThatIsGoneIsSaid) {
  EtcdServer server;
  const auto store = open(server.url());
  ASSERT_NE(store, nullptr);
  ASSERT_OK_AND_ASSIGN(const Revision put, store->put("k", "v"));
  const auto hurried = open(server.url(), 60ms);
  ASSERT_NE(hurried, nullptr);
  EXPECT_FAILS(hurried->wait_change("k", put, Time::min()), StatusCode::kTimeout, "'k'");
  kill(server.pid(), SIGSTOP);
  EXPECT_FAILS(hurried->put("k", "w"), StatusCode::kTimeout, "whether the call took effect");
  EXPECT_FAILS(hurried->get("k"), StatusCode::kUnavailable, "get 'k'");
  server.kill();
  EXPECT_FAILS(hurried->put("k", "w"), StatusCode::kUnavailable, "did not answer for 60 ms");
  EXPECT_FAILS(hurried->wait_change("k", put + 1, deadline_in(10ms)), StatusCode::kTimeout, "'k'");
}

// Another store at the same place would give revisions that this client has seen to others.
TEST_F(EtcdStoreTest, AnEtcdThatBeganAnewIsAnotherOne) {
  EtcdServer server;
  const auto store = open(server.url());
  ASSERT_NE(store, nullptr);
  ASSERT_OK(store->put("k", "v"));
  server.kill();
  server.remove_data();
  server.start();
  EXPECT_FAILS(store->get("k"), StatusCode::kUnavailable, "another store than before");
  const auto fresh = open(server.url());
  ASSERT_NE(fresh, nullptr);
  for (int i = 0; i < 5; ++i) ASSERT_OK(fresh->put("k", "v"));
  EXPECT_FAILS(store->get("k"), StatusCode::kUnavailable, "another store than before");
}

TEST_F(EtcdStoreTest, ACompactedHistoryIsAChange) {
  EtcdServer server;
  const auto store = open(server.url());
  ASSERT_NE(store, nullptr);
  ASSERT_OK_AND_ASSIGN(const Revision before, store->put("a", "1"));
  ASSERT_OK(store->put("b", "1"));
  ASSERT_OK_AND_ASSIGN(const Revision last, store->put("b", "2"));
  EXPECT_FAILS(store->wait_change("a", before, Time::min()), StatusCode::kTimeout, "'a'");
  post(server, "/v3/kv/compaction", R"({"revision":")" + std::to_string(last) + "\"}");
  const auto late = open(server.url());
  ASSERT_NE(late, nullptr);
  EXPECT_EQ(*late->wait_change("a", before, Time::min()), last);
}

TEST_F(EtcdStoreTest, AFullOneIsSaidAndReadsGoOn) {
  EtcdServer server({"--quota-backend-bytes=4194304"});
  const auto store = open(server.url());
  ASSERT_NE(store, nullptr);
  ASSERT_OK_AND_ASSIGN(const LeaseId lease, store->grant_lease(1h));
  ASSERT_OK(store->put("k", "v", lease));
  const std::string value(1U << 20, 'v');
  Status put;
  for (int i = 0; i < 20 && put.ok(); ++i) put = store->put("large", value).status();
  EXPECT_FAILS(put, StatusCode::kExhausted, "put 'large': etcd says");
  EXPECT_FAILS(store->compare_and_put("k", 0, "v"), StatusCode::kExhausted, "space");
  EXPECT_EQ(store->get("k")->value, "v");
  EXPECT_OK(store->keep_alive(lease));
}

TEST_F(EtcdStoreTest, TheLargestEntriesPassAndAreWatched) {
  EtcdServer server;
  const auto store = open(server.url());
  ASSERT_NE(store, nullptr);
  const std::string key(1024, '\xff');
  ASSERT_OK_AND_ASSIGN(Revision last, store->wait_change(key, 0, Time::min()));
  for (const char byte : {'a', '\0', '\xff'}) {
    const std::string value(1U << 20, byte);
    ASSERT_OK(store->put(key, value));
    ASSERT_OK_AND_ASSIGN(last, store->wait_change(key, last, deadline_in(20s)));
    EXPECT_EQ(store->get(key)->value, value);
  }
  EXPECT_FAILS(store->get(key + "k"), StatusCode::kNotFound, "there is no such key");
  EXPECT_OK(store->remove(key + "k"));
  EXPECT_FAILS(store->list(key + "k"), StatusCode::kInvalidArgument, "1025 bytes");
}

TEST_F(EtcdStoreTest, PrefixesAreWatchedOneAfterTheOtherAndAtOnce) {
  EtcdServer server;
  const auto store = open(server.url());
  ASSERT_NE(store, nullptr);
  const auto key = [](int i) { return "k" + std::to_string(i) + "/"; };
  ASSERT_OK_AND_ASSIGN(const Revision start, store->put("k", "v"));
  for (int i = 0; i < 20; ++i) {
    EXPECT_FAILS(store->wait_change(key(i), start, Time::min()), StatusCode::kTimeout, key(i));
  }
  std::vector<std::thread> waiters;
  std::atomic<int> told{0};
  for (int i = 0; i < 20; ++i) {
    waiters.emplace_back(
        [&, i] { told += store->wait_change(key(i), start, deadline_in(30s)).ok() ? 1 : 0; });
  }
  for (int i = 0; i < 20; ++i) EXPECT_OK(store->put(key(i) + "x", "v"));
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(told.load(), 20);
}

TEST(EtcdStore, OpensNothingThatIsNoEtcd) {
  struct Case {
    const char* version;
    const char* status;
    StatusCode code;
    const char* says;
  };
  for (const Case& one :
       {Case{"<html>", "200 OK", StatusCode::kUnavailable, "is it an etcd that answers there"},
        Case{"Not Found", "404 Not Found", StatusCode::kUnavailable, "none of etcd's"},
        Case{R"({"etcdserver":"3.3.27"})", "200 OK", StatusCode::kInvalidArgument,
             "its version is 3.3; use etcd 3.4 or newer"}}) {
    ScriptedServer server([&](const std::string&, auto& peer) {
      peer.answer(one.version, one.status);
      return true;
    });
    EXPECT_FAILS(open_store(server.url(), system_runtime(), {.operation_timeout = 1s}), one.code,
                 one.says);
  }
  EXPECT_FAILS(open_store("etcd://127.0.0.1:1", system_runtime(), {.operation_timeout = 50ms}),
               StatusCode::kUnavailable, "did not answer for 50 ms");
  for (const char* url : {"etcd://nowhere", "etcd://a:1,b", "etcd://a:1,,b:2"}) {
    EXPECT_FAILS(open_store(url, system_runtime()), StatusCode::kInvalidArgument,
                 "it is not host:port");
  }
  std::string many = "etcd://a:1";
  for (int i = 0; i < 16; ++i) many += ",a:1";
  EXPECT_FAILS(open_store(many, system_runtime()), StatusCode::kInvalidArgument, "17 members");
}

}  // namespace
}  // namespace ffdl::store

#include "store/etcd/etcd_store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "store/etcd/http.h"
#include "store/failing_call.h"
#include "support/etcd_server.h"
#include "support/open_hurried.h"
#include "support/scripted_server.h"
#include "support/started_program.h"
#include "support/status_matchers.h"

namespace ffdl::store {
namespace {

using namespace std::chrono_literals;
using ::ffdl::testing::EtcdServer;
using ::ffdl::testing::open_hurried;
using ::ffdl::testing::ScriptedServer;

std::unique_ptr<Store> open(const std::string& url, Duration operation_timeout = 20s) {
  auto store = open_store(url, system_runtime(), {.operation_timeout = operation_timeout});
  EXPECT_OK(store);
  return store.ok() ? std::move(store).value() : nullptr;
}

// Writes beside the store, as another client of etcd would.
void post(const EtcdServer& server, const std::string& path, const std::string& body) {
  const size_t colon = server.address().find(':');
  const auto port = static_cast<uint16_t>(std::stoi(server.address().substr(colon + 1)));
  EtcdHttp http({"127.0.0.1", port}, system_runtime());
  ASSERT_OK_AND_ASSIGN(const auto answer, http.ask(path, body, deadline_in(60s)));
  EXPECT_EQ(answer.status, 200) << answer.body;
}

class EtcdStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = ffdl::testing::why_no_etcd(); !why.empty()) GTEST_SKIP() << why;
  }
};

TEST_F(EtcdStoreTest, CertificatesThatCannotBeUsedAreNamed) {
  const TempFolder folder;
  const std::string place = "etcd://127.0.0.1:1?";
  const auto refuse = [&](const std::string& option, const std::string& text) {
    EXPECT_FAILS(open_store(place + option, system_runtime(), {.operation_timeout = 1s}),
                 StatusCode::kInvalidArgument, text);
  };
  refuse("certificate=/folder", "'certificate=/folder' is no option; use certificates=/absolute");
  refuse("certificates=folder", "use certificates=/absolute/folder");
  refuse("certificates=" + folder.path(), "ca.pem': No such file");
  for (const char* const name : {"ca.pem", "client.pem", "client-key.pem"}) {
    folder.write(name, "no PEM");
  }
  EXPECT_FAILS(open_store(place + "certificates=" + folder.path(), system_runtime(),
                          {.operation_timeout = 1s}),
               StatusCode::kUnavailable, "OpenSSL cannot use 'client.pem' and 'client-key.pem'");
}

TEST_F(EtcdStoreTest, GoesOnWithTheSameEtcdAfterItsDeath) {
  EtcdServer server;
  const auto store = open(server.url());
  ASSERT_NE(store, nullptr);
  ASSERT_OK_AND_ASSIGN(const LeaseId lease, store->grant_lease(1h));
  ASSERT_OK_AND_ASSIGN(const Revision put, store->put("k", "v", lease));
  EXPECT_FAILS(store->wait_change("k", put, Time::min()), StatusCode::kTimeout, "'k'");
  server.kill();
  Result<Revision> changed = Revision{0};
  std::thread waiter([&] { changed = store->wait_change("k", put, deadline_in(60s)); });
  server.start();
  EXPECT_EQ(store->get("k")->revision, put);
  EXPECT_OK(store->keep_alive(lease));
  EXPECT_OK(store->put("k", "w", lease));
  waiter.join();
  ASSERT_OK(changed);
  EXPECT_GT(*changed, put);
}

// Makes a user for the keys of one job, and requires users from then on.
void require_users(const EtcdServer& server) {
  post(server, "/v3/auth/user/add", R"({"name":"root","password":"of root"})");
  post(server, "/v3/auth/role/add", R"({"name":"root"})");
  post(server, "/v3/auth/user/grant", R"({"user":"root","role":"root"})");
  post(server, "/v3/auth/user/add", R"({"name":"trainer","password":"a secret"})");
  post(server, "/v3/auth/role/add", R"({"name":"jobs"})");
  // "ffdl/" to "ffdl0"
  post(
      server, "/v3/auth/role/grant",
      R"({"name":"jobs","perm":{"permType":"READWRITE","key":"ZmZkbC8=","range_end":"ZmZkbDA="}})");
  post(server, "/v3/auth/user/grant", R"({"user":"trainer","role":"jobs"})");
  post(server, "/v3/auth/enable", "{}");
}

TEST_F(EtcdStoreTest, AUserReachesItsKeysAlsoAfterARestart) {
  EtcdServer server;
  ASSERT_NE(open(server.url()), nullptr);
  require_users(server);
  const std::string url = "etcd://trainer@" + server.address();
  const StoreOptions options{.operation_timeout = 20s, .secret = "a secret"};
  const auto store = open_store(url, system_runtime(), options);
  ASSERT_OK(store);
  EXPECT_OK((*store)->put("ffdl/job/k", "v"));
  ASSERT_OK_AND_ASSIGN(const Revision seen, (*store)->wait_change("ffdl/job/", 0, kNoDeadline));
  EXPECT_FAILS((*store)->put("other", "v"), StatusCode::kInvalidArgument, "give that user a role");
  // Tokens do not survive it.
  server.kill();
  server.start();
  EXPECT_OK((*store)->put("ffdl/job/k", "w"));
  EXPECT_OK((*store)->wait_change("ffdl/job/", seen, deadline_in(60s)));
  EXPECT_EQ((*store)->get("ffdl/job/k")->value, "w");
  ASSERT_OK_AND_ASSIGN(const LeaseId lease, (*store)->grant_lease(5s));
  EXPECT_OK((*store)->put("ffdl/job/leased", "v", lease));
  EXPECT_OK((*store)->keep_alive(lease));
  EXPECT_OK((*store)->end_lease(lease));

  EXPECT_FAILS(open_store("etcd://" + server.address(), system_runtime(), options),
               StatusCode::kInvalidArgument, "user name is empty");
  EXPECT_FAILS(open_store(url, system_runtime(), {.operation_timeout = 20s, .secret = "guessed"}),
               StatusCode::kInvalidArgument, "user 'trainer': etcd refuses; check the user");
}

TEST_F(EtcdStoreTest, UsersThatCannotBe) {
  const StoreOptions options{.operation_timeout = 20s, .secret = "s"};  // each refusal ends it
  EXPECT_FAILS(open_store("etcd://u@127.0.0.1:1", system_runtime(), {.operation_timeout = 1s}),
               StatusCode::kInvalidArgument, "user 'u' has no password");
  EXPECT_FAILS(open_store("etcd://u:p@127.0.0.1:1", system_runtime(), options),
               StatusCode::kInvalidArgument, "has a ':'; write USER@HOST:PORT");
  // Not a user: a folder has the sign.
  EXPECT_FAILS(open_store("etcd://127.0.0.1:1?certificates=/a@b", system_runtime(), options),
               StatusCode::kInvalidArgument, "read '/a@b/ca.pem'");
  EtcdServer server;
  ASSERT_NE(open(server.url()), nullptr);
  EXPECT_FAILS(open_store("etcd://u@corp@" + server.address(), system_runtime(), options),
               StatusCode::kInvalidArgument, "user 'u@corp': this etcd has no users");
  EXPECT_FAILS(open_store("etcd://u@192.0.2.1:1", system_runtime(), options),
               StatusCode::kInvalidArgument, "would cross the network in plain text");
}

TEST_F(EtcdStoreTest, OneThatIsGoneIsSaid) {
  EtcdServer server;
  const auto store = open(server.url());
  ASSERT_NE(store, nullptr);
  ASSERT_OK_AND_ASSIGN(const Revision put, store->put("k", "v"));
  const auto hurried = open_hurried(server.url(), 1s);
  ASSERT_NE(hurried, nullptr);
  // The first wait needs an answer of etcd, for which this store waits only a short time.
  Status waited;
  EXPECT_TRUE(comes_true([&] {
    waited = hurried->wait_change("k", put, Time::min()).status();
    return waited.code() == StatusCode::kTimeout;
  }));
  EXPECT_FAILS(waited, StatusCode::kTimeout, "'k'");
  server.stop();
  EXPECT_FAILS(hurried->put("k", "w"), StatusCode::kTimeout, "whether the call took effect");
  EXPECT_FAILS(hurried->get("k"), StatusCode::kUnavailable, "get 'k'");
  server.kill();
  EXPECT_FAILS(hurried->put("k", "w"), StatusCode::kUnavailable, "did not answer for 1000 ms");
  EXPECT_FAILS(hurried->wait_change("k", put + 1, deadline_in(10ms)), StatusCode::kTimeout, "'k'");
}

// Another store at the same address would assign revisions that this client has seen to other
// changes.
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
  EXPECT_FAILS(put, StatusCode::kExhausted, "put 'large': etcd reports");
  EXPECT_FAILS(store->compare_and_put("k", 0, "v"), StatusCode::kExhausted, "space");
  EXPECT_EQ(store->get("k")->value, "v");
  EXPECT_OK(store->keep_alive(lease));
}

TEST_F(EtcdStoreTest, TheLargestEntriesPassAndAreWatched) {
  EtcdServer server;
  const auto store = open(server.url());
  ASSERT_NE(store, nullptr);
  std::string key;  // the last possible key, of the last characters of Unicode
  while (key.size() < 1024) key += "\xf4\x8f\xbf\xbf";
  ASSERT_OK_AND_ASSIGN(Revision last, store->wait_change(key, 0, Time::min()));
  for (const char byte : {'a', '\0', '\xff'}) {
    const std::string value(1U << 20, byte);
    ASSERT_OK(store->put(key, value));
    ASSERT_OK_AND_ASSIGN(last, store->wait_change(key, last, deadline_in(60s)));
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
        [&, i] { told += store->wait_change(key(i), start, deadline_in(60s)).ok() ? 1 : 0; });
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
        Case{"Not Found", "404 Not Found", StatusCode::kUnavailable, "not etcd's"},
        Case{R"({"etcdserver":"3.3.27"})", "200 OK", StatusCode::kInvalidArgument,
             "its version is 3.3; use etcd 3.4 or newer"}}) {
    ScriptedServer server([&](const std::string&, auto& peer) {
      peer.answer(one.version, one.status);
      return true;
    });
    expect_call_fails(
        [&] {
          return open_store(server.url(), system_runtime(), {.operation_timeout = 1s}).status();
        },
        one.code, one.says);
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

#include "store/tcp/tcp_store.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "store/failing_call.h"
#include "support/fork_child.h"
#include "support/lossy_proxy.h"
#include "support/open_hurried.h"
#include "support/started_program.h"
#include "support/status_matchers.h"
#include "support/temp_folder.h"

namespace ffdl::store {
namespace {

using namespace std::chrono_literals;
using ::ffdl::testing::LossyProxy;
using ::ffdl::testing::open_hurried;

// Opens a store behind a proxy that loses replies; `direct_` bypasses it.
class TcpStoreTest : public ::testing::Test {
 protected:
  TcpStoreTest()
      : server_(
            Server::start({.folder = folder_.path(), .address = {"127.0.0.1", 0}}, system_runtime())
                .value()),
        proxy_(server_->address()),
        direct_(open("tcp://" + server_->address().text())) {}

  static std::unique_ptr<Store> open(const std::string& url, const StoreOptions& options = {}) {
    auto store = open_store(url, system_runtime(), options);
    EXPECT_OK(store);
    return std::move(store).value();
  }
  Revision newest() { return *direct_->wait_change("", 0, Time::min()); }
  // Another process may have the port for a moment.
  void start_again(const TempFolder& folder, const net::Address& address) {
    EXPECT_TRUE(comes_true([&] {
      auto started = Server::start({.folder = folder.path(), .address = address}, system_runtime());
      if (started.ok()) server_ = std::move(started).value();
      return started.ok();
    }));
  }

  const TempFolder folder_;
  std::unique_ptr<Server> server_;
  LossyProxy proxy_;
  std::unique_ptr<Store> direct_;
};

TEST_F(TcpStoreTest, TheSecretIsNotSentAndKeysAndValuesAreInPlainText) {
  const TempFolder folder;
  const std::string secret = "only proofs of it are sent";
  const auto server = Server::start(
      {.folder = folder.path(), .address = {"127.0.0.1", 0}, .secret = secret}, system_runtime());
  ASSERT_OK(server);
  LossyProxy proxy((*server)->address());
  ASSERT_OK(open(proxy.url(), {.secret = secret})->put("a plain key", "a plain value"));
  const std::string passed = proxy.passed();
  EXPECT_EQ(passed.find(secret), std::string::npos);
  EXPECT_NE(passed.find("a plain key"), std::string::npos);
  EXPECT_NE(passed.find("a plain value"), std::string::npos);
}

TEST_F(TcpStoreTest, AChangeWhoseReplyIsLostTakesEffectOnce) {
  const auto store = open(proxy_.url());
  const Revision start = newest();
  proxy_.lose_next_reply();
  ASSERT_OK_AND_ASSIGN(const Revision made, store->compare_and_put("k", 0, "1"));
  EXPECT_EQ(made, start + 1);
  proxy_.lose_next_reply();
  ASSERT_OK_AND_ASSIGN(const Revision next, store->compare_and_put("k", made, "2"));
  EXPECT_EQ(next, start + 2);
  proxy_.lose_next_reply();
  EXPECT_EQ(*store->put("k", "3"), start + 3);
  proxy_.lose_next_reply();
  EXPECT_OK(store->remove("k"));
  EXPECT_EQ(newest(), start + 4);
  proxy_.lose_next_reply();
  EXPECT_FAILS(store->get("k"), StatusCode::kNotFound, "'k'");
  EXPECT_EQ(proxy_.lost(), 5);
}

TEST_F(TcpStoreTest, AConflictWhoseReplyIsLostIsAConflict) {
  const auto store = open(proxy_.url());
  ASSERT_OK(direct_->put("k", "v"));
  const Revision start = newest();
  proxy_.lose_next_reply();
  EXPECT_FAILS(store->compare_and_put("k", 0, "1"), StatusCode::kConflict, "'k'");
  EXPECT_EQ(newest(), start);
  EXPECT_EQ(proxy_.lost(), 1);
}

TEST_F(TcpStoreTest, AServerThatDoesNotAnswerIsSaid) {
  const auto store = open_hurried(proxy_.url(), 1s);
  ASSERT_NE(store, nullptr);
  proxy_.swallow_replies(true);
  EXPECT_FAILS(store->put("k", "v"), StatusCode::kTimeout, "whether the call took effect");
  EXPECT_FAILS(store->get("k"), StatusCode::kUnavailable, "get 'k'");
  EXPECT_FAILS(store->wait_change("k", newest(), Time::min()), StatusCode::kTimeout, "'k'");
  proxy_.swallow_replies(false);
  EXPECT_TRUE(comes_true([&] { return store->put("k", "w").ok(); }));
}

TEST_F(TcpStoreTest, AServerThatIsGoneIsSaidAndFoundAgain) {
  const auto store = open_hurried("tcp://" + server_->address().text(), 1s);
  ASSERT_NE(store, nullptr);
  const net::Address address = server_->address();
  server_.reset();
  EXPECT_FAILS(store->get("k"), StatusCode::kUnavailable, address.text());
  EXPECT_FAILS(store->wait_change("k", 1, Time::min()), StatusCode::kTimeout, "'k'");
  start_again(folder_, address);
  EXPECT_TRUE(comes_true([&] { return store->put("k", "v").ok(); }));
}

TEST_F(TcpStoreTest, AWaitGoesOnOverAnotherConnection) {
  const auto store = open(proxy_.url());
  const Revision start = newest();
  Result<Revision> changed = Revision{0};
  std::thread waiter([&] { changed = store->wait_change("k", start, deadline_in(60s)); });
  proxy_.cut();
  EXPECT_OK(direct_->put("k", "v"));
  waiter.join();
  ASSERT_OK(changed);
  EXPECT_GT(*changed, start);
}

TEST_F(TcpStoreTest, LeasesEndWithTheConnectionUnlessTheyShallOutliveIt) {
  auto fleeting = open(proxy_.url());
  StoreOptions options;
  options.leases_outlive_connection = true;
  auto lasting = open(proxy_.url(), options);
  ASSERT_OK_AND_ASSIGN(const LeaseId one, fleeting->grant_lease(1h));
  ASSERT_OK_AND_ASSIGN(const LeaseId two, lasting->grant_lease(1h));
  ASSERT_OK(fleeting->put("one", "v", one));
  ASSERT_OK_AND_ASSIGN(const Revision start, lasting->put("two", "v", two));
  proxy_.cut();
  EXPECT_OK(direct_->wait_change("one", start, deadline_in(60s)));
  EXPECT_FAILS(fleeting->keep_alive(one), StatusCode::kNotFound, "it has ended");
  EXPECT_OK(lasting->keep_alive(two));
  lasting.reset();
  EXPECT_OK(direct_->get("two"));
}

TEST_F(TcpStoreTest, AnotherSecretIsRefusedAtOnce) {
  StoreOptions options;
  options.operation_timeout = 1h;
  options.secret = "another";
  EXPECT_FAILS(open_store(proxy_.url(), system_runtime(), options), StatusCode::kInvalidArgument,
               "another secret");
}

TEST_F(TcpStoreTest, NoServerIsSaidAfterATime) {
  const StoreOptions options{.operation_timeout = 30ms};
  EXPECT_FAILS(open_store("tcp://127.0.0.1:1", system_runtime(), options), StatusCode::kUnavailable,
               "no server after 30 ms");
  EXPECT_FAILS(open_store("tcp://nowhere", system_runtime(), options), StatusCode::kInvalidArgument,
               "it is not host:port");
}

// Another store at the same address would assign revisions that this client has seen to other
// changes.
TEST_F(TcpStoreTest, AStoreThatBeganAnewIsAnotherOne) {
  // The call fails at its time-out, since the folder might be restored.
  const auto store = open_hurried("tcp://" + server_->address().text(), 2s);
  ASSERT_NE(store, nullptr);
  ASSERT_TRUE(comes_true([&] { return store->put("k", "v").ok(); }));
  const net::Address address = server_->address();
  server_.reset();
  const TempFolder empty;
  start_again(empty, address);
  expect_call_fails([&] { return store->get("k").status(); }, StatusCode::kUnavailable,
                    "another store than before");
  server_.reset();
}

TEST_F(TcpStoreTest, WhatIsTooLargeIsNotSent) {
  const std::string large(2U << 20, 'k');
  EXPECT_FAILS(direct_->put("k", large), StatusCode::kInvalidArgument, "a value of 2097152 bytes");
  EXPECT_FAILS(direct_->get(large), StatusCode::kInvalidArgument, "a request of");
  EXPECT_FAILS(direct_->list(large), StatusCode::kInvalidArgument, "a request of");
  EXPECT_OK(direct_->put("k", "v"));
}

TEST_F(TcpStoreTest, AForkedChildIsToldToOpenItsOwn) {
  const pid_t child = testing::fork_child();
  if (child == 0) _exit(direct_->get("k").status().code() == StatusCode::kCancelled ? 0 : 1);
  int outcome = -1;
  waitpid(child, &outcome, 0);
  EXPECT_EQ(outcome, 0);
}

}  // namespace
}  // namespace ffdl::store
